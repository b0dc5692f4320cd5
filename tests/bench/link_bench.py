#!/usr/bin/env python3
"""How much of a slow line does a bulk link use, and what does a control message feel of it?

Two LinkHubs with TLS and a control stream between the same two peers, each peer in a network
namespace of its own, with a router between them that shapes (tbf) and delays. Needs root."""

import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/wan"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import bench_command  # noqa: E402
import bench_rows  # noqa: E402
import namespaces  # noqa: E402

GRADIENT_BYTES = 65536
WANTED = {50: {0: .95, 40: .95, 100: .95}, 100: {0: .95, 40: .95, 100: .95},
          500: {0: .95, 40: .95, 100: .90}}
LATENCY_OVER_RTT_MS = 20
# Seconds of both processes per gigabyte, at rates up to 100 Mbit/s; twice that when each packet
# wakes the receiver.
CPU_WANTED = 20


def numbers(text):
    return [float(n) if "." in n else int(n) for n in text.split(",")]


def arguments():
    parser = bench_command.parser(
        "link", __doc__, needs="root, for network namespaces; iproute2.",
        takes="--warm-up and --seconds per row: with all 18 rows some eight minutes.",
        bounds="all rows say good: their fractions, latencies and CPU times hold")
    parser.add_argument("--mbit", type=numbers, default=[50, 100, 500],
                        help="rates of the line in Mbit/s, comma-separated (default: 50,100,500)")
    parser.add_argument("--rtt", type=numbers, default=[0, 40, 100],
                        help="round trips added to the line, ms, comma-separated (default: "
                             "0,40,100)")
    parser.add_argument("--queue", type=numbers, default=[20, 200],
                        help="queues of the router, ms at its rate, comma-separated (default: "
                             "20,200)")
    parser.add_argument("--congestion", default="cubic",
                        help="the kernel's congestion control: cubic,bbr (default: cubic)")
    parser.add_argument("--shaper", choices=("router", "peer"), default="router",
                        help="where the queue is; peer: the sender's kernel sees it (default: "
                             "router)")
    parser.add_argument("--both", action="store_true",
                        help="send from both ends at once; rows show the first end")
    parser.add_argument("--seconds", type=float, default=10,
                        help="seconds measured per row (default: 10)")
    parser.add_argument("--warm-up", type=float, default=15,
                        help="seconds before the measured ones, per row (default: 15)")
    parser.add_argument("--sender", default="", help="more options for `link_peer send`")
    parser.add_argument("--receiver", default="", help="more options for `link_peer receive`")
    parser.add_argument("--build", default=str(SOURCE / "build/release"), help="build folder")
    return parser.parse_args()


