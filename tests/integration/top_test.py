"""shoal top on a pseudo terminal: what it shows, and that the terminal is as it was afterwards."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import unittest

import harness
from harness import Daemon, program, wait_for

ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
SHOW_CURSOR = b"\x1b[?25h"


class Terminal:
    """A program on a pseudo terminal of its own, as its session's leader."""

    def __init__(self, arguments, columns, rows, **environment):
        self.master, slave = pty.openpty()
        self.resize(columns, rows, None)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.output = b""
        self.status = None
        self.pid = os.fork()
        if self.pid == 0:
            harness.die_with_parent()
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for number in range(3):
                os.dup2(slave, number)
            os.execve(arguments[0], arguments, {**os.environ, "TERM": "xterm", **environment})

    def resize(self, columns, rows, pid):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if pid:
            os.kill(pid, signal.SIGWINCH)

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            self.output += os.read(self.master, 65536)
        return self.output

    def type(self, keys):
        os.write(self.master, keys)

    def wait_text(self, text, what):
        wait_for(lambda: text in self.read(), 20, what)

    def ended(self):
        """The status of wait(), once the program has ended."""
        def gone():
            self.read()
            if self.status is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self.status = status if pid else None
            return self.status is not None
        wait_for(gone, 20, "shoal top ends")
        self.read()
        return self.status

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.slave)
        os.close(self.master)


def frames(output):
    """The lines of each frame, without colours."""
    found = []
    for frame in output.split(b"\x1b[H")[1:]:
        text = frame.split(b"\x1b[?")[0].decode()
        lines = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r\r", "\r").split("\r\n")
        found.append(lines)
    return found


class TopTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place = cls.enterClassContext(harness.Folder())
        cls.state = cls.place / "peer"
        cls.shoald = Daemon("shoald", ["--dir", cls.state, "--name", "Kääpä", "--listen",
                                       "127.0.0.1:0", "--status-listen", "127.0.0.1:0",
                                       "--upload", "20mbit"], cls.place / "shoald.log")
        cls.addClassCleanup(cls.shoald.kill)
        wait_for(lambda: harness.run("shoal", "health", "--dir", cls.state, check=False).returncode
                 == 0, 30, "shoald runs")

    def top(self, columns=80, rows=24, **environment):
        environment = {"LANG": "C.UTF-8", "LC_ALL": "", "NO_COLOR": "", **environment}
        terminal = Terminal([program("shoal"), "top", "--interval", "0.5", "--dir",
                             str(self.state)], columns, rows, **environment)
        self.addCleanup(terminal.close)
        terminal.wait_text(b"q quits", "the first frame")
        return terminal

    def assert_restored(self, terminal):
        self.assertEqual(termios.tcgetattr(terminal.slave), terminal.before)
        self.assertEqual(terminal.output.count(ENTER), 1)
        self.assertEqual(terminal.output.count(LEAVE), 1)
        self.assertTrue(terminal.output.endswith(SHOW_CURSOR + LEAVE), terminal.output[-40:])

    def test_shows_the_peer_and_quits(self):
        terminal = self.top()
        self.assertTrue(terminal.output.startswith(ENTER))
        local = termios.tcgetattr(terminal.slave)[3]
        self.assertFalse(local & (termios.ICANON | termios.ECHO), "keys come as they are typed")
        lines = frames(terminal.output)[0]
        self.assertRegex(lines[0], "^Kääpä  idle")
        self.assertRegex("\n".join(lines), r"\nupload +\[\.+\] - of 20 Mbit/s\n")
        self.assertEqual(len(lines), 24)
        self.assertIn(b"\x1b[33midle\x1b[0m", terminal.output, "in colour")
        wait_for(lambda: len(frames(terminal.read())) >= 3, 20, "it shows the next status")
        terminal.type(b"q")
        self.assertEqual(terminal.ended(), 0)
        self.assert_restored(terminal)

    def test_fits_the_terminal_also_when_that_changes(self):
        terminal = self.top(60, 12)
        self.assertLessEqual(max(map(len, frames(terminal.output)[0])), 60)
        self.assertEqual(len(frames(terminal.output)[0]), 12)
        before = len(frames(terminal.output))
        terminal.resize(30, 5, terminal.pid)
        wait_for(lambda: len(frames(terminal.read())) > before and
                 len(frames(terminal.output)[-1]) == 5, 20, "a frame of five lines")
        self.assertLessEqual(max(map(len, frames(terminal.output)[-1])), 30)
        first = frames(terminal.output)[-1][1]
        terminal.type(b"\x1b[B")
        wait_for(lambda: frames(terminal.read())[-1][1] != first, 20, "it scrolls")
        terminal.type(b"q")
        self.assertEqual(terminal.ended(), 0)
        self.assert_restored(terminal)

    def test_restores_the_terminal_when_it_is_killed(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            terminal = self.top()
            if number == signal.SIGINT:
                terminal.type(b"\x03")  # Ctrl-C
            else:
                os.kill(terminal.pid, number)
            self.assertTrue(os.WIFSIGNALED(terminal.ended()), number)
            self.assertEqual(os.WTERMSIG(terminal.status), number)
            self.assert_restored(terminal)

    def test_gives_the_terminal_back_while_it_is_stopped(self):
        terminal = self.top()
        terminal.type(b"\x1a")  # Ctrl-Z
        pid, status = os.waitpid(terminal.pid, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status))
        terminal.read()
        self.assert_restored(terminal)
        os.kill(pid, signal.SIGCONT)
        wait_for(lambda: terminal.read().count(ENTER) == 2, 20, "it goes on")
        terminal.type(b"q")
        self.assertEqual(terminal.ended(), 0)
        self.assertEqual(termios.tcgetattr(terminal.slave), terminal.before)
        self.assertTrue(terminal.output.endswith(SHOW_CURSOR + LEAVE))

    def test_no_colours_and_only_ascii_where_asked(self):
        terminal = self.top(NO_COLOR="1", LANG="C")
        self.assertNotRegex(terminal.output, rb"\x1b\[[0-9;]*m")
        self.assertRegex(frames(terminal.output)[0][0], r"^K\?\?p\?  idle")
        self.assertTrue(terminal.output.isascii())
        terminal.type(b"q")
        terminal.ended()

    def test_without_a_terminal_it_prints_plain_text(self):
        done = harness.run("shoal", "top", "--rounds", "1", "--dir", self.state)
        self.assertIn("Kääpä  idle", done.stdout)
        self.assertNotIn("\x1b", done.stdout)


if __name__ == "__main__":
    unittest.main()
