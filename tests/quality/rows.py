"""The rows of the quality bench: what is trained, in the order of what matters most."""

RAW = "raw:dtype=fp32"

# setup -> what all its rows share. `weights`: which state of the base model they start from.
SETUPS = {
    "4 stages": {"layers": 4, "stages": 4, "weights": "base", "epochs": 8, "learningRate": 3e-4},
    "8 stages": {"layers": 8, "stages": 8, "weights": "base", "epochs": 8, "learningRate": 3e-4},
    "from scratch": {"layers": 4, "stages": 4, "weights": "init", "epochs": 12,
                     "learningRate": 1e-3},
    "high rate": {"layers": 4, "stages": 4, "weights": "base", "epochs": 8, "learningRate": 1e-3},
    "fresh masks": {"layers": 4, "stages": 4, "weights": "base", "epochs": 8,
                    "learningRate": 3e-4, "dropout": 0.1, "freshMasks": True},
    "keyed masks": {"layers": 4, "stages": 4, "weights": "base", "epochs": 8,
                    "learningRate": 3e-4, "dropout": 0.1},
}


class Row:
    """One codec pair in one setup; trained once per seed."""

    def __init__(self, setup, name, forward, backward, seeds=(1,), first_epoch_backward="",
                 m="fp16", first_visit=""):
        self.setup, self.name, self.seeds = setup, name, tuple(seeds)
        self.forward, self.backward = forward, backward
        self.first_epoch_backward = first_epoch_backward
        self.m, self.first_visit = m, first_visit

    def spec(self, seed):
        spec = dict(SETUPS[self.setup])
        spec.update(forward=self.forward, backward=self.backward, seed=seed,
                    firstEpochBackward=self.first_epoch_backward)
        return spec


def fp32(setup, seeds=(1,)):
    return Row(setup, "fp32", RAW, RAW, seeds, m="", first_visit="")


def direct(setup, forward, backward, seeds=(1,), name=""):
    return Row(setup, name or f"direct fw{forward} bw{backward}", f"direct:bits={forward}",
               f"direct:bits={backward}", seeds, m="", first_visit="")


def aqsgd(setup, forward, backward, seeds=(1,), name="", options="", m="", first=RAW,
          first_backward=RAW):
    """`forward`: bits; `backward`: bits, or a codec spec. The first epoch's gradients are fp32
    unless said, as the figures of the paper are."""
    keep = f",m={m}" if m else ""
    spec = f"aqsgd:bits={forward}{options}{keep},first_visit={first}"
    if isinstance(backward, int):
        name = name or f"aqsgd fw{forward} bw{backward}"
        backward = f"direct:bits={backward}"
    return Row(setup, name, spec, backward, seeds, first_backward, m or "fp16", first)


FOUR, EIGHT = "4 stages", "8 stages"

ROWS = [
    fp32(FOUR, (1, 2)),
    aqsgd(FOUR, 3, 6, (1, 2)),
    direct(FOUR, 3, 6, (1, 2)),
    aqsgd(FOUR, 2, 4, (1, 2)),
    direct(FOUR, 2, 4, (1, 2)),
    aqsgd(FOUR, 4, 8, (1, 2)),
    direct(FOUR, 4, 8, (1, 2)),
    fp32(EIGHT),
    aqsgd(EIGHT, 3, 6),
    direct(EIGHT, 3, 6),
    aqsgd(EIGHT, 2, 4),
    fp32("from scratch"),
    aqsgd("from scratch", 2, 4),
    direct("from scratch", 2, 4),
    aqsgd(FOUR, 3, 6, name="first visit direct 8 bits", first="direct:bits=8", first_backward=""),
]