class Peer:
    """A link_peer in a namespace."""

    def __init__(self, namespace, build, *options):
        self.folder = tempfile.TemporaryDirectory(prefix="shoal-link-")
        self.process = subprocess.Popen(
            [*namespace.prefix, str(Path(build, "bench/link_peer")), options[0], "--dir",
             self.folder.name, *options[1:]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.folder.cleanup()

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("link: a peer ended; see its message above")
        return json.loads(line)

    def report(self):
        self.tell("report")
        return self.read()


def tcp_counts(namespace):
    """Segments sent and sent again by a namespace."""
    lines = [line.split() for line in namespace.run("cat", "/proc/net/snmp").splitlines()
             if line.startswith("Tcp:")]
    counts = dict(zip(lines[0], lines[1]))
    return int(counts["OutSegs"]), int(counts["RetransSegs"])


def quantile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else None


class Snapshot:
    def __init__(self, line, a, sender, receiver):
        self.time = time.monotonic()
        self.shaper, self.back = line.to("b"), line.to("a")
        self.segments, self.again = tcp_counts(a)
        self.sender, self.receiver = sender.report(), receiver.report()


def measure(args, mbit, rtt_ms, queue_ms, congestion):
    rate = int(mbit * 1e6)
    with contextlib.ExitStack() as stack:
        a, b = (stack.enter_context(namespaces.Namespace(n)) for n in "ab")
        line = stack.enter_context(namespaces.DelayedLine(
            a, b, rate, rtt_ms, queue_ms, Path(args.build, "bin/shoal-bench"), congestion,
            args.shaper))
        receiver = stack.enter_context(Peer(
            b, args.build, "receive", "--listen", "10.77.0.2", *args.receiver.split(),
            *(("--back", str(1 << 20)) if args.both else ())))
        at = receiver.read()
        sender = stack.enter_context(Peer(
            a, args.build, "send", "--listen", "10.77.0.1", "--to", at["peer"], "--scheduler",
            at["scheduler"], "--link",
            at["link"], "--control", at["control"], "--gradient", str(GRADIENT_BYTES),
            *args.sender.split()))
        time.sleep(2)
        idle = sender.report()
        sender.tell("go")
        time.sleep(args.warm_up)
        first = Snapshot(line, a, sender, receiver)
        time.sleep(args.seconds)
        last = Snapshot(line, a, sender, receiver)
    return row_of(rate, rtt_ms, queue_ms, congestion, idle, first, last)


def row_of(rate, rtt_ms, queue_ms, congestion, idle, first, last):
    def grown(key, end="sender"):
        return getattr(last, end)[key] - getattr(first, end)[key]

    seconds = last.time - first.time
    again = (last.again - first.again) / max(1, last.segments - first.segments)
    on_line = 8 * (last.shaper["bytes"] - first.shaper["bytes"]) / seconds / rate
    gigabytes = grown("receivedWireBytes", "receiver") / 1e9
    cpu = {end: grown("cpuSeconds", end) / gigabytes if gigabytes else None
           for end in ("sender", "receiver")}
    switches = {end: grown("contextSwitches", end) / (1e3 * gigabytes) if gigabytes else None
                for end in ("sender", "receiver")}
    control, gradient = last.sender["controlMs"], last.receiver["gradientMs"]
    return {
        "linkBps": rate, "rttMs": rtt_ms, "tls": True,
        "linkFraction": on_line * (1 - again),
        "controlLatencyMs": quantile(control, .95),
        "cpuSecondsPerGigabyte": sum(cpu.values()) if gigabytes else None,
        "queueMs": queue_ms, "congestion": congestion,
        "receivedFraction": 8e9 * gigabytes / seconds / rate,
        "backFraction": 8 * (last.back["bytes"] - first.back["bytes"]) / seconds / rate,
        "sentAgain": again, "dropped": last.shaper["drops"] - first.shaper["drops"],
        "controlMedianMs": quantile(control, .5), "controlMaxMs": max(control, default=None),
        "controlIdleMs": quantile(idle["controlMs"], .5),
        "gradientMedianMs": quantile(gradient, .5), "gradientMaxMs": max(gradient, default=None),
        "senderCpuSecondsPerGigabyte": cpu["sender"],
        "receiverCpuSecondsPerGigabyte": cpu["receiver"],
        "senderSwitchesPerMegabyte": switches["sender"],
        "receiverSwitchesPerMegabyte": switches["receiver"],
        "paceBps": last.sender["paceBps"], "connections": last.sender["connections"],
        "load": os.getloadavg()[0], "seconds": seconds,
    }


COLUMNS = (
    ("Mbit/s", lambda r: f"{r['linkBps'] / 1e6:.0f}"), ("RTT", lambda r: f"{r['rttMs']}"),
    ("queue", lambda r: f"{r['queueMs']}"), ("", lambda r: r["congestion"]),
    ("fraction", lambda r: f"{r['linkFraction']:.3f}"),
    ("received", lambda r: f"{r['receivedFraction']:.3f}"),
    ("back", lambda r: f"{r['backFraction']:.3f}"),
    ("again", lambda r: f"{r['sentAgain']:.4f}"),
    ("control ms", lambda r: f"{r['controlLatencyMs']:.1f}"),
    ("median", lambda r: f"{r['controlMedianMs']:.1f}"),
    ("most", lambda r: f"{r['controlMaxMs']:.1f}"),
    ("gradient ms", lambda r: f"{r['gradientMedianMs']:.1f}"),
    ("most", lambda r: f"{r['gradientMaxMs']:.1f}"),
    ("CPU s/GB", lambda r: f"{r['cpuSecondsPerGigabyte']:.2f}"),
    ("sender", lambda r: f"{r['senderCpuSecondsPerGigabyte']:.2f}"),
    ("switches/MB", lambda r: f"{r['senderSwitchesPerMegabyte']:.0f}+"
                              f"{r['receiverSwitchesPerMegabyte']:.0f}"),
    ("pace", lambda r: f"{r['paceBps'] / 1e6:.1f}"), ("conns", lambda r: str(r["connections"])),
    ("load", lambda r: f"{r['load']:.1f}"), ("", lambda r: ", ".join(misses(r)) or "good"),
)


def misses(row):
    found = []
    wanted = WANTED.get(row["linkBps"] / 1e6, {}).get(row["rttMs"])
    if wanted and row["linkFraction"] < wanted:
        found.append(f"fraction below {wanted}")
    if row["controlLatencyMs"] is None or \
            row["controlLatencyMs"] > row["rttMs"] + LATENCY_OVER_RTT_MS:
        found.append(f"control above RTT + {LATENCY_OVER_RTT_MS} ms")
    if row["linkBps"] <= 100e6 and (row["cpuSecondsPerGigabyte"] or 0) > CPU_WANTED:
        found.append(f"CPU above {CPU_WANTED} s/GB")
    return found


def line_of(row):
    return " | ".join(["", *bench_rows.cells(COLUMNS, row), ""]).strip()


def main():
    args = arguments()
    if os.geteuid() != 0 or not namespaces.possible():
        bench_command.needs_root("link")
    rows = []
    if not args.json:
        print("| " + " | ".join(name for name, _ in COLUMNS) + " |")
        print("|" + "---|" * len(COLUMNS), flush=True)
    for congestion, queue, mbit, rtt in itertools.product(
            args.congestion.split(","), args.queue, args.mbit, args.rtt):
        rows.append(measure(args, mbit, rtt, queue, congestion))
        if not args.json:
            print(line_of(rows[-1]), flush=True)
    if args.json:
        bench_rows.print_json(rows)
    return bench_command.exit_code(not any(map(misses, rows)))


if __name__ == "__main__":
    sys.exit(main())
