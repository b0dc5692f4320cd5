#!/usr/bin/env python3
"""How long does a stage group take to agree on a vector, by each replica method, over slow links?

D members, each a process in a network namespace of its own, with TLS links to all others; what a
member sends and what it gets is shaped (tbf) to the line's rate. Without root all members share the
loopback and hold upload caps. PyTorch's gloo, where a Python has it, is the outside reference."""

import contextlib
import fnmatch
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/wan"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import bench_command  # noqa: E402
import bench_rows  # noqa: E402
import namespaces  # noqa: E402
import replica_dilation  # noqa: E402
import replica_theory  # noqa: E402

BYTES_WITHIN = .02
STEP_BYTES = 8192  # buckets, and pauses between them: packets that are not full, and pings
FRACTION_WANTED, LARGE = .9, 100_000_000
LONG_SECONDS = 20
FULL = .9  # of all processors' time: then they, not the line, are the limit
MEMBER_BYTES = 150 << 20  # of a process beside its vectors


def direct(codec, **more):
    return {"kind": "direct", "codec": codec, **more}


QUARTER = "direct:bits=4,bucket=512"
BYTE = "direct:bits=8,bucket=1024"
# By the names of run methods; bytes of memory per value of the vector.
METHODS = {
    "average": (direct("raw:dtype=fp32"), 10),
    "average:dtype=bf16": (direct("raw:dtype=bf16"), 10),
    "average:codec=dithered:step=0.3": (direct("dithered:step=0.3"), 10),
    "qadam:bits=8": (direct(BYTE, feedback=True, mean=True), 20),
    "qadam:bits=4": (direct(QUARTER, feedback=True, mean=True), 20),
    "onebit": (direct("onebit", feedback=True, mean=True), 20),
    "qsdp:weights=8,gradients=8": (
        direct(BYTE + ",rounding=stochastic", resultCodec=BYTE, ownersKeep=True), 12),
    "marsit": ({"kind": "marsit"}, 18),
    "marsit:shape=torus": ({"kind": "marsit", "columns": 0}, 18),
    "powersgd:rank=32": ({"kind": "powersgd", "rank": 32}, 20),
}
STEP = "step of "
for _method, _more in (("average", ""), ("qadam:bits=8", ",start=2"), ("onebit", ":start=2"),
                       ("marsit", ":start=2,every=1000000"), ("qsdp:weights=8,gradients=8", "")):
    _spec, _per_value = METHODS[_method]
    METHODS[STEP + _method] = ({**_spec, "step": _method + _more}, 24 + _per_value)
GLOO = ({"kind": "gloo"}, 9)


def numbers(text):
    return [int(float(n)) for n in text.split(",")]


