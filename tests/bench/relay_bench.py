#!/usr/bin/env python3
"""What a link through a relay carries: two homes with equal lines, shoal-relay outside. Prints, for
each line, how much of it was used, packets with their headers, and what of it was payload (at most
0.953 with packets of 1,500 bytes); exits with 1 where less than 0.95 was used."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/wan"))
sys.path.insert(0, str(SOURCE / "tests/bench"))

import bench_command  # noqa: E402
import bench_rows  # noqa: E402
import namespaces  # noqa: E402
from link_bench import Peer  # noqa: E402

LEAST = 0.95
PORT = 8783


def arguments():
    parser = bench_command.parser(
        "relay", __doc__, needs="root, for network namespaces; iproute2, nftables.",
        takes="40 s a line.", bounds="at least 0.95 of each line was used")
    parser.add_argument("--mbit", default="20,100",
                        help="rates of the lines in Mbit/s, comma-separated (default: 20,100)")
    parser.add_argument("--rtt", type=float, default=40,
                        help="round trip in ms between each home and the relay (default: 40)")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--warm-up", type=float, default=15)
    parser.add_argument("--build", default=str(SOURCE / "build/release"), help="build folder")
    return parser.parse_args()


def start_relay(stack, args, outside):
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-relay-"))
    process = stack.enter_context(subprocess.Popen(
        [*outside.prefix, str(Path(args.build, "bin/shoal-relay")), "--dir", folder, "--listen",
         f"0.0.0.0:{PORT}", "--advertise", outside.address, "--status-listen", "off", "--log-level",
         "warning"],
        stdout=subprocess.PIPE, text=True))
    stack.callback(process.terminate)
    for line in process.stdout:
        if "relays = [" in line:
            return process, line.split('"')[1]
    sys.exit("relay: it did not start")


def line_bytes(home):
    """That left a home by its line, with all headers."""
    shown = home.router.run("tc", "-s", "-j", "qdisc", "show", "dev", "wan")
    return json.loads(shown)[0]["bytes"]


def cpu_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def measure(args, mbit):
    with contextlib.ExitStack() as stack:
        internet = stack.enter_context(
            namespaces.Internet(args.rtt, Path(args.build, "bin/shoal-bench")))
        outside = internet.machine("relay")
        homes = [internet.home(n, up=f"{mbit}mbit", down=f"{mbit}mbit") for n in "ab"]
        a, b = (home.machines[0] for home in homes)
        internet.start()
        process, relay = start_relay(stack, args, outside)
        receiver = stack.enter_context(Peer(b, args.build, "receive", "--listen", b.address,
                                            "--relay", relay))
        at = receiver.read()
        time.sleep(2)
        sender = stack.enter_context(Peer(
            a, args.build, "send", "--listen", a.address, "--to", at["peer"], "--scheduler",
            at["scheduler"], "--link", relay, "--control", relay, "--gradient", "16384"))
        time.sleep(2)
        sender.tell("go")
        time.sleep(args.warm_up)
        first, before, sent = receiver.report(), cpu_seconds(process), line_bytes(homes[0])
        time.sleep(args.seconds)
        last, after, sent = (receiver.report(), cpu_seconds(process),
                             line_bytes(homes[0]) - sent)
        said = sender.report()
    seconds = last["seconds"] - first["seconds"]
    rate = 8 * (last["payloadBytes"] - first["payloadBytes"]) / seconds
    gradients = sorted(last["gradientMs"])
    return {"mbit": mbit, "rttMs": args.rtt,
            "usedOfLine": round(8 * sent / seconds / (mbit * 1e6), 4),
            "payloadOfLine": round(rate / (mbit * 1e6), 4),
            "gradientMsMedian": round(gradients[len(gradients) // 2], 1) if gradients else None,
            "connections": said["connections"],
            "relayCpuOfCore": round((after - before) / seconds, 3)}


def main():
    args = arguments()
    if os.geteuid() != 0 or not namespaces.possible() or not namespaces.can_masquerade():
        bench_command.needs_root("relay")
    rows = [measure(args, int(mbit)) for mbit in args.mbit.split(",")]
    if args.json:
        bench_rows.print_json(rows)
    else:
        for row in rows:
            print(", ".join(f"{key} {value}" for key, value in row.items()))
    return bench_command.exit_code(all(row["usedOfLine"] >= LEAST for row in rows))


if __name__ == "__main__":
    sys.exit(main())
