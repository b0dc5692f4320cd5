"""Tables and plots of the quality bench: for the terminal, and for docs/quality/."""

import fnmatch

from checks import bits_per_value, replica_bits, wire_bytes
from rows import EIGHT, FOUR, MICRO, REPLICA_SETUPS, ROWS
from svg_plot import plot

HEAD = ("row", "train", "vs fp32", "held out", "vs fp32", "delta", "error", "bits fw+bw", "wire MB")
SETUP_TEXT = """# Quality: what is lost at k bits

Written by `./x bench quality --docs`; `./x bench quality` prints the same tables, trains what is
missing (about 90 s a row on one core) and exits with an error if a threshold is missed.
`results.json` has every epoch of every row.

**Set-up.** A GPT-2 over bytes (vocabulary 256, hidden 128, 4 heads, rows of 128 tokens, untied
head; 4 blocks with 875,264 parameters, or 8 blocks), one block per stage, so 3 or 7 boundaries.
It learns WikiText-2 (2,000 steps of 16 random windows, AdamW 2e-3, betas .9 and .99, 100 steps of
warm-up, clip 1), then half WikiText-2, half the first half of tinyshakespeare (800 steps, from
1e-3 linearly to 0). That base model is fine-tuned on 640 fixed windows of the other half of
tinyshakespeare: 8 epochs of 40 steps, 2 micro-batches of 8 samples, AdamW 3e-4, betas .9 and
.999, one epoch of warm-up, then linearly to 0, clip 1. "From scratch" starts from fresh weights
instead (1e-3, 12 epochs). The seed sets the order of the samples, nothing else.

**Through what.** Stage runners, boundary lanes, codecs, delta store, sampler and learning-rate
rule are the product's; links and time are simulated in one process (`tests/support/sim_swarm.h`),
so that a run repeats bit for bit on one machine.

**Columns.** *train*: mean loss (nats per byte) of the last epoch, codecs on. *held out*: loss of
128 windows of the last tenth of the text after the last epoch, activations not compressed.
*delta*: |x - m| / |x|, and *error*: |x - received| / |x|, over the last epoch and all boundaries.
*bits*: wire bits per value that crosses a boundary, forward + backward, in the last epoch:
payload, frame and chunk headers, gRPC, TLS and TCP included (fp32: 64 and headers). *wire MB*: of
the whole run, all boundaries, first epoch included. Where a row says nothing else, the first
epoch of `aqsgd` rows is fp32 both ways, as in the paper; `direct` is used from the first step.
"""

LOW_RANK_HEAD = ("row", "backward bits", "gradient error", "low rank", "rho", "lazy")
LOW_RANK_TEXT = """As "4 stages", but steps of 8 micro-batches of 2 samples, activations as fp32:
what gradients alone lose. A gradient is a matrix of 256 x 128. *epilogue*: the last 3, 2 and 1 of
8 gradients of the three links are low rank (a quarter of all), the others go by `else=`; *all*:
every one. *Lazy*: what a low-rank message left out is added to the next micro-batch's gradient.
Below, in the last epoch and over the three links: *backward bits* per value on the wire, headers
included; *gradient error* |g - received| / |g| of the first message of a step and all of the
epilogue; *rho*: correlation of activations from one micro-batch to the next; *lazy*: part
of the links that passed errors on at the end."""


REPLICA_HEAD = ("method", "train", "vs fp32", "held out", "vs fp32", "bits a value", "group MB")
REPLICA_TEXT = """Pipelines of two stages each, activations and gradients between stages in fp32;
`fp32` is the method `average`, other names are `[replica] method` of a run file. *bits a value*:
wire bits inside the stage groups per fp32 value that exact sums would send there, over the whole
run (warm-up included; headers, TLS and TCP, too). *group MB*: all members, all steps. *High rate*:
1e-3 instead of 3e-4."""


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
            f"{bits_per_value(runs[0]):.2f}", f"{wire_bytes(runs[0]) / 1e6:.1f}")


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
    rows = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
            for line in [head, *lines]]
    return [rows[0], "|" + "---|" * len(head), *rows[1:]]


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
    used = {f"{where['cpu']}, {where['system']}" for runs in results.runs.values()
            for run in runs.values() for where in [run.get("machine") or machine]}
    return f"**Machine.** {'; '.join(sorted(used))}; one thread a row."


def _missing(results):
    """The rows that no run of the present rules has measured, by setup."""
    lines = []
    for setup in dict.fromkeys(row.setup for row in ROWS):
        names = []
        for row in ROWS:
            seeds = [str(s) for s in row.seeds if s not in results.seeds(setup, row.name)]
            if row.setup == setup and seeds:
                some = len(seeds) < len(row.seeds)
                names.append(f"`{row.name}`" + (f" (seed {', '.join(seeds)})" if some else ""))
        if names:
            lines += [f"- {setup}: " + ", ".join(names)]
    if not lines:
        return []
    return ["## Not measured", "", "No run of the present rules has measured these rows yet; "
            "figures that an older version of a method gave are not shown.", "", *lines, ""]


def write_docs(folder, results, found, machine):
    folder.mkdir(parents=True, exist_ok=True)
    out = [SETUP_TEXT, _machines(results, machine), "", "Two figures are two seeds.", ""]
    for setup, head, lines in _setups(results):
        out += [f"## {setup[0].upper()}{setup[1:]}", "", *_markdown(head, lines), ""]
        if setup in REPLICA_SETUPS:
            out += [REPLICA_TEXT, ""] if setup == REPLICA_SETUPS[0] else []
            continue
        if setup == MICRO:
            out += [LOW_RANK_TEXT, "",
                    *_markdown(LOW_RANK_HEAD, list(_low_rank_lines(results))), ""]
        codecs = [(f"`{row.name}`", f"`{row.forward}`", f"`{row.backward}`",
                   f"`{row.first_epoch_backward or row.backward}`")
                  for row in ROWS if row.setup == setup and results.seeds(setup, row.name)]
        out += ["<details><summary>Codec specs</summary>", "",
                *_markdown(("row", "forward", "backward", "backward in epoch 1"), codecs), "",
                "</details>", ""]
    out += _missing(results)
    head = ("threshold", "limit", "found", "holds")
    judged = [c.line() for c in found if c.ok is not None]
    out += ["## Thresholds", "", f"{len(judged)} of {len(found)}; the others are for rows that are "
            "not measured.", "", *_markdown(head, judged), "", "## Plots", ""]
    for name, svg in plots(results).items():
        (folder / name).write_text(svg)
        out += [f"![{name}]({name})", ""]
    (folder / "README.md").write_text("\n".join(out).rstrip() + "\n")
