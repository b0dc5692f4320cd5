"""Tables and plots of the quality bench: for the terminal, and for docs/quality/."""

import csv
import fnmatch
import re

from checks import bits_per_value, replica_bits, run_bits, wire_bytes
from rows import EIGHT, FOUR, MICRO, REPLICA_SETUPS, ROWS, SETUPS
from svg_plot import plot

HEAD = ("row", "train", "vs fp32", "held out", "vs fp32", "delta", "error", "bits fw+bw", "wire MB",
        "bits, run")
SETUP_TEXT = """# Quality: what is lost at k bits

`./x bench quality` trains one small model through the pipeline's own code with every codec and
compares with fp32 and the same seed. `rows.csv` has every figure and codec spec, `limits.csv` the
limits, `results.json` all epochs.

**Set-up.** A GPT-2 over bytes: hidden 128, 4 heads, rows of 128 tokens, untied head, 4 blocks
(875,264 parameters) or 8, one per stage. The base learns WikiText-2
(2,000 steps of 16 windows, AdamW 2e-3), then half WikiText-2, half the first half of
tinyshakespeare (800 steps). Rows fine-tune it on 640 windows of the other half: 8 epochs of 40
steps, 2 micro-batches of 8 samples, AdamW 3e-4 with one epoch of warm-up, clip 1. "From
scratch" starts from fresh weights (1e-3, 12 epochs). "High rate" is 1e-3. "Fresh masks" and
"keyed masks" have dropout of 0.1, with another mask at each visit or one per sample.
Links and time are simulated (`tests/support/sim_swarm.h`).

**Rows.** *fw3 bw6*: 3 bits forward, 6 backward. *a | b*: codecs forward and backward.
*authors*: one scale per channel of a message, as in the code of AQ-SGD's authors. The first
epoch of `aqsgd` rows is fp32 both ways unless a row says otherwise.

**Bases that stand out.** "Plain": the base as it is. "Outliers": three channels are written 30
times larger and the norms corrected, between the two phases of the base. "Sinks": two channels of
position 0 get 2,400 and -1,500. "Both": both (`tests/quality/shaped_weights.py`).
The line under fp32: from the lowest boundary up, how far the largest channel, token and
single values (kurtosis; 3 is Gaussian) stand out after the last epoch, and how much a token
changes between epochs.

**GPT-2 of 34 M.** 8 blocks of hidden 512, 8 heads, ids of GPT-2's BPE with its first 7,936 merges.
The base learns WikiText-2 alone (1,000 steps, 6e-4), rows fine-tune it on 320 windows for 4 epochs
(1e-4), from scratch at 6e-4. With pipelines, `qadam` takes other steps than
AdamW: its rows belong beside each other. *Of 163 M*: GPT-2's own 12 blocks, hidden 768 and
vocabulary, the head apart. At hidden 128 changes of rank 16 lose 3.3 %, at 512 0.9 %: the rank
needed grows slower than the size. *m of gradients* has a base of its own.

**Columns.** *train*: mean loss of the last epoch above fp32, codecs on, in percent. *held out*:
the same of 128 windows after the last epoch, activations not compressed; limits judge it after the
epoch in which fp32's is best. *bits, run*: wire bits per value that crosses a boundary, forward and
backward, headers included (fp32: 64), over the run; *last*: in its last epoch. Two figures are two
seeds.
"""

LOW_RANK_HEAD = ("row", "backward bits", "gradient error", "low rank", "rho", "lazy")
LOW_RANK_TEXT = """As "4 stages" with steps of 8 micro-batches of 2 samples and fp32
activations: what gradients alone lose. *epilogue*: the last 3, 2 and 1 of 8 gradients of
the three links are low rank, the others go by `else=`; *all*: every one. *lazy*: what a
low-rank message left out is added to the next gradient."""


