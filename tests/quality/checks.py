"""Figures of finished rows, and the thresholds that the quality bench holds them to."""

from rows import (EIGHT, FOUR, FULL, HIGH_RATE, MICRO, PIPELINES, PIPELINES_4, PIPELINES_8, QSDP_4,
                  shaped_setups)


class Results:
    """Finished rows: figures by (setup, name) and seed."""

    def __init__(self):
        self.runs = {}

    def add(self, row, seed, figures):
        self.runs.setdefault((row.setup, row.name), {})[seed] = figures

    def seeds(self, setup, name):
        return self.runs.get((setup, name), {})

    def excess(self, setup, name, what="trainLoss"):
        """Last-epoch loss against fp32 with the same seed, in percent, by seed."""
        base = self.seeds(setup, "fp32")
        return {seed: 100 * (run[what][-1] / base[seed][what][-1] - 1)
                for seed, run in self.seeds(setup, name).items() if seed in base}

    def held_out_off(self, setup, name):
        """Held-out loss against fp32 with the same seed, in percent, after the epoch in which that
        of fp32 is best: behind it fp32 overfits, and a row that fits less well looks better."""
        base = self.seeds(setup, "fp32")
        off = []
        for seed, run in self.seeds(setup, name).items():
            if seed in base:
                exact = base[seed]["heldOutLoss"]
                best = min(range(len(exact)), key=exact.__getitem__)
                off.append(100 * (run["heldOutLoss"][best] / exact[best] - 1))
        return off

    def worst_epoch(self, setup, name):
        """The most by which training loss is above that of fp32 in the same epoch, in percent."""
        base = self.seeds(setup, "fp32")
        above = [100 * (ours / exact - 1)
                 for seed, run in self.seeds(setup, name).items() if seed in base
                 for ours, exact in zip(run["trainLoss"], base[seed]["trainLoss"])]
        return max(above) if above else None

    def last(self, setup, name, what):
        values = [run[what][-1] for run in self.seeds(setup, name).values()]
        return [v for v in values if v is not None]


def bits_per_value(figures, epoch=-1):
    """Wire bits, both directions, per value that crossed a boundary forward in that epoch."""
    return 8 * (figures["forwardBytes"][epoch] + figures["backwardBytes"][epoch]
                + figures["otherBytes"][epoch]) / figures["values"][epoch]


def run_bits(figures):
    """The same over all epochs, from the first step on."""
    return 8 * wire_bytes(figures) / sum(figures["values"])


def replica_bits(figures):
    """Wire bits inside the stage groups per value that exact fp32 sums would have sent."""
    return 32 * sum(figures["replicaBytes"]) / sum(figures["replicaRawBytes"])


def wire_bytes(figures):
    return sum(sum(figures[k]) for k in ("forwardBytes", "backwardBytes", "otherBytes"))


class Check:
    """A threshold: `value` is None while its rows are missing."""

    def __init__(self, text, value, limit, at_least=False, unit=" %"):
        self.text, self.value, self.limit = text, value, limit
        self.at_least, self.unit = at_least, unit

    @property
    def ok(self):
        if self.value is None:
            return None
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def line(self):
        sign = "at least" if self.at_least else "at most"
        found = "not measured" if self.value is None else f"{self.value:.3g}{self.unit}"
        word = {None: "-", True: "holds", False: "MISSED"}[self.ok]
        return self.text, f"{sign} {self.limit:g}{self.unit}", found, word


def _worst(values, at_least=False):
    values = list(values)
    return None if not values else (min(values) if at_least else max(values))


def _share_closed(results, setup, pair):
    direct = results.excess(setup, f"direct {pair}")
    ours = results.excess(setup, f"aqsgd {pair}")
    return _worst(((direct[s] - ours[s]) / direct[s] for s in ours if direct.get(s, 0) > 0), True)


