"""Network namespaces for tests: a machine of one's own per peer, and lines that can be slow."""

import itertools
import json
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


class DelayedLine:
    """A line with a length and a router: `a` and `b` (addresses .1 and .2) with
    `shoal bench switch` between them. What goes to one of them leaves the router at `rate` bit/s
    through a queue of `queue_ms` at that rate; packets wait there, and are dropped there, not in
    the sender's kernel, which would notice (`shaper` "peer": just there). Gone after the `with`.
    """

    def __init__(self, a, b, rate, rtt_ms, queue_ms, shoal, congestion="cubic",
                 shaper="router"):
        self.ends = {"to-a": a, "to-b": b}
        self.rate, self.rtt_ms, self.queue_ms = rate, rtt_ms, queue_ms
        self.shoal, self.congestion, self.shaper = str(shoal), congestion, shaper
        self.router = Namespace("router")
        self.process = None

    def __enter__(self):
        self.router.__enter__()
        try:
            self.build()
        except BaseException:
            self.router.__exit__()
            raise
        return self

    def build(self):
        # 1.3 ms, so that timers may be late, and so that at 500 Mbit/s the kernels hand each other
        # frames of 64 KiB whole: cut into packets they cost this machine more time than it has, and
        # what waits then looks like the line's queue.
        burst = max(8192, self.rate * 13 // 80_000)
        for number, (name, end) in enumerate(self.ends.items(), 1):
            ip("link", "add", "line", "netns", end.name, "type", "veth", "peer", "name", name,
               "netns", self.router.name)
            end.run("ip", "address", "add", f"10.77.0.{number}/24", "dev", "line")
            end.run("ip", "link", "set", "line", "up")
            # The sysctl may be set to few algorithms in a namespace; a route takes any.
            end.run("ip", "route", "replace", "10.77.0.0/24", "dev", "line", "scope", "link",
                    "proto", "kernel", "src", f"10.77.0.{number}", "congctl", self.congestion)
            self.router.run("ip", "link", "set", "dev", name, "up")
            at, device = (end, "line") if self.shaper == "peer" else (self.router, name)
            at.run("tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate",
                   f"{self.rate}bit", "burst", burst, "limit",
                   int(self.rate / 8 * self.queue_ms / 1000) + burst)
        self.process = subprocess.Popen(
            [*self.router.prefix, self.shoal, "bench", "switch", "--delay",
             f"{self.rtt_ms / 2:.6f}ms", *self.ends],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            raise AssertionError("shoal bench switch did not start")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
        self.router.__exit__()

    def to(self, end):
        """What went to end "a" or "b" as the shaper counts it, every packet with its headers:
        bytes, packets, drops, backlog."""
        where, device = self.router, f"to-{end}"
        if self.shaper == "peer":
            where, device = self.ends["to-a" if end == "b" else "to-b"], "line"
        return json.loads(where.run("tc", "-s", "-j", "qdisc", "show", "dev", device))[0]