REPLICA_HEAD = ("method", "train", "vs fp32", "held out", "vs fp32", "bits a value", "group MB")
REPLICA_TEXT = """Pipelines of two stages, fp32 between stages; `fp32` is the method
`average`. *bits*: wire bits inside the stage groups per fp32 value that exact sums would
send, over the whole run. A step has 4 micro-batches, with 8 pipelines 8."""


def _cells(values, form):
    return " / ".join("-" if v is None else form.format(v) for v in values) or "-"


def _line(results, row):
    runs = [run for _, run in sorted(results.seeds(row.setup, row.name).items())]
    if not runs:
        return None

    def last(what):
        return [run[what][-1] for run in runs]

    def excess(what):
        return [v for _, v in sorted(results.excess(row.setup, row.name, what).items())]

    return (row.name, _cells(last("trainLoss"), "{:.4f}"), _cells(excess("trainLoss"), "{:+.2f} %"),
            _cells(last("heldOutLoss"), "{:.4f}"), _cells(excess("heldOutLoss"), "{:+.2f} %"),
            _cells(last("deltaNorm")[:1], "{:.3f}"), _cells(last("receivedError")[:1], "{:.3f}"),
            f"{bits_per_value(runs[0]):.2f}", f"{wire_bytes(runs[0]) / 1e6:.1f}",
            f"{run_bits(runs[0]):.2f}")


def _replica_line(results, row):
    """As _line, of a setup whose rows differ in how pipelines agree."""
    line = _line(results, row)
    if not line:
        return None
    run = next(iter(results.seeds(row.setup, row.name).values()))
    return (*line[:5], f"{replica_bits(run):.2f}", f"{sum(run['replicaBytes']) / 1e6:.1f}")


def _setups(results):
    for setup in dict.fromkeys(row.setup for row in ROWS):
        head, of = (REPLICA_HEAD, _replica_line) if setup in REPLICA_SETUPS else (HEAD, _line)
        lines = [of(results, row) for row in ROWS if row.setup == setup]
        lines = [line for line in lines if line]
        if lines:
            yield setup, head, lines


def _low_rank_lines(results):
    for row in ROWS:
        run = results.seeds(row.setup, row.name).get(row.seeds[0])
        if row.setup != MICRO or run is None or row.name == "fp32":
            continue

        def last(what, form, run=run):
            return _cells(run.get(what, [None])[-1:], form)

        bits = 8 * run["backwardBytes"][-1] / run["values"][-1]
        yield (row.name, f"{bits:.2f}", last("gradientError", "{:.3f}"),
               last("lowRankPart", "{:.0%}"), last("correlation", "{:.2f}"),
               last("lazyPart", "{:.0%}"))


def _aligned(head, lines):
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
            for line in [head, *lines]]


def _markdown(head, lines):
    rows = ["|".join(cell.replace("|", "\\|") for cell in line) for line in [head, *lines]]
    return [rows[0], "|".join(["---"] * len(head)), *rows[1:]]


def table(results):
    out = []
    for setup, head, lines in _setups(results):
        out += [f"== {setup}", *_aligned(head, lines), ""]
        if setup == MICRO:
            out += [*_aligned(LOW_RANK_HEAD, list(_low_rank_lines(results))), ""]
    return "\n".join(out) or "nothing is finished\n"


CHECK_HEAD = ("threshold", "limit", "found", "")


def check_table(found):
    return "\n".join(["== thresholds", *_aligned(CHECK_HEAD, [c.line() for c in found]), ""])


def _epochs(results, setup, names):
    series = []
    for name in names:
        for run in list(results.seeds(setup, name).values())[:1]:
            losses = [run["heldOutBefore"], *run["heldOutLoss"]]
            series.append((name, list(enumerate(losses))))
    return series


def _bytes(results, setup, names):
    series = []
    for name in names:
        for run in list(results.seeds(setup, name).values())[:1]:
            sent, points = 0.0, []
            for i, loss in enumerate(run["heldOutLoss"]):
                sent += (run["forwardBytes"][i] + run["backwardBytes"][i]
                         + run["otherBytes"][i]) / 1e6
                points.append((sent, loss))
            series.append((name, points))
    return series