def _frontier(results, setup, bits_of=bits_per_value):
    """The fewest bits of a pair whose losses are within 1 % of fp32 for every seed."""
    found = None
    for (where, name), runs in results.runs.items():
        excess = [above for what in ("trainLoss", "heldOutLoss")
                  for above in results.excess(where, name, what).values()]
        if where != setup or name == "fp32" or not excess or max(excess) > 1:
            continue
        bits = max(bits_of(run) for run in runs.values())
        if found is None or bits < found[0]:
            found = (bits, name)
    return found


def _within(results, setup, name, train, held):
    """Both losses of a row that must keep them. Held-out loss below fp32 is no gain: the row fits
    less well, and that counts as well."""
    off = results.held_out_off(setup, name)
    return [Check(f"{setup}: {name}, training loss above fp32",
                  _worst(results.excess(setup, name).values()), train),
            Check(f"{setup}: {name}, held-out loss off fp32", _worst(abs(v) for v in off), held)]


def _low_rank(results):
    """Low rank costs little where it saves time, much elsewhere, and the switch is right."""
    name = "rank 4 epilogue, lazy auto"
    out = []
    for other, what, words, limit in (("all, not lazy", "heldOutLoss", "held-out", 1),
                                      ("epilogue, lazy", "trainLoss", "training", 0)):
        ours = results.last(MICRO, name, what)
        theirs = results.last(MICRO, f"rank 4 {other}", what)
        above = 100 * (min(theirs) / max(ours) - 1) if ours and theirs else None
        out.append(Check(f"{MICRO}: rank 4 {other}, {words} loss above that", above, limit, True))
    return out


# Rows that must keep the loss: setup, name, and by how many percent training and held-out loss may
# differ from those of fp32.
LIMITS = [
    (FOUR, "aqsgd fw4 bw8", 0.3, 0.5),
    (FOUR, "aqsgd fw3 bw6", 0.5, 0.5),
    (FOUR, "aqsgd fw2 bw4", 1.5, 0.5),
    (FOUR, "m in 8 bits", 0.5, 0.5),
    (FOUR, "m in 4 bits", 1, 0.5),
    (FOUR, "m in 2 bits", 6, 1),
    (FOUR, "first visit direct 8 bits", 0.5, 0.5),
    (FOUR, "first visit tiles 4 bits", 0.8, 0.5),
    (FOUR, "3 bits+rans | dithered 0.5", 1, 0.5),
    (EIGHT, "aqsgd fw3 bw6", 0.8, 0.5),
    (EIGHT, "aqsgd fw2 bw4", 4, 0.5),
    (EIGHT, "3 bits+rans | dithered 0.5", 1, 0.5),
    *((setup, "defaults of a run", 0.5, 0.3) for setup in shaped_setups(FOUR)),
    *((setup, "defaults of a run", 1, 0.3) for setup in shaped_setups(EIGHT)),
    (MICRO, "rank 4 epilogue, lazy auto", 2.5, 1),
    (PIPELINES, "average:dtype=bf16", 0.1, 0.1),
    (PIPELINES, "average:codec=dithered:step=0.3", 0.5, 0.5),
    (PIPELINES, "average:codec=direct:bits=4/bucket=512", 2, 0.5),
    (PIPELINES, "average:local_steps=16", 4, 0.5),
    *((setup, "marsit", 1, 0.5) for setup in (PIPELINES, PIPELINES_4, PIPELINES_8)),
    *((setup, "onebit", 1, 1) for setup in HIGH_RATE),
    *((setup, "marsit", 4, 1.5) for setup in HIGH_RATE),
    *((setup, name, train, 0.5)
      for setup in (PIPELINES, PIPELINES_4, PIPELINES_8)
      for name, train in (("qadam:bits=4", 0.5), ("onebit", 0.5),
                          ("powersgd:rank=16,stages=0", 1), ("qsdp:weights=8,gradients=8", 0.3),
                          (QSDP_4[0], 1.5))),
]


