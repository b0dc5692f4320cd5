"""Network namespaces for tests: a machine of one's own per peer, and lines that can be slow."""

import itertools
import os
import subprocess
from pathlib import Path

ETHERNET = 14  # bytes of a frame's header
HEADERS = ETHERNET + 20 + 32  # and of IP and TCP with its time stamps
_serial = itertools.count()


def ip(*arguments):
    subprocess.run(["ip", *map(str, arguments)], check=True, capture_output=True, text=True)


def possible():
    """Whether this process may make namespaces."""
    name = f"shoal-probe-{os.getpid()}"
    try:
        made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
        if made.returncode != 0:
            return False
        return subprocess.run(["ip", "netns", "exec", name, "true"], capture_output=True,
                              check=False).returncode == 0
    except OSError:
        return False
    finally:
        if Path("/run/netns", name).exists():
            ip("netns", "del", name)


class Namespace:
    """A namespace with its loopback up; gone after the `with`."""

    def __init__(self, label):
        self.name = f"shoal-{os.getpid()}-{next(_serial)}-{label}"
        self.prefix = ["ip", "netns", "exec", self.name]

    def __enter__(self):
        ip("netns", "add", self.name)
        self.run("ip", "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        ip("netns", "del", self.name)

    def run(self, *command):
        return subprocess.run([*self.prefix, *map(str, command)], check=True, capture_output=True,
                              text=True).stdout

    def sent(self, device, headers=ETHERNET):
        """Bytes that the kernel counted out of a device, without so many bytes per packet."""
        for line in self.run("cat", "/proc/net/dev").splitlines():
            name, _, numbers = line.partition(":")
            if name.strip() == device:
                fields = [int(n) for n in numbers.split()]
                return fields[8] - headers * fields[9]
        raise AssertionError(f"no device {device} in {self.name}")


def connect(a, b, network="10.77.0"):
    """A line between two namespaces: their devices are called "line", addresses .1 and .2."""
    ip("link", "add", "line", "netns", a.name, "type", "veth", "peer", "name", "line", "netns",
       b.name)
    for number, namespace in enumerate((a, b), 1):
        namespace.run("ip", "address", "add", f"{network}.{number}/24", "dev", "line")
        namespace.run("ip", "link", "set", "line", "up")


def slow_down(namespace, rate, burst="32kb", latency="200ms"):
    """What leaves the namespace by its line goes no faster than `rate`, like "20mbit"."""
    namespace.run("tc", "qdisc", "replace", "dev", "line", "root", "tbf", "rate", rate, "burst",
                  burst, "latency", latency)
