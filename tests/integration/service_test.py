"""shoald as a service: what it tells its manager, its units, and what `shoal uninstall` removes."""

import os
import re
import shutil
import socket
import subprocess
import unittest

import harness
from harness import Daemon, NOT_RUNNING, FAILURE, run, run_json, wait_for

# Of `systemd-analyze security`, from 0 to 10; what GPUs and the network need leaves about 2.
EXPOSURE_MAX = 2.5
EXPOSURE_OF_ORGANISERS_MAX = 1.8


class ServiceTest(harness.SwarmTest):

    def setUp(self):
        super().setUp()
        self.env = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
        self.env["HOME"] = str(self.folder)
        self.state = self.folder / "state"
        self.flags = ["--dir", self.state, "--listen", "127.0.0.1:0", "--status-listen",
                      "127.0.0.1:0"]

    def test_the_manager_hears_of_start_work_and_end(self):
        path = str(self.folder / "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(path)
            manager.settimeout(30)
            shoald = Daemon("shoald", self.flags, self.folder / "log",
                            env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "900000"})
            self.addCleanup(shoald.kill)
            self.assertEqual(manager.recv(256), b"READY=1")
            run("shoal", "health", "--dir", self.state)  # ready is ready
            for _ in range(3):
                self.assertEqual(manager.recv(256), b"WATCHDOG=1")
            shoald.signal(15)
            while (heard := manager.recv(256)) == b"WATCHDOG=1":
                pass
            self.assertEqual(heard, b"STOPPING=1")
            self.assertEqual(shoald.wait(30), 0)

    def shoal(self, *words, check=True):
        return run("shoal", *words, env=self.env, check=check)

    def test_a_user_installs_looks_and_removes(self):
        unit = self.folder / ".config/systemd/user/shoald.service"
        self.assertEqual(self.shoal("service", "status", check=False).returncode, NOT_RUNNING)
        said = self.shoal("service", "install", "--dir", self.state).stdout
        self.assertIn("systemctl --user enable --now shoald.service", said)
        self.assertIn(f"next: shoal join INVITE --no-start --dir {self.state}\n", said)
        self.assertIn(f'--dir "{self.state}"', unit.read_text())
        status = self.shoal("service", "status", "--json", check=False)
        self.assertEqual(status.returncode, NOT_RUNNING)
        self.assertRegex(status.stdout, r'^\{"schemaVersion":1,"installed":true,')
        self.shoal("service", "install")  # again, without --dir
        self.assertNotIn("--dir", unit.read_text())
        self.shoal("service", "remove")
        self.assertFalse(unit.exists())
        unit.write_text("[Unit]\n")  # of somebody else
        for word in ("install", "remove"):
            refused = self.shoal("service", word, check=False)
            self.assertEqual(refused.returncode, FAILURE)
            self.assertIn("is not of `shoal service`", refused.stderr)
        self.assertEqual(unit.read_text(), "[Unit]\n")

    @unittest.skipUnless(harness.is_root() and os.path.exists("/usr/bin/systemctl"),
                         "needs root and systemctl")
    def test_what_systemctl_is_asked(self):
        runtime = self.folder / "runtime"
        (runtime / "systemd/private").mkdir(parents=True)
        fake, log = self.folder / "systemctl", self.folder / "asked"
        fake.write_text(f'#!/bin/sh\necho "$*" >>"{log}"\n')
        fake.chmod(0o755)

        def asked(*words):
            log.unlink(missing_ok=True)
            done = subprocess.run(
                ["unshare", "--mount", "sh", "-ec",
                 'mount --bind "$0" /usr/bin/systemctl; exec "$@"', fake,
                 harness.program("shoal"), *map(str, words)],
                env={**self.env, "XDG_RUNTIME_DIR": str(runtime)}, capture_output=True, text=True,
                check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            return [line.removeprefix("--user ") for line in log.read_text().splitlines()]

        now = ["daemon-reload", "enable --now shoald.service"]
        self.assertEqual(asked("service", "install"), now)
        self.assertEqual(asked("service", "install"), now, "nothing changed")
        self.assertEqual(asked("service", "install", "--dir", self.state),
                         ["daemon-reload", "enable shoald.service", "restart shoald.service"])
        self.assertEqual(asked("uninstall", "--dir", self.folder / "another", "--yes"),
                         ["disable --now shoald.service"])
        self.assertEqual(asked("service", "install")[-1], now[-1], "the unit was removed")
        self.assertEqual(asked("service", "remove")[0], "disable --now shoald.service")

    def test_the_machines_service_writes_to_its_own_folder_only(self):
        for folder, taken in (("/var/lib/shoal", True), ("/var/lib/shoal/b", True),
                              ("/var/lib/shoals", False), ("/srv/shoal", False)):
            unit = self.shoal("service", "unit", "--system", "--dir", folder, check=False)
            self.assertEqual(unit.returncode == 0, taken, unit.stderr)
            if not taken:
                self.assertIn("/var/lib/shoal only", unit.stderr)

    def test_the_machines_service_takes_nothing_from_homes(self):
        config = os.path.join(os.sep, "root", "shoald.toml")
        unit = self.shoal("service", "unit", "--system", "--config", config, check=False)
        self.assertEqual(unit.returncode, FAILURE)
        self.assertIn("cannot read homes", unit.stderr)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze")
    def test_systemd_takes_the_units(self):
        for flags in ([], ["--system"]):
            unit = self.folder / "shoald.service"
            unit.write_text(self.shoal("service", "unit", *flags).stdout)
            verified = subprocess.run(
                ["systemd-analyze", "verify", "--man=no", *([] if flags else ["--user"]),
                 str(unit)],
                capture_output=True, text=True, check=False,
                env={**self.env, "XDG_RUNTIME_DIR": str(self.folder)})
            self.assertEqual((verified.stderr, verified.returncode), ("", 0))
        self.assert_closed(unit, EXPOSURE_MAX)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze")
    def test_systemd_takes_the_organisers_units(self):
        for name in ("shoal-scheduler@", "shoal-relay"):
            text = (harness.SOURCE / f"deploy/{name}.service").read_text()
            unit = self.folder / f"{name.replace('@', '@run')}.service"
            unit.write_text(re.sub(r"/usr/bin/(shoal-\w+)",
                                   lambda match: harness.program(match[1]), text))
            verified = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)],
                                      capture_output=True, text=True, check=False)
            self.assertEqual((verified.stderr, verified.returncode), ("", 0))
            self.assert_closed(unit, EXPOSURE_OF_ORGANISERS_MAX)

    def assert_closed(self, unit, most):
        security = subprocess.run(["systemd-analyze", "security", "--offline=true", str(unit)],
                                  capture_output=True, text=True, check=False)
        exposure = re.search(r"Overall exposure level for [^:]*: ([0-9.]+)", security.stdout)
        self.assertLessEqual(float(exposure[1]), most, security.stdout)

    def test_uninstall_lists_and_removes_what_is_left(self):
        shoald = Daemon("shoald", self.flags, self.folder / "log")
        self.addCleanup(shoald.kill)
        uninstall = ("uninstall", "--dir", self.state)
        wait_for(lambda: run("shoal", "health", "--dir", self.state, check=False).returncode == 0,
                 30, "shoald runs")
        refused = self.shoal(*uninstall, "--yes", check=False)
        self.assertEqual(refused.returncode, FAILURE)
        self.assertIn("shoal leave", refused.stderr)
        shoald.stop()
        self.shoal("service", "install")
        listed = run_json("shoal", *uninstall, "--json", env=self.env)
        there = {os.path.basename(file["path"]) for file in listed["files"]}
        self.assertLess({"identity.key", "deltas", "shoald.log", "shoald.service"}, there)
        self.assertEqual({path.name for path in self.state.iterdir()} - there, set(),
                         "shoald leaves nothing that is not listed")
        self.assertIn("identity.key", self.shoal(*uninstall, check=False).stdout)
        self.assertTrue(self.state.exists(), "nobody said yes")
        self.shoal(*uninstall, "--yes")
        self.assertFalse(self.state.exists())
        self.assertFalse((self.folder / ".config/systemd/user/shoald.service").exists())


if __name__ == "__main__":
    unittest.main()