def arguments():
    parser = bench_command.parser(
        "replica", __doc__, needs="root, for network namespaces; else upload caps stand for lines.",
        takes="some 40 minutes; --members, --mbit, --values and --methods pick; --quick a minute.",
        bounds="all results agreed, and bytes and fractions of all rows held")
    parser.add_argument("--members", type=numbers, default=[2, 4, 8],
                        help="members of the group, comma-separated (default: 2,4,8)")
    parser.add_argument("--mbit", type=numbers, default=[100, 500],
                        help="rates of the lines in Mbit/s, comma-separated (default: 100,500)")
    parser.add_argument("--values", type=numbers, default=[10_000_000, LARGE],
                        help="fp32 values of the vector, comma-separated (default: 1e7,1e8)")
    parser.add_argument("--rtt", type=float, default=0,
                        help="round trip added between any two members, ms (default: 0)")
    parser.add_argument("--methods", default="*",
                        help="patterns of method names, ';' between them (default: all)")
    parser.add_argument("--seconds", type=float, default=5,
                        help="seconds measured per row, at least one exchange (default: 5)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(),
                        help="compute threads of each member (default: one per core)")
    parser.add_argument("--dilation", type=replica_dilation.factor, default=1, metavar="K",
                        help="lines and delays K times as slow, all seconds (those of options, "
                             "too) a K-th of this machine's: members then have K times the "
                             "processors; 'auto' gives each --cores-per-member")
    parser.add_argument("--cores-per-member", type=float, metavar="N",
                        default=replica_dilation.CORES_PER_MEMBER,
                        help="what --dilation auto gives a member (default: %(default)s, the "
                             "least that a volunteer's machine has)")
    parser.add_argument("--tune", type=json.loads, default={},
                        help="more settings of direct exchanges, as OptionsOf in replica_peer.cc "
                             "reads them, JSON")
    parser.add_argument("--member", default="", help="more options for each replica_peer")
    parser.add_argument("--python", default=os.environ.get("SHOAL_TORCH_PYTHON", sys.executable),
                        help="a Python with torch, for gloo (default: $SHOAL_TORCH_PYTHON, else "
                             "this one)")
    parser.add_argument("--quick", action="store_true",
                        help="two members, a million values, a few seconds: a test of bytes and "
                             "of equal results")
    parser.add_argument("--build", default=str(SOURCE / "build/release"), help="build folder")
    args = parser.parse_args()
    if not (math.isfinite(args.cores_per_member) and args.cores_per_member > 0):
        parser.error("--cores-per-member takes a number above 0")
    if args.quick:
        args.members, args.mbit, args.values, args.seconds = [2], [500], [1_000_000], .2
    return args


class Loopback:
    """Members without namespaces of their own: the links' caps stand for the lines."""

    shaped_by = "caps"
    payload = 1.0  # what of the rate TCP can carry

    def __init__(self, members, dilation):
        self.members, self.dilation = members, dilation

    def prefix(self, _):
        return []

    @staticmethod
    def address(_):
        return "127.0.0.1"

    def shape(self, _):
        pass

    def sent(self, answers):
        return [a["sentWireBytes"] for a in answers]

    def drops(self):
        return 0


class Lines(namespaces.Star):
    shaped_by = "tbf"
    # Of a packet of 1514 bytes, as tbf counts it.
    payload = (namespaces.Star.PACKET - namespaces.HEADERS) / namespaces.Star.PACKET

    def __init__(self, members, dilation, rtt_ms, bench):
        super().__init__(members, dilation.real_ms(rtt_ms), bench)
        self.dilation = dilation

    def shape(self, rate):
        super().shape(rate, dilation=self.dilation.k)

    def prefix(self, member):
        return self.machines[member].prefix

    def sent(self, _):
        """What TCP carried so far, by member: what it sent again included, no acknowledgements."""
        return [m.sent("line", namespaces.HEADERS) for m in self.machines]