def _against_bits(results, setup):
    """One point per row: bits in the last epoch, training loss above fp32 in percent."""
    groups = {}
    for row in ROWS:
        excess = results.excess(row.setup, row.name)
        if row.setup != setup or row.name == "fp32" or not excess:
            continue
        runs = results.seeds(setup, row.name)
        forward = row.forward.split(":")[0]
        if row.name.startswith(("m in", "first visit")):
            forward = row.name.split(" in")[0] + " variants of aqsgd"
        name = f"{forward} | {row.backward.split(':')[0]}"
        # Below a hundredth of a percent there is only noise, and no place on a logarithmic axis.
        above = max(sum(excess.values()) / len(excess), 0.01)
        point = (bits_per_value(next(iter(runs.values()))), above)
        groups.setdefault(name, []).append(point)
    return [(name, sorted(points)) for name, points in groups.items()]


MAIN = ["fp32", "aqsgd fw4 bw8", "aqsgd fw3 bw6", "aqsgd fw2 bw4", "direct fw4 bw8",
        "direct fw3 bw6", "direct fw2 bw4"]


def plots(results):
    """File name -> SVG text; only of what has rows."""
    out = {}
    frontier = [row.name for row in ROWS
                if row.setup == FOUR and fnmatch.fnmatch(row.name, "*dithered*")][:3]
    slugs = {FOUR: "four-stages", EIGHT: "eight-stages", "from scratch": "scratch",
             "high rate": "high-rate"}
    for setup, slug in slugs.items():
        names = MAIN + frontier
        if setup == "high rate":
            names = [row.name for row in ROWS if row.setup == setup]
        series = _epochs(results, setup, names)
        if len(series) > 1:
            out[f"held-out-{slug}.svg"] = plot(
                f"Held-out loss per epoch, {setup}", "epoch", "nats per byte", series)
            out[f"held-out-bytes-{slug}.svg"] = plot(
                f"Held-out loss against bytes on the wire, {setup}", "MB, all boundaries",
                "nats per byte", _bytes(results, setup, names), log_x=True)
        points = _against_bits(results, setup) if setup in (FOUR, EIGHT) else []
        if points:
            out[f"bits-{slug}.svg"] = plot(
                f"Training loss above fp32 against bits, {setup}",
                "wire bits per boundary value, forward + backward", "percent above fp32",
                points, log_x=True, log_y=True)
    return out


def _machines(results, machine):
    def words(run):
        device = run.get("device", "cpu")
        where = run.get("machine") or machine
        return f"{where['cpu']}, {where['system']}" if device == "cpu" else device

    used = {words(run) for runs in results.runs.values() for run in runs.values()}
    gpu = [setup for setup in dict.fromkeys(row.setup for row in ROWS)
           if any(run.get("device", "cpu") != "cpu" for (where, _), runs in results.runs.items()
                  for run in runs.values() if where == setup)]
    more = f" On a GPU: {'; '.join(gpu)}." if gpu else ""
    return f"**Machine.** {'; '.join(sorted(used))}; one thread a row.{more}"


def _missing(results):
    """How many rows, with all of their seeds, no run of the present rules has measured yet."""
    setups = {}  # by what is missing of them
    for setup in dict.fromkeys(row.setup for row in ROWS):
        rows = [row for row in ROWS if row.setup == setup]
        missing = [row for row in rows if not set(row.seeds) <= set(results.seeds(setup, row.name))]
        if missing:
            measured = any(where == setup for where, _ in results.runs)
            share = f"{len(missing)} of {len(rows)}" if measured else "all"
            setups.setdefault(share, []).append(setup)
    if not setups:
        return []
    lines = [f"- {'; '.join(alike)}: {share}" for share, alike in setups.items()]
    return ["## Not measured", "", "Rows of which no run of the present rules has measured all "
            "seeds (`./x bench quality --list`).",
            "", *lines, ""]


