"""The Debian package and the archive: what is in them, and that their programs work from there."""

import gzip
import os
import re
import shutil
import subprocess
import tarfile
import unittest
from pathlib import Path

import harness

BUILD = harness.BIN.parent
MANUAL = ("shoal", "shoald", "shoal-scheduler", "shoal-relay", "shoal-run")
# What comes with glibc itself, whose parts must be of one version with the machine's loader.
GLIBC = re.compile(r"lib(c|m|mvec|dl|rt|pthread|util|resolv|anl|nsl)\.so\.\d+$|ld-linux")
UNITS = ("shoald.service", "shoal-scheduler@.service", "shoal-relay.service")

if BUILD.name != "release":
    harness.skip_file("packages are made of the preset release")
if not shutil.which("dpkg-shlibdeps"):
    harness.skip_file("there is no dpkg-shlibdeps (dpkg-dev)")


def output(*command, **options):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True,
                          **options).stdout


def make(kind, path, **environment):
    made = output(harness.SOURCE / f"deploy/make_{kind}", os.path.relpath(BUILD, harness.SOURCE),
                  env={**os.environ, **environment})
    shutil.move(harness.SOURCE / made.strip(), path)
    return path


def loaded_from(program):
    """Name and path of each library that a program loads, in an empty environment."""
    for line in output("ldd", program, env={}).splitlines():
        name, _, path = line.strip().partition(" => ")
        if path:
            yield name, path.split(" (")[0]


class PackageTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = cls.enterClassContext(harness.Folder())
        cls.package = make("deb", cls.folder / "shoal.deb", SHOAL_DEB_COMPRESSION="none")
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
        for path in ("etc/shoal/shoald.toml", "etc/shoal/relay.env",
                     "usr/share/doc/shoal/examples/run.toml",
                     "usr/share/doc/shoal/copyright", "usr/share/shoal/examples/tiny-gpt2"):
            self.assertTrue((self.root / path).exists(), path)
        for path in ("lib/systemd/system", "usr/lib/systemd/user"):
            unit = (self.root / path / "shoald.service").read_text()
            self.assertIn('ExecStart="/usr/bin/shoald"', unit)
        for unit in UNITS[1:]:
            program = re.sub(r"@?\.service", "", unit)
            self.assertIn(f"ExecStart=/usr/bin/{program} ",
                          (self.root / "lib/systemd/system" / unit).read_text())
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


class ArchiveTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = cls.enterClassContext(harness.Folder())
        archive = make("archive", cls.folder / "shoal.tar.zst", SHOAL_ARCHIVE_LEVEL="1")
        output("zstd", "--decompress", "--rm", "-q", archive)
        with tarfile.open(cls.folder / "shoal.tar") as tar:
            cls.members = tar.getmembers()
        place = cls.folder / "an odd place"
        place.mkdir()
        output("tar", "--extract", "--file", cls.folder / "shoal.tar", "--directory", place)
        [cls.root] = place.iterdir()
        cls.programs = sorted((cls.root / "bin").iterdir())

    def test_its_programs_start_without_any_environment(self):
        self.assertEqual({path.name for path in self.programs}, {*MANUAL, "shoal-bench"})
        for program in self.programs:
            said = output("env", "-i", program, "--version")
            self.assertEqual(said, f"{program.name} {self.root.name.removeprefix('shoal-')}\n")
            self.assertIn("--", output("env", "-i", program, "--help"))
        doctor = subprocess.run(["env", "-i", f"HOME={self.folder}", self.root / "bin/shoal",
                                 "doctor"], capture_output=True, text=True, check=False).stdout
        for name in ("shoald", "shoal-scheduler", "shoal-run"):
            self.assertRegex(doctor, rf"(?m)^ok +{name} ")

    def test_only_glibc_is_the_machines(self):
        inside = str(self.root.resolve())
        for program in self.programs:
            loaded = dict(loaded_from(program))
            self.assertIn("libc.so.6", loaded)
            for name, path in loaded.items():
                where = os.path.realpath(path)
                self.assertEqual(where.startswith(inside), not GLIBC.match(name),
                                 f"{program.name}: {name} => {path}")
        carried = {path.name for path in (self.root / "lib/shoal").iterdir()}
        self.assertLess({"libtorch_cpu.so", "libgomp.so.1", "libstdc++.so.6", "libgcc_s.so.1",
                         "libgrpc++.so.1.51", "libssl.so.3"}, carried)

    @unittest.skipUnless(harness.is_root(), "only root changes roots")
    def test_a_swarm_trains_where_there_is_nothing_but_glibc(self):
        machine = self.folder / "machine"
        for name in ("proc", "dev", "tmp", "opt"):
            (machine / name).mkdir(parents=True)
        output("cp", "-al", self.root, machine / "opt/shoal")
        for program in self.programs:
            for path in re.findall(r"(?m)(?:^\s*|=> )(/.*) \(", output("ldd", program, env={})):
                place = machine / path[1:]
                if str(self.root) not in path and not place.exists():
                    place.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(path, place)
        script = ('mount --bind /proc "$1/proc" && mount --bind /dev "$1/dev" && '
                  'exec chroot "$1" /opt/shoal/bin/shoal demo --steps 4 --pipelines 1 --json')
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", machine],
                              capture_output=True, text=True, check=False, timeout=240,
                              env={"PATH": os.environ["PATH"]},
                              preexec_fn=harness.die_with_parent)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"schemaVersion"', done.stdout)

    def test_says_which_glibc_it_needs(self):
        needed = set()
        for path in [*self.programs, *(self.root / "lib/shoal").iterdir()]:
            needed.update(re.findall(r" GLIBC_(2(?:\.\d+)+)$", output("objdump", "-p", path),
                                     re.M))
        newest = max(needed, key=lambda version: [int(part) for part in version.split(".")])
        readme = (self.root / "README.txt").read_text()
        self.assertIn(f"- glibc {newest} or newer", readme)
        self.assertIn(f"shoal {self.root.name.removeprefix('shoal-')} for Linux", readme)

    def test_has_pages_units_samples_and_licences(self):
        share = self.root / "share"
        for path in ("man/man1/shoal.1.gz", "bash-completion/completions/shoal",
                     "doc/shoal/examples/shoald.toml", "doc/shoal/examples/run.toml",
                     "doc/shoal/examples/relay.env", "shoal/examples/tiny-gpt2",
                     "doc/shoal/licenses/libgrpc29", "doc/shoal/licenses/libstdc++6"):
            self.assertTrue((share / path).exists(), path)
        for unit in UNITS:
            self.assertRegex((share / "systemd" / unit).read_text(),
                             r'(?m)^ExecStart="?/opt/shoal/bin/shoal')
        self.assertIn("torch", (share / "doc/shoal/copyright").read_text().lower())

    def test_the_order_of_its_files_says_nothing_of_the_machine(self):
        names = [member.name for member in self.members]
        self.assertEqual(names, sorted(names, key=lambda name: name.split("/")))
        self.assertEqual({(m.uid, m.gid, m.uname, m.gname) for m in self.members},
                         {(0, 0, "", "")})
        self.assertEqual(len({m.mtime for m in self.members}), 1)
        for member in self.members:
            runs = member.isdir() or "/bin/" in member.name
            self.assertEqual(member.mode, 0o755 if runs else 0o644, member.name)
        for path in (self.root / "share").rglob("*"):
            if path.is_file() and not path.match("examples/*"):
                self.assertNotIn(str(harness.SOURCE).encode(), path.read_bytes(), path)


if __name__ == "__main__":
    unittest.main()