class Members:
    """A process per member, which answers lines of JSON."""

    def __init__(self, network, size, command):
        self.stack = contextlib.ExitStack()
        self.dilation = network.dilation
        self.processes = []
        for member in range(size):
            process = subprocess.Popen([*network.prefix(member), *map(str, command(self, member))],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.processes.append(process)
        self.hello = self.read()

    def folder(self):
        return self.stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-replica-"))

    def read(self):
        lines = [p.stdout.readline() for p in self.processes]
        if not all(lines):
            self.kill()
            sys.exit("replica: a member ended; see its message above")
        return [json.loads(line) for line in lines]

    def ask(self, **command):
        for process in self.processes:
            process.stdin.write(json.dumps(command) + "\n")
            process.stdin.flush()
        return self.read()

    def seconds_of(self, answers):
        """Between the first begin and the last end of a run, in the members' time."""
        real = (max(a["end"] for a in answers) - min(a["begin"] for a in answers)) / 1e9
        return self.dilation.seconds(real)

    def kill(self):
        for process in self.processes:
            process.kill()

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        if failed:
            self.kill()
        else:
            self.ask(leave=True)
        for process in self.processes:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        self.stack.close()


def shoal_members(args, network, size, rate):
    def command(members, rank):
        cap = network.dilation.real_rate(rate)
        caps = ["--upload", cap] if network.shaped_by == "caps" else []
        return [Path(args.build, "bench/replica_peer"), "--dir", members.folder(), "--listen",
                network.address(rank), "--rank", rank, "--members", size, "--threads",
                args.threads, *caps, *args.member.split()]
    members = Members(network, size, command)
    members.ask(connect=members.hello)
    return members


def gloo_members(args, network, size):
    return Members(network, size, lambda _, rank: [
        args.python, "-W", "ignore", Path(__file__).with_name("gloo_peer.py"), rank, size,
        network.address(0), "line"])


def has_gloo(args):
    check = "import torch.distributed as d; assert d.is_gloo_available()"
    return subprocess.run([args.python, "-W", "ignore", "-c", check], check=False,
                          capture_output=True).returncode == 0


def processor_times():
    """Busy and all, of all processors, seconds."""
    fields = [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    tick = os.sysconf("SC_CLK_TCK")
    return (sum(fields) - fields[3] - fields[4]) / tick, sum(fields) / tick


def memory_available():
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    return 0


# A connection that got no answer for a moment, while its member made a vector, say, begins with a
# window of a few packets again, and takes so long to grow it back.
TCP_SECONDS = 10


def warm_up(members, least, rounds=1):
    """Rounds, at least so many, until `least` seconds have passed; how long the last one took."""
    spent = 0
    while True:
        took = members.seconds_of(members.ask(run=1))
        spent += took
        rounds -= 1
        if spent >= least and rounds <= 0:
            return took


def prepare(args, members, spec, values, line_seconds):
    """Makes method and vector and warms them up: long exchanges with a tenth of the vector. Says
    how many rounds to measure."""
    if line_seconds > LONG_SECONDS:
        members.ask(prepare={**spec, "values": values // 10})
        warm_up(members, 0)
        members.ask(drop=True)
    members.ask(prepare={**spec, "values": values})
    if "step" in spec:  # the first ones are exact
        warm_up(members, 0, 6)
    if line_seconds > LONG_SECONDS:
        return 1
    # From the third round on there are two memories, which take turns.
    remembers = spec.get("feedback") or spec["kind"] in ("marsit", "powersgd")
    least = max(min(1, args.seconds), members.dilation.seconds(min(TCP_SECONDS, 10 * args.seconds)))
    took = warm_up(members, least, 2 if remembers else 1)
    return min(100, max(1, math.ceil(args.seconds / max(took, 1e-3))))


def measure(args, network, members, spec, values, line_seconds):
    """Seconds, bytes and so on of an exchange; everything that members answer."""
    rounds = prepare(args, members, spec, values, line_seconds)
    sent, drops = network.sent([]) if network.shaped_by == "tbf" else None, network.drops()
    busy, all_time = processor_times()
    answers = members.ask(run=rounds)
    busy, all_time = (b - a for a, b in zip((busy, all_time), processor_times()))
    wire = network.sent(answers)
    if sent is not None:
        wire = [after - before for before, after in zip(sent, wire)]
    checks = members.ask(check=True)
    members.ask(drop=True)
    if len({c["hash"] for c in checks}) != 1:
        sys.exit("replica: the members' results differ: " + json.dumps([spec, checks]))
    size, dilation = len(answers), members.dilation
    seconds = members.seconds_of(answers)
    real_seconds = seconds * dilation.k
    own = sum(a["cpuSeconds"] for a in answers)
    return {
        "seconds": seconds / rounds, "realSeconds": real_seconds / rounds,
        "dilation": dilation.k, "coresPerMember": dilation.cores_per_member,
        "wireBytesPerMember": max(wire) / rounds,
        "cpuSeconds": own / rounds / size, "exchanges": rounds,
        "processorsBusy": busy / all_time if all_time else 0,
        "ownProcessors": own / real_seconds / os.cpu_count(),
        "hash": checks[0]["hash"], "relativeError": checks[0].get("relativeError"),
        "peakBytes": max(a["peakBytes"] for a in answers),
        "newPages": max(a.get("newPages", 0) for a in answers) / rounds,  # the kernel cleared
        "paceBps": [dilation.rate(a["paceBps"]) for a in answers]
                   if "paceBps" in answers[0] else None,
        "dropped": network.drops() - drops,
    }


def row_of(args, network, members, name, spec, rate, values):
    size = len(members.processes)
    row = {"method": name, "members": size, "linkBps": rate, "values": values}
    theory = replica_theory.bytes_per_member(spec, size, values)
    line_seconds = theory * 8 / (rate * network.payload)
    row.update(measure(args, network, members, spec, values, line_seconds))
    row["theoryBytes"] = theory
    row["linkLimitFraction"] = line_seconds / row["seconds"]
    row["bitsPerValue"] = theory * 8 / values / (2 * (size - 1) / size)
    row["isStep"] = "step" in spec
    row["direct"] = spec["kind"] == "direct" and not row["isStep"]  # else the line may wait
    row["shapedBy"], row["rttMs"] = network.shaped_by, args.rtt
    if spec.get("feedback") or row["isStep"] or spec["kind"] in ("marsit", "powersgd"):
        row["relativeError"] = None  # what one exchange lacks, later ones make up for
    return row


COLUMNS = (
    ("D", lambda r: f"{r['members']}"), ("Mbit/s", lambda r: f"{r['linkBps'] / 1e6:.0f}"),
    ("K", lambda r: f"{r['dilation']:g}"), ("cores", lambda r: f"{r['coresPerMember']:g}"),
    ("values", lambda r: f"{r['values'] / 1e6:g} M"), ("method", lambda r: r["method"]),
    ("bits", lambda r: f"{r['bitsPerValue']:.2f}"), ("seconds", lambda r: f"{r['seconds']:.3f}"),
    ("of line", lambda r: f"{r['linkLimitFraction']:.3f}"),
    ("wire MB", lambda r: f"{r['wireBytesPerMember'] / 1e6:.2f}"),
    ("of theory", lambda r: f"{r['wireBytesPerMember'] / r['theoryBytes']:.4f}"),
    ("CPU s", lambda r: f"{r['cpuSeconds']:.3f}"),
    ("busy", lambda r: f"{r['processorsBusy']:.2f}"),
    ("own", lambda r: f"{r['ownProcessors']:.2f}"),
    ("error", lambda r: f"{r['relativeError']:.1e}"), ("", lambda r: ", ".join(remarks(r))),
)
WIDTHS = (2, 6, 3, 5, 6, 31, 5, 8, 7, 8, 9, 7, 4, 4, 7, 4)


def misses(row):
    found = []
    off = row["wireBytesPerMember"] / row["theoryBytes"] - 1
    within = BYTES_WITHIN + (STEP_BYTES / row["theoryBytes"] if row["isStep"] else 0)
    if abs(off) > within and row["method"] != "gloo":
        found.append(f"bytes {100 * off:+.1f} %")
    if row["direct"] and row["values"] >= LARGE and row["shapedBy"] == "tbf" and \
            row["linkLimitFraction"] < FRACTION_WANTED and row["processorsBusy"] < FULL:
        found.append(f"below {FRACTION_WANTED} of the line")
    return found


def remarks(row):
    return misses(row) + (["processors full"] if row["processorsBusy"] >= FULL else [])


def line_of(texts):
    return ("| " + " | ".join(f"{t:{w}}" for t, w in zip(texts, WIDTHS)) + " |").rstrip()


class Bench:
    def __init__(self, args):
        self.args, self.rows, self.left_out = args, [], []
        self.out = sys.stderr if args.json else sys.stdout
        self.isolated = os.geteuid() == 0 and namespaces.possible()
        self.patterns = args.methods.split(";")
        if not any(self.wants(name) for name in (*METHODS, "gloo")):
            sys.exit(f"replica: --methods {args.methods} names none of: " +
                     "; ".join((*METHODS, "gloo")))

    def say(self, text):
        print(text, file=self.out, flush=True)

    def wants(self, name):
        return any(fnmatch.fnmatchcase(name, p) for p in self.patterns)

    def methods(self, size):
        for name, (spec, per_value) in METHODS.items():
            if name == "marsit:shape=torus":
                rows = max(r for r in range(1, size) if size % r == 0 and r * r <= size)
                if rows == 1:
                    continue  # a ring
                spec = {**spec, "columns": size // rows}
            if self.wants(name):
                yield name, {**spec, **self.args.tune}, per_value

    def fits(self, name, size, rate, values, per_value):
        needed = size * (MEMBER_BYTES + per_value * values)
        if needed < memory_available():
            return True
        self.left_out.append(f"{name} of {values / 1e6:g} M values, {size} members at "
                             f"{rate / 1e6:g} Mbit/s: {needed / 1e9:.1f} GB of memory wanted")
        return False

    def rows_of(self, network, members, rate, methods):
        for values in self.args.values:
            for name, spec, per_value in methods:
                if not self.fits(name, len(members.processes), rate, values, per_value):
                    continue
                self.rows.append(row_of(self.args, network, members, name, spec, rate, values))
                self.say(line_of(bench_rows.cells(COLUMNS, self.rows[-1])))

    def group(self, network, size, gloo):
        for mbit in self.args.mbit:
            rate = mbit * 1_000_000
            network.shape(rate)
            with shoal_members(self.args, network, size, rate) as members:
                # The pace of the lines is found before anything is measured.
                members.ask(prepare={**METHODS["average"][0],
                                     "values": min(4_000_000, *self.args.values)})
                warm_up(members, min(5, 5 * self.args.seconds))
                members.ask(drop=True)
                self.rows_of(network, members, rate, list(self.methods(size)))
            if gloo is not None:
                self.rows_of(network, gloo, rate, [("gloo", *GLOO)])

    def run(self):
        names = [name for name, _ in COLUMNS]
        self.say(line_of(names))
        self.say("|" + "|".join("-" * (w + 2) for w in WIDTHS) + "|")
        wants_gloo = self.wants("gloo") and not self.args.quick
        why = None if self.isolated else "takes root, for network namespaces"
        if wants_gloo and why is None and not has_gloo(self.args):
            why = f"{self.args.python} has no torch with gloo; name one by --python"
        if wants_gloo and why:
            self.left_out.append("gloo: " + why)
        for size in self.args.members:
            dilation = replica_dilation.for_members(self.args.dilation, size,
                                                    self.args.cores_per_member)
            with contextlib.ExitStack() as stack:
                network = stack.enter_context(Lines(
                    size, dilation, self.args.rtt, Path(self.args.build, "bin/shoal-bench"))) \
                    if self.isolated else Loopback(size, dilation)
                gloo = None
                if wants_gloo and not why:
                    gloo = stack.enter_context(gloo_members(self.args, network, size))
                self.group(network, size, gloo)

    def report(self):
        for text in self.left_out:
            self.say("left out: " + text)
        if not self.isolated:
            self.say("not root: no namespaces, so upload caps of the links stand for lines, and "
                     "their own count for the kernel's")
        if self.args.json:
            bench_rows.print_json(self.rows, leftOut=self.left_out)
        return bench_command.exit_code(not any(misses(row) for row in self.rows))


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("replica: ended"))  # namespaces go, too
    bench = Bench(arguments())
    bench.run()
    sys.exit(bench.report())


if __name__ == "__main__":
    main()
