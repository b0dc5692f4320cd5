"""What all tests with real processes share: programs, a small model, folders, processes.

Environment, as ctest sets it: SHOAL_BIN, SHOAL_SOURCE_DIR, SHOAL_SHARED_DATA (may be absent).
"""

import ctypes
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("SHOAL_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BIN = Path(os.environ.get("SHOAL_BIN", SOURCE / "build/release/bin"))
SHARED = Path(os.environ.get("SHOAL_SHARED_DATA", SOURCE.parent / "shared/data"))
EXAMPLES = SOURCE / "examples"
CACHE = BIN.parent / "integration-cache"
KEEP = os.environ.get("SHOAL_KEEP_FOLDERS") == "1"

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1

# Exit codes, as docs/OPERATIONS.md lists them.
OK, FAILURE, USAGE, NOT_RUNNING, TRY_LATER, PERMISSION, BAD_CONFIG = 0, 1, 2, 3, 75, 77, 78


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def program(name):
    path = BIN / name
    if not path.exists():
        raise AssertionError(f"{path} is missing: build it first")
    return str(path)


def run(name, *arguments, timeout=60, check=True, prefix=(), **options):
    """Runs one of our programs to its end: exit code, standard output and error as text."""
    command = [*prefix, program(name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                          preexec_fn=die_with_parent, check=False, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done


def run_json(name, *arguments, **options):
    return json.loads(run(name, *arguments, **options).stdout)


def wait_for(check, timeout, what, poll=0.05):
    """The first true value of check(); an AssertionError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what() if callable(what) else what}")
        time.sleep(poll)


def tail(path, lines=15):
    try:
        return "\n".join(Path(path).read_text(errors="replace").splitlines()[-lines:])
    except OSError as error:
        return str(error)


class Daemon:
    """A process of ours; its output goes to a file; it dies with this process."""

    def __init__(self, name, arguments, log, prefix=(), env=None):
        self.log = Path(log)
        with open(self.log, "ab") as output:
            self.process = subprocess.Popen(
                [*prefix, program(name), *map(str, arguments)], stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, preexec_fn=die_with_parent,
                env={**os.environ, **(env or {})})
        self.name = self.log.stem

    @property
    def pid(self):
        return self.process.pid

    def poll(self):
        return self.process.poll()

    def signal(self, number):
        if self.poll() is None:
            self.process.send_signal(number)

    def wait(self, timeout):
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {timeout} s; its last lines:\n"
                                 f"{tail(self.log)}") from None

    def stop(self, timeout=30):
        """SIGTERM; the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def kill(self):
        """SIGKILL, and gone when this returns."""
        self.signal(signal.SIGKILL)
        self.process.wait()


def processes_naming(text):
    """Ids of the processes, except this one, whose command line holds `text`."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            line = Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ").decode()
            state = Path("/proc", entry, "stat").read_text().rsplit(")", 1)[1].split()[0]
        except (OSError, IndexError):
            continue
        if text in line and state != "Z":
            found.append(int(entry))
    return found


class Folder:
    """A temporary folder, short enough for socket paths; kept when SHOAL_KEEP_FOLDERS=1."""

    def __init__(self):
        self.path = Path(tempfile.mkdtemp(prefix="shoal-test-"))

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        if KEEP:
            print(f"kept {self.path}", file=sys.stderr)
        else:
            shutil.rmtree(self.path, ignore_errors=True)


def cached(name, make):
    """CACHE/name, made once per build folder by make(temporary path), also with tests side by
    side."""
    CACHE.mkdir(parents=True, exist_ok=True)
    path = CACHE / name
    with open(CACHE / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            temporary = CACHE / (name + ".tmp")
            if temporary.is_dir():
                shutil.rmtree(temporary)
            make(temporary)
            temporary.rename(path)
    return path


def model():
    """The model of examples/ with fresh weights: 4 layers, width 128, 1,024 tokens."""
    return cached("model", lambda path: run(
        "shoal-run", "init-model", "--config", EXAMPLES / "tiny-gpt2/config.json",
        "--out", path, "--seed", 7))


def text(size):
    def make(path):
        path.write_text((EXAMPLES / "tinyshakespeare.txt").read_text()[:size])
    return cached(f"text-{size}.txt", make)


def data(row=32, size=40_000):
    """Prepared from the first `size` bytes of Shakespeare; 20 kB give 251 training rows of 32."""
    source, tokenizer = text(size), model()
    return cached(f"data-{row}-{size}.shoal", lambda path: run(
        "shoal-run", "prepare", "--tokenizer", tokenizer, "--text", source, "--row", row,
        "--out", path))


def free_port():
    """A port of 127.0.0.1 that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_root():
    return os.geteuid() == 0


def skip_file(reason):
    """Ends the test program; ctest counts it as skipped."""
    print(f"skipped: {reason}")
    sys.exit(0)


class SwarmTest(unittest.TestCase):
    """Adds a folder per test and a check that no process of it is left."""

    maxDiff = 2000

    def setUp(self):
        folder = Folder()
        self.folder = folder.path
        self.explained = []  # swarms that do not see how the test ends
        self.addCleanup(folder.__exit__)
        self.addCleanup(self._nothing_left)

    def _callTestMethod(self, method):
        try:
            method()
        except Exception:
            for swarm in self.explained:
                swarm.explain()
            raise

    def _nothing_left(self):
        left = processes_naming(str(self.folder))
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        self.assertEqual(left, [], "processes were left running")

    def assert_refused(self, done, code, *patterns):
        """One line on standard error, beside the log's, with all of `patterns`, and this code."""
        lines = [line for line in done.stderr.splitlines()
                 if line.strip() and not re.match(r"\d{4}-\d\d-\d\dT[\d:.+]+ \w+ ", line)]
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(len(lines), 1, f"wanted one line, got:\n{done.stderr}")
        for pattern in patterns:
            self.assertRegex(lines[0], re.compile(pattern, re.I))


def main():
    unittest.main(module="__main__", verbosity=2, failfast=False)