# Setups with rows that try for the fewest bits: over which steps, and how many at most.
FEWEST_BITS = [
    *((setup, "last epoch", bits_per_value, most)
      for base, most in ((FOUR, 3.2), (EIGHT, 4.4)) for setup in (base, *shaped_setups(base))),
    *((setup, "whole run", run_bits, 4.0)
      for base in (FOUR, EIGHT) for setup in shaped_setups(base)),
]


def _differences(results):
    """Why weights of fewer than 8 bits travel as differences unless told otherwise."""
    out = []
    for setup in (PIPELINES, PIPELINES_4, PIPELINES_8):
        ours, plain = (results.excess(setup, name) for name in QSDP_4[:2])
        gap = _worst((plain[seed] - ours[seed] for seed in ours if seed in plain), True)
        out.append(Check(f"{setup}: {QSDP_4[1]}, training loss above {QSDP_4[0]}", gap, 0, True))
    return out


def _guarded(results):
    """Where changes are as large as activations: is all sent in full, and does it help?"""
    name = "aqsgd fw2 bw4"
    full = [sum(modes.count("full") for modes in run["deltaModes"])
            for run in results.seeds(FULL, name).values()]
    with_guard, without = (results.last(FULL, n, "trainLoss") for n in (name, f"{name}, no guard"))
    return [Check(f"{FULL}: {name}, boundaries in full, over all epochs",
                  min(full, default=None), 1, True, unit=""),
            Check(f"{FULL}: {name}, with the guard against without, training loss",
                  100 * (max(with_guard) / min(without) - 1) if with_guard and without else None,
                  0)]


def checks(results):
    out = [check for limits in LIMITS for check in _within(results, *limits)]
    for pair, limit in (("fw2 bw4", 10), ("fw3 bw6", 4)):
        worst = _worst(results.excess(FOUR, f"direct {pair}").values(), True)
        out.append(Check(f"{FOUR}: direct {pair}, training loss above fp32", worst, limit, True))
        out.append(Check(f"{FOUR}: {pair}, share of the gap closed",
                         _share_closed(results, FOUR, pair), 0.9, True, ""))
    for name, limit in (("aqsgd fw2 bw4", 0.04), ("aqsgd fw3 bw6", 0.015)):
        out.append(Check(f"{FOUR}: {name}, delta norm in the last epoch",
                         _worst(results.last(FOUR, name, "deltaNorm")), 0.10, unit=""))
        out.append(Check(f"{FOUR}: {name}, error of the received activation",
                         _worst(results.last(FOUR, name, "receivedError")), limit, unit=""))
    for setup, pair in (("from scratch", "fw2 bw4"), ("high rate", "fw2 bw4 authors")):
        ours, direct = (results.last(setup, f"{codec} {pair}", "trainLoss")
                        for codec in ("aqsgd", "direct"))
        out.append(Check(f"{setup}: {pair}, aqsgd against direct, training loss",
                         100 * (max(ours) / min(direct) - 1) if ours and direct else None, 0))
    out += _guarded(results)
    for setup in (*shaped_setups(FOUR), *shaped_setups(EIGHT)):
        runs = results.seeds(setup, "defaults of a run").values()
        out.append(Check(f"{setup}: defaults of a run, worst epoch above fp32's",
                         results.worst_epoch(setup, "defaults of a run"), 2))
        out.append(Check(f"{setup}: defaults of a run, bits in the last epoch",
                         _worst(bits_per_value(run) for run in runs), 5.3, unit=""))
    out += [Check(f"{EIGHT}: direct fw3 bw6, training loss above fp32",
                  _worst(results.excess(EIGHT, "direct fw3 bw6").values(), True), 15, True)]
    out += _low_rank(results)
    for setup, words, bits_of, most in FEWEST_BITS:
        tried = any(where == setup for where, _ in results.runs)
        found = _frontier(results, setup, bits_of) if tried else None
        name = f" ({found[1]})" if found else ""
        out.append(Check(f"{setup}: fewest bits within 1 %, {words}{name}",
                         found and found[0], most, unit=" bits"))
    return out + _differences(results)
