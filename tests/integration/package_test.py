"""The Debian package: what is in it, and that its programs work from where it puts them."""

import gzip
import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

import harness

BUILD = harness.BIN.parent
MANUAL = ("shoal", "shoald", "shoal-scheduler", "shoal-relay", "shoal-run")

if BUILD.name != "release":
    harness.skip_file("packages are made of the preset release")
if not shutil.which("dpkg-shlibdeps"):
    harness.skip_file("there is no dpkg-shlibdeps (dpkg-dev)")


def output(*command, **options):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True,
                          **options).stdout


class PackageTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = cls.enterClassContext(harness.Folder())
        made = output(harness.SOURCE / "deploy/make_deb", os.path.relpath(BUILD, harness.SOURCE),
                      env={**os.environ, "SHOAL_DEB_COMPRESSION": "none"})
        cls.package = cls.folder / "shoal.deb"
        shutil.move(harness.SOURCE / made.strip(), cls.package)
        cls.root = cls.folder / "root"
        cls.install()

    @classmethod
    def install(cls):
        """As dpkg does, but for dependencies; without root its files only."""
        if not harness.is_root():
            output("dpkg", "-x", cls.package, cls.root)
            return
        for folder in ("info", "updates"):
            (cls.root / "var/lib/dpkg" / folder).mkdir(parents=True)
        (cls.root / "var/lib/dpkg/status").touch()
        cls.dpkg("--force-depends", "--install", cls.package)

    @classmethod
    def dpkg(cls, *words):
        output("dpkg", f"--root={cls.root}", f"--log={cls.root}/log", "--force-script-chrootless",
               *words)

    def run_installed(self, name, *words):
        env = {key: value for key, value in os.environ.items() if not key.startswith("SHOAL_")}
        return subprocess.run([str(self.root / "usr/bin" / name), *words], capture_output=True,
                              text=True, check=False,
                              env={**env, "SHOAL_DIR": str(self.folder / "none")})

    def test_depends_on_what_debian_has_and_carries_the_rest(self):
        field = output("dpkg-deb", "--field", self.package, "Depends")
        depends = {re.match(r"\S+", part)[0] for part in field.split(", ")}
        self.assertLess({"libc6", "libgrpc++1.51", "librocksdb7.8", "libsystemd0", "libsodium23"},
                        depends)
        carried = {path.name for path in (self.root / "usr/lib/shoal").iterdir()}
        self.assertLess({"libtorch_cpu.so", "libc10.so", "libgomp.so.1"}, carried)
        for program in (self.root / "usr/bin").iterdir():
            for line in output("ldd", program).splitlines():
                self.assertNotIn("not found", line, program.name)
                self.assertNotIn(str(harness.SOURCE), line, f"{program.name} needs this tree")

    def test_its_programs_work(self):
        for name in (*MANUAL, "shoal-bench"):
            done = self.run_installed(name, "--version")
            self.assertRegex(done.stdout, rf"^{name} \d+\.\d+\.\d+\n$", done.stderr)
        doctor = self.run_installed("shoal", "doctor").stdout
        for name in ("shoald", "shoal-scheduler", "shoal-run"):
            self.assertRegex(doctor, rf"(?m)^ok +{name} ")

    def test_has_units_pages_completions_and_samples(self):
        for path in ("etc/shoal/shoald.toml", "usr/share/doc/shoal/examples/run.toml",
                     "usr/share/doc/shoal/copyright", "usr/share/shoal/examples/tiny-gpt2"):
            self.assertTrue((self.root / path).exists(), path)
        for path in ("lib/systemd/system", "usr/lib/systemd/user"):
            unit = (self.root / path / "shoald.service").read_text()
            self.assertIn('ExecStart="/usr/bin/shoald"', unit)
        scheduler = (self.root / "lib/systemd/system/shoal-scheduler@.service").read_text()
        self.assertIn("ExecStart=/usr/bin/shoal-scheduler ", scheduler)
        for name in MANUAL:
            page = gzip.open(self.root / f"usr/share/man/man1/{name}.1.gz", "rt").read()
            self.assertIn(".SH SYNOPSIS\n", page)
            self.assertNotIn(str(harness.SOURCE), page)
        for path in ("bash-completion/completions/shoal", "zsh/vendor-completions/_shoal",
                     "fish/vendor_completions.d/shoal.fish"):
            self.assertIn("swarm", (self.root / "usr/share" / path).read_text())

    def test_listed_files_belong_to_root_and_are_not_secret_or_writable(self):
        for line in output("dpkg-deb", "--contents", self.package).splitlines():
            self.assertRegex(line, r"^(-rw-r--r--|[-d]rwxr-xr-x) root/root ")

    @unittest.skipUnless(harness.is_root(), "only root installs packages")
    def test_goes_without_leaving_programs(self):
        root = Path(self.root)
        try:
            self.dpkg("--remove", "shoal")
            self.assertFalse((root / "usr/bin/shoal").exists())
            self.assertTrue((root / "etc/shoal/shoald.toml").exists(), "settings stay")
        finally:
            self.dpkg("--force-depends", "--install", self.package)


if __name__ == "__main__":
    unittest.main()
