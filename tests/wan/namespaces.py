"""Network namespaces for tests: a machine of one's own per peer, and lines that can be slow."""

import contextlib
import itertools
import json
import os
import subprocess
import sys
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
    `shoal-bench switch` between them. What goes to one of them leaves the router at `rate` bit/s
    through a queue of `queue_ms` at that rate; packets wait there, and are dropped there, not in
    the sender's kernel, which would notice (`shaper` "peer": just there). Gone after the `with`.
    """

    def __init__(self, a, b, rate, rtt_ms, queue_ms, bench, congestion="cubic",
                 shaper="router"):
        self.ends = {"to-a": a, "to-b": b}
        self.rate, self.rtt_ms, self.queue_ms = rate, rtt_ms, queue_ms
        self.bench, self.congestion, self.shaper = str(bench), congestion, shaper
        self.router = Namespace("router")
        self.switch = None

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
        self.switch = Switch(self.router, self.bench, self.rtt_ms, self.ends)

    def __exit__(self, *_):
        self.switch.__exit__()
        self.router.__exit__()

    def to(self, end):
        """What went to end "a" or "b" as the shaper counts it, every packet with its headers:
        bytes, packets, drops, backlog."""
        where, device = self.router, f"to-{end}"
        if self.shaper == "peer":
            where, device = self.ends["to-a" if end == "b" else "to-b"], "line"
        return json.loads(where.run("tc", "-s", "-j", "qdisc", "show", "dev", device))[0]


class Switch:
    """`shoal-bench switch` among ports of a namespace, a hub with a length."""

    def __init__(self, hub, bench, rtt_ms, ports):
        self.process = subprocess.Popen(
            [*hub.prefix, str(bench), "switch", "--delay", f"{rtt_ms / 2:.6f}ms", *ports],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            self.__exit__()
            raise AssertionError("shoal-bench switch did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


class Star:
    """Machines around one hub, addresses 10.77.0.1 and up, each with a line called "line". After
    shape(rate), what leaves a machine and what comes to it goes no faster than `rate` bit/s. With a
    round trip time `shoal-bench switch` is the hub, else a bridge. Gone after the `with`."""

    PACKET = 1514

    def __init__(self, machines, rtt_ms=0, bench=None):
        self.hub = Namespace("hub")
        self.machines = [Namespace(str(n)) for n in range(machines)]
        self.rtt_ms, self.bench = rtt_ms, bench
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.stack.close()
            raise
        return self

    def __exit__(self, *_):
        self.stack.close()

    def build(self):
        for namespace in (self.hub, *self.machines):
            self.stack.enter_context(namespace)
        for number, machine in enumerate(self.machines):
            port = f"port{number}"
            ip("link", "add", "line", "netns", machine.name, "type", "veth", "peer", "name", port,
               "netns", self.hub.name)
            machine.run("ip", "address", "add", f"{self.address(number)}/24", "dev", "line")
            machine.run("ip", "link", "set", "line", "up")
            machine.run("sh", "-c",
                        "echo cubic > /proc/sys/net/ipv4/tcp_congestion_control || true")
            self.hub.run("ip", "link", "set", port, "up")
        ports = [f"port{number}" for number in range(len(self.machines))]
        if self.rtt_ms > 0:
            return self.start_switch(ports)
        self.hub.run("ip", "link", "add", "name", "bridge", "type", "bridge")
        for port in ports:
            self.hub.run("ip", "link", "set", port, "master", "bridge")
        return self.hub.run("ip", "link", "set", "bridge", "up")

    def start_switch(self, ports):
        self.stack.enter_context(Switch(self.hub, self.bench, self.rtt_ms, ports))

    @staticmethod
    def address(number):
        return f"10.77.0.{number + 1}"

    def shape(self, rate, queue_ms=50, dilation=1):
        """With a dilation K everything takes K times as long: the rate is a K-th of `rate`, and
        bursts and queues are as many bytes as they are at `rate`."""
        # What may leave at once after a pause stays far below a message, but frames of many packets
        # pass whole: cut, they would cost more processor time than all the rest.
        half_ms = rate // 16_000
        burst = min(max(half_ms, 22 * self.PACKET), 65536)
        bucket = max(burst + self.PACKET, half_ms)
        limit = rate // 8 * queue_ms // 1000 + bucket
        for number, machine in enumerate(self.machines):
            machine.run("ip", "link", "set", "dev", "line", "gso_max_size", burst - self.PACKET)
            for at, device in ((machine, "line"), (self.hub, f"port{number}")):
                at.run("tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate",
                       f"{round(rate / dilation)}bit", "burst", bucket, "limit", limit)

    def drops(self):
        """Packets that the lines to the machines have dropped."""
        return sum(json.loads(self.hub.run("tc", "-s", "-j", "qdisc", "show", "dev",
                                           f"port{number}"))[0]["drops"]
                   for number in range(len(self.machines)))


def can_masquerade():
    """Whether this machine has nftables, and its kernel translates addresses."""
    try:
        with Namespace("probe") as probe:
            done = subprocess.run([*probe.prefix, "nft", MASQUERADE.format(how="")],
                                  capture_output=True, check=False)
            return done.returncode == 0
    except OSError:
        return False


MASQUERADE = """table ip home {{
  chain out {{ type nat hook postrouting priority srcnat; oifname "wan" masquerade {how}; }}
  chain through {{ type filter hook forward priority filter; policy drop;
    ct state established,related accept; iifname "lan" accept; }}
  chain own {{ type filter hook input priority filter; policy accept;
    iifname "wan" ct state new drop; }}
}}"""


# Whoever calls a port that the machine inside uses gets there, whomever it spoke to before.
FULL_CONE = """table ip home {{
  chain back {{ type nat hook prerouting priority dstnat;
    iifname "wan" tcp dport 1024-65535 dnat to {machine}; }}
  chain through {{ iifname "wan" ct status dnat accept; }}
}}"""


class Internet:
    """Public machines and homes around one bridge, 203.0.113.0/24, or, with a round trip time, one
    `shoal-bench switch`, which start() starts when all are there. Gone after the `with`."""

    def __init__(self, rtt_ms=0, bench=None):
        self.stack = contextlib.ExitStack()
        self.hub = Namespace("net")
        self.numbers = itertools.count(10)
        self.rtt_ms, self.bench = rtt_ms, bench
        self.ports = []

    def __enter__(self):
        self.stack.enter_context(self.hub)
        if self.rtt_ms == 0:
            self.hub.run("ip", "link", "add", "name", "bridge", "type", "bridge")
            self.hub.run("ip", "link", "set", "bridge", "up")
        return self

    def start(self):
        if self.rtt_ms > 0:
            self.stack.enter_context(Switch(self.hub, self.bench, self.rtt_ms, self.ports))

    def __exit__(self, *_):
        self.stack.close()

    def plug(self, namespace, device, number, ipv6=False):
        port = f"port{number}"
        ip("link", "add", device, "netns", namespace.name, "type", "veth", "peer", "name", port,
           "netns", self.hub.name)
        master = [] if self.rtt_ms > 0 else ["master", "bridge"]
        self.hub.run("ip", "link", "set", port, "up", *master)
        self.ports.append(port)
        address = [f"2001:db8::{number:x}/64", "nodad"] if ipv6 else [f"203.0.113.{number}/24"]
        namespace.run("ip", "address", "add", *address, "dev", device)
        namespace.run("ip", "link", "set", device, "up")

    def machine(self, label, ipv6=False):
        """A machine with a public address, `.address`, of one kind."""
        machine = self.stack.enter_context(Namespace(label))
        number = next(self.numbers)
        self.plug(machine, "line", number, ipv6)
        machine.address = f"2001:db8::{number:x}" if ipv6 else f"203.0.113.{number}"
        return machine

    def home(self, label, machines=1, up="20mbit", down="100mbit", symmetric=False,
             full_cone=False):
        home = Home(self, label, next(self.numbers), up, down, symmetric, full_cone)
        self.stack.callback(home.close)
        home.build()
        for _ in range(machines):
            home.add_machine()
        return home


class Home:
    """Machines behind a router that translates addresses and lets nothing in that was not asked
    for. `symmetric`: each connection leaves by another port. `full_cone`: the ports of the first
    machine are open to all. The line is `up` and `down`."""

    def __init__(self, internet, label, number, up, down, symmetric, full_cone):
        self.internet, self.label, self.number = internet, label, number
        self.up, self.down, self.symmetric, self.full_cone = up, down, symmetric, full_cone
        self.router = None
        self.machines = []

    def build(self):
        self.router = Namespace(f"{self.label}-router")
        self.router.__enter__()
        self.internet.plug(self.router, "wan", self.number)
        self.router.run("ip", "link", "add", "name", "lan", "type", "bridge")
        self.router.run("ip", "address", "add", f"192.168.{self.number}.1/24", "dev", "lan")
        self.router.run("ip", "link", "set", "lan", "up")
        self.router.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.router.run("nft", MASQUERADE.format(how="fully-random" if self.symmetric else ""))
        if self.full_cone:
            self.router.run("nft", FULL_CONE.format(machine=f"192.168.{self.number}.2"))
        for device, rate in (("wan", self.up), ("lan", self.down)):
            self.router.run("tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate,
                            "burst", "64kb", "latency", "100ms")

    def add_machine(self):
        machine = Namespace(f"{self.label}{len(self.machines)}")
        machine.__enter__()
        self.machines.append(machine)
        machine.address = f"192.168.{self.number}.{len(self.machines) + 1}"
        self.wire(machine)
        return machine

    def wire(self, machine):
        port = f"port{self.machines.index(machine)}"
        ip("link", "add", "line", "netns", machine.name, "type", "veth", "peer", "name", port,
           "netns", self.router.name)
        self.router.run("ip", "link", "set", port, "up", "master", "lan")
        machine.run("ip", "address", "add", f"{machine.address}/24", "dev", "line")
        machine.run("ip", "link", "set", "line", "up")
        machine.run("ip", "route", "add", "default", "via", f"192.168.{self.number}.1")

    def take_in(self, machine, home):
        """A machine of another home moves here, and gets another address."""
        machine.run("ip", "link", "del", "line")
        home.machines.remove(machine)
        self.machines.append(machine)
        machine.address = f"192.168.{self.number}.{len(self.machines) + 1}"
        self.wire(machine)

    def reboot(self):
        """The router forgets all connections, and its machines keep theirs."""
        # A namespace ends some time after its name; its cables must be gone before new ones come.
        self.internet.hub.run("ip", "link", "del", f"port{self.number}")
        for machine in self.machines:
            machine.run("ip", "link", "del", "line")
        self.router.__exit__()
        self.build()
        for machine in self.machines:
            self.wire(machine)

    def lead_ports(self):
        """The router answers NAT-PMP from now on."""
        process = subprocess.Popen(
            [*self.router.prefix, sys.executable, "-B",
             str(Path(__file__).with_name("natpmp_router.py")), f"203.0.113.{self.number}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.internet.stack.callback(process.wait)
        self.internet.stack.callback(process.stdout.close)
        self.internet.stack.callback(process.stdin.close)
        if process.stdout.readline().strip() != "ready":
            raise AssertionError("the router does not answer NAT-PMP")

    def close(self):
        for machine in self.machines:
            machine.__exit__()
        if self.router:
            self.router.__exit__()