def _write_csv(path, lines):
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def _csv_rows(results):
    yield ("setup", *HEAD, "group MB", "forward", "backward", "backward in epoch 1")
    for row in ROWS:
        line = _line(results, row)
        if not line:
            continue
        group = ""
        if row.setup in REPLICA_SETUPS:
            *_, bits, group = _replica_line(results, row)
            line = (*line[:7], bits, *line[8:])
        yield (row.setup, *line, group, row.forward, row.backward,
               row.first_epoch_backward or row.backward)


def _short(line, bits):
    """Name, excess of both losses without signs of percent, and the cells `bits`."""
    def bare(cell):
        return cell.replace(" %", "").replace(" / ", "/")
    return (line[0], bare(line[2]), bare(line[4]), *(line[i] for i in bits))


def _boundaries(results, setup):
    """How far activations stand out at the boundaries of the fp32 row, where it was looked at."""
    runs = results.seeds(setup, "fp32")
    run = runs[min(runs)] if runs else {}
    if "shape" not in SETUPS[setup] or not run.get("boundaries"):
        return []
    last = run["boundaries"][-1]

    def over(what, form="{:.0f}"):
        return "/".join(form.format(boundary[what]) for boundary in last)

    return [f"Over the median, largest channel: {over('channelRatio')}; token: "
            f"{over('tokenRatio', '{:.1f}')}. Kurtosis: {over('kurtosis')}. Change of a token, "
            f"median: {over('changeMedian', '{:.3f}')}; 90th percentile: "
            f"{over('changeP90', '{:.3f}')}.", ""]


def _missed(found):
    """The limits that do not hold, for whoever reads no further than the sum."""
    missed = {}  # what, and its limit -> where it was missed, and by what
    for text, limit, value, _ in (check.line() for check in found if check.ok is False):
        setup, what = text.split(": ", 1)
        missed.setdefault((re.sub(r" \(.*\)$", "", what), limit), []).append(f"{setup} {value}")
    if not missed:
        return []
    return ["Missed:", "", *(f"- {what}, {limit}: {'; '.join(where)}"
                             for (what, limit), where in missed.items())]


def write_docs(folder, results, found, machine):
    folder.mkdir(parents=True, exist_ok=True)
    _write_csv(folder / "rows.csv", _csv_rows(results))
    judged = [c.line() for c in found if c.ok is not None]
    _write_csv(folder / "limits.csv", [("limit of", "limit", "found", "holds"), *judged])
    held = sum(c.ok is True for c in found)
    out = [SETUP_TEXT, _machines(results, machine), "",
           f"**Limits.** {held} of {len(judged)} measured limits hold; {len(found)} are defined.",
           *_missed(found), ""]
    for setup, head, lines in _setups(results):
        out += [f"## {setup[0].upper()}{setup[1:]}", ""]
        if setup == MICRO:
            out += [LOW_RANK_TEXT, ""]
        elif setup in REPLICA_SETUPS[:1]:
            out += [REPLICA_TEXT, ""]
        bits = (5,) if head is REPLICA_HEAD else (9, 7)
        words = ("method", "train", "held out", "bits") if head is REPLICA_HEAD else (
            "row", "train", "held out", "bits, run", "last")
        base = [line for line in lines if line[0] == "fp32"]
        for line in base:
            train, held_out = (line[i].replace(" / ", "/") for i in (1, 3))
            out += [f"fp32: train {train}, held out {held_out}.", ""]
        out += _boundaries(results, setup)
        shown = [_short(line, bits) for line in lines if line[0] != "fp32"]
        out += [*_markdown(words, shown), ""] if shown else []
    out += _missing(results)
    out += ["## Plots", ""]
    drawn = plots(results)
    for name, svg in drawn.items():
        (folder / name).write_text(svg)
    out += [", ".join(f"[{name[:-4]}]({name})" for name in drawn), ""]
    (folder / "README.md").write_text("\n".join(out).rstrip() + "\n")
