"""The rows of the quality bench: what is trained, in the order of what matters most."""

import re

RAW = "raw:dtype=fp32"

# Raise a method's or codec's version when its numerics change: its rows are trained again, and
# those that were made before are not shown. 1 where nothing is said; "bench" is for all rows.
VERSIONS = {
    "bench": 2,
    # 2: all pipelines clip by one factor.
    "qadam": 2,
    "onebit": 2,
    "qsdp": 2,
    # 2: the same, and directions of members are bounded by what they count for.
    "marsit": 2,
    # 2: scales per channel come from about 64 tokens of a message, not from 256 or more.
    "channels": 2,
}

# setup -> what all its rows share. `weights`: which state of the base model they start from.
SETUPS = {
    "4 stages": {"layers": 4, "stages": 4, "weights": "base", "epochs": 8, "learningRate": 3e-4},
    "8 stages": {"layers": 8, "stages": 8, "weights": "base", "epochs": 8, "learningRate": 3e-4},
    "from scratch": {"layers": 4, "stages": 4, "weights": "init", "epochs": 12,
                     "learningRate": 1e-3},
    "high rate": {"layers": 4, "stages": 4, "weights": "base", "epochs": 8, "learningRate": 1e-3},
    "fresh masks": {"layers": 4, "stages": 4, "weights": "base", "epochs": 8,
                    "learningRate": 3e-4, "dropout": 0.1, "freshMasks": True},
    # Between visits an activation changes by more than its size: the guard sends it in full.
    "most masked": {"layers": 4, "stages": 4, "weights": "base", "epochs": 4,
                    "learningRate": 3e-4, "dropout": 0.6, "freshMasks": True},
    "keyed masks": {"layers": 4, "stages": 4, "weights": "base", "epochs": 8,
                    "learningRate": 3e-4, "dropout": 0.1},
    "2 pipelines": {"layers": 4, "stages": 2, "pipelines": 2, "weights": "base", "epochs": 8,
                    "learningRate": 3e-4, "microBatches": 4},
    "4 pipelines": {"layers": 4, "stages": 2, "pipelines": 4, "weights": "base", "epochs": 8,
                    "learningRate": 3e-4, "microBatches": 4},
    "8 pipelines": {"layers": 4, "stages": 2, "pipelines": 8, "weights": "base", "epochs": 8,
                    "learningRate": 3e-4, "microBatches": 8},
    "2 pipelines, high rate": {"layers": 4, "stages": 2, "pipelines": 2, "weights": "base",
                               "epochs": 8, "learningRate": 1e-3, "microBatches": 4},
    "4 pipelines, high rate": {"layers": 4, "stages": 2, "pipelines": 4, "weights": "base",
                               "epochs": 8, "learningRate": 1e-3, "microBatches": 4},
    "8 pipelines, high rate": {"layers": 4, "stages": 2, "pipelines": 8, "weights": "base",
                               "epochs": 8, "learningRate": 1e-3, "microBatches": 8},
    "8 micro-batches": {"layers": 4, "stages": 4, "weights": "base", "epochs": 8,
                        "learningRate": 3e-4, "microBatches": 8},
}

# Bases whose activations look like those of large pretrained models (shaped_weights.py).
SHAPED = ("outliers", "sinks", "both")
for _base in ("4 stages", "8 stages"):
    for _shape in SHAPED:
        SETUPS[f"{_base}, {_shape}"] = dict(SETUPS[_base], shape=_shape)
    # The plain one once more, whose rows are measured with those of the others.
    SETUPS[f"{_base}, plain"] = dict(SETUPS[_base])


# A model of GPT-2's own kind: several buckets a token, GPT-2's BPE with its first merges only.
# Fresh eyes: the rows were chosen before any of them was trained.
LARGE = "GPT-2 of 34 M"
SETUPS[LARGE] = {"layers": 8, "hidden": 512, "heads": 8, "merges": 7936, "stages": 4,
                 "weights": "base", "rows": 320, "epochs": 4, "learningRate": 1e-4}
LARGE_SCRATCH = f"{LARGE}, from scratch"
SETUPS[LARGE_SCRATCH] = dict(SETUPS[LARGE], weights="init", learningRate=6e-4)
# On a base of its own, trained on a CPU.
LARGE_STEPS = f"{LARGE}, m of gradients"
SETUPS[LARGE_STEPS] = SETUPS[LARGE]
LARGE_2, LARGE_4 = (f"{LARGE}, {count} pipelines" for count in (2, 4))
SETUPS[LARGE_2] = dict(SETUPS[LARGE], pipelines=2, microBatches=4)
SETUPS[LARGE_4] = dict(SETUPS[LARGE], pipelines=4, microBatches=4)
# The shape of GPT-2 itself: 12 blocks of hidden 768 and the whole vocabulary, 163 M parameters
# with the head apart.
GPT2 = "GPT-2 of 163 M"
SETUPS[GPT2] = dict(SETUPS[LARGE], layers=12, hidden=768, heads=12, merges=50000)


class Row:
    """One codec pair in one setup; trained once per seed. `more`: what differs from the setup."""

    def __init__(self, setup, name, forward, backward, seeds=(1,), first_epoch_backward="",
                 m="16", first_visit="", replica="", more=None):
        self.setup, self.name, self.seeds = setup, name, tuple(seeds)
        self.forward, self.backward = forward, backward
        self.first_epoch_backward = first_epoch_backward
        self.m, self.first_visit, self.replica = m, first_visit, replica
        self.more = more or {}

    def versions(self):
        """Of the bench and of what the row's specs name, where it is not 1."""
        specs = (self.forward, self.backward, self.first_epoch_backward, self.replica)
        words = {"bench", *re.findall(r"[a-z]+", " ".join(specs))}
        return {name: version for name, version in VERSIONS.items() if name in words}

    def spec(self, seed):
        spec = dict(SETUPS[self.setup], **self.more)
        spec.update(forward=self.forward, backward=self.backward, seed=seed,
                    firstEpochBackward=self.first_epoch_backward)
        if self.replica:
            spec["replica"] = self.replica
        return spec


def fp32(setup, seeds=(1,)):
    return Row(setup, "fp32", RAW, RAW, seeds, m="", first_visit="")


def direct(setup, forward, backward, seeds=(1,), name=""):
    return Row(setup, name or f"direct fw{forward} bw{backward}", f"direct:bits={forward}",
               f"direct:bits={backward}", seeds, m="", first_visit="")


def aqsgd(setup, forward, backward, seeds=(1,), name="", m="", first=RAW, first_backward=RAW,
          guard=True):
    """`forward`: bits, or the spec of the changes' codec; `backward`: bits, or a codec spec. The
    first epoch's gradients are fp32 unless said, as behind the figures of the paper."""
    changes = f"bits={forward}" if isinstance(forward, int) else f"delta={forward}"
    spec = f"aqsgd:{changes}" + (f",m={m}" if m else "") + f",first_visit={first}"
    if isinstance(backward, int):
        name = name or f"aqsgd fw{forward} bw{backward}"
        backward = f"direct:bits={backward}"
    return Row(setup, name, spec + ("" if guard else ",guard=off"), backward, seeds,
               first_backward, m or "16", first)


FOUR, EIGHT = "4 stages", "8 stages"

MAIN = [
    fp32(FOUR, (1, 2)),
    aqsgd(FOUR, 3, 6, (1, 2)),
    direct(FOUR, 3, 6, (1, 2)),
    aqsgd(FOUR, 2, 4, (1, 2)),
    direct(FOUR, 2, 4, (1, 2)),
    aqsgd(FOUR, 4, 8, (1, 2)),
    direct(FOUR, 4, 8, (1, 2)),
]

DEEP = [
    fp32(EIGHT),
    aqsgd(EIGHT, 3, 6),
    direct(EIGHT, 3, 6),
    aqsgd(EIGHT, 2, 4),
    direct(EIGHT, 2, 4),
]

SCRATCH = [
    fp32("from scratch"),
    aqsgd("from scratch", 2, 4),
    direct("from scratch", 2, 4),
]

# How m is kept, and how a sample is sent that has none.
VARIANTS = [
    aqsgd(FOUR, 3, 6, name="m in 8 bits", m="8"),
    aqsgd(FOUR, 3, 6, name="m in 4 bits", m="4"),
    # The error of so coarse an m is part of every change, which the guard answers with more bits.
    aqsgd(FOUR, 3, 6, name="m in 2 bits", m="2", guard=False),
    aqsgd(FOUR, 3, 6, name="m in 2 bits, guarded", m="2"),
    aqsgd(FOUR, 3, 6, name="first visit direct 8 bits", first="direct:bits=8", first_backward=""),
    aqsgd(FOUR, 3, 6, name="first visit tiles 4 bits", first="tiles:bits=4", first_backward=""),
]


def frontier(setup, forward, name, step, seeds=(1,), **first):
    start = f", first visit {first['first']}" if first else ""
    return aqsgd(setup, forward, f"dithered:step={step}", seeds,
                 name=f"aqsgd {name} | dithered {step}{start}", **first)


# What a run file without codecs gets (scheduler/config/run_config.h), from the first step on.
FIRST_VISIT = "dithered:step=0.1/klt=64/channels=on"
DEFAULTS = (f"aqsgd:delta=dithered:step=0.55/klt=64/channels=on,first_visit={FIRST_VISIT}",
            "aqsgd:delta=dithered:step=0.36/channels=on/of=values,"
            "first_visit=dithered:step=0.4/klt=64/channels=on")

# Half the disk: gradients as they are.
ONE_M = (f"aqsgd:delta=dithered:step=0.6/klt=64/channels=on,first_visit={FIRST_VISIT}",
         "dithered:step=0.4,klt=64,channels=on")


def one_m(setup, seeds=(1,), name="gradients without m", **more):
    return Row(setup, name, *ONE_M, seeds, first_visit=FIRST_VISIT, **more)


# The defaults with other steps: of changes, and of first visits.
def other_steps(setup, name, forward, backward, first, **more):
    turned = "klt=64/channels=on"
    first_visit = f"dithered:step={first[0]:g}/{turned}"
    return Row(setup, name,
               f"aqsgd:delta=dithered:step={forward:g}/{turned},first_visit={first_visit}",
               f"aqsgd:delta=dithered:step={backward:g}/channels=on/of=values,"
               f"first_visit=dithered:step={first[1]:g}/{turned}",
               first_visit=first_visit, **more)


def m_of_gradients(setup, forward, backward, first=None, seeds=(1, 2)):
    name = f"m of gradients, dithered {forward} | {backward}"
    if first:
        name += f", first {first[0]} | {first[1]}"
    return other_steps(setup, name, forward, backward, first or (0.1, 0.4), seeds=seeds)


def larger_steps(setup, times, name="", **more):
    return other_steps(setup, name or f"{times} times as large steps", times * 0.55, times * 0.36,
                       (times * 0.1, times * 0.4), **more)


def shaped_setups(setup):
    """The setup with the plain base and each of those that stand out."""
    return tuple(f"{setup}, {shape}" for shape in ("plain", *SHAPED))


def defaults(setup, seeds=(1,), name="defaults of a run", **more):
    return Row(setup, name, *DEFAULTS, seeds, first_visit=FIRST_VISIT, **more)


# The same values as they are, with the steps that as many bits pay.
UNTURNED = ("aqsgd:delta=dithered:step=0.65/channels=on,first_visit=dithered:step=0.1/channels=on",
            "dithered:step=0.48,channels=on")


def unturned(setup):
    return Row(setup, "neither m of gradients nor klt", *UNTURNED,
               first_visit="dithered:step=0.1/channels=on")


# As many bits without scales per channel.
ALIKE = ("aqsgd+rans:bits=3,first_visit=direct+rans:bits=6", "dithered:step=0.5")


def alike(setup):
    return Row(setup, "3 bits+rans | dithered 0.5", *ALIKE, first_visit="direct+rans:bits=6")


# Changes as few directions alone.
LOW_RANK_CHANGES = ("rank=16", "rank=8", "energy=0.98/factors=5")


def low_rank_changes(setup, options, seeds=(1,)):
    changes, first = f"lowrank:{options}/channels=on", "dithered:step=0.1/channels=on"
    return Row(setup, f"changes of low rank, {options.replace('/', ', ')}",
               f"aqsgd:delta={changes},first_visit={first}", UNTURNED[1], seeds, first_visit=first)


# The fewest bits within 1 % of fp32.
TWO, THREE = "direct+rans:bits=2", "direct+rans:bits=3"
FRONTIER = [
    frontier(FOUR, TWO, "2 bits+rans", 1.0),
    frontier(FOUR, "dithered:step=1.5", "dithered 1.5", 1.25, (1, 2)),
    frontier(FOUR, "dithered:step=1.5", "dithered 1.5", 1.0),
    frontier(FOUR, "dithered:step=2.0", "dithered 2", 1.0),
    frontier(FOUR, "dithered:step=2.0", "dithered 2", 1.25),
    # All epochs compressed in both directions.
    frontier(FOUR, "dithered:step=1.5", "dithered 1.5", 1.0, first="tiles:bits=4",
             first_backward=""),
    frontier(FOUR, "dithered:step=1.5", "dithered 1.5", 1.0, first="direct:bits=8",
             first_backward=""),
    alike(FOUR),
    frontier(EIGHT, THREE, "3 bits+rans", 0.7),
    frontier(EIGHT, "dithered:step=1.0", "dithered 1", 0.7),
    frontier(EIGHT, "dithered:step=0.7", "dithered 0.7", 0.7),
    frontier(EIGHT, THREE, "3 bits+rans", 1.0),
    frontier(EIGHT, TWO, "2 bits+rans", 1.0),
    alike(EIGHT),
]

# Without m, and the arithmetic of the AQ-SGD authors' code (one scale per channel of a message).
AUTHORS = "bucket=channel,levels=authors"


def authors(setup, codec, forward, backward, more="", name=""):
    m = dict(m="") if codec == "direct" else dict(first_visit=RAW)
    return Row(setup, f"{codec} fw{forward} bw{backward} authors{name}",
               f"{codec}:bits={forward},{AUTHORS}" + ("" if m.get("m") == "" else more),
               f"direct:bits={backward},{AUTHORS}",
               first_epoch_backward="" if codec == "direct" else RAW, **m)


FIRST = f",first_visit={RAW}"

OTHERS = [
    Row(FOUR, "tiles fw4 bw6", "tiles:bits=4", "direct:bits=6", m=""),
    Row(FOUR, "tiles fw3 bw6", "tiles:bits=3", "direct:bits=6", m=""),
    Row(FOUR, "dithered 0.5 | dithered 0.7", "dithered:step=0.5", "dithered:step=0.7", m=""),
    authors(FOUR, "aqsgd", 2, 4, FIRST),
    authors(FOUR, "direct", 2, 4),
]

# Deltas grow with the steps: the guard has to notice.
RATE = [
    fp32("high rate"),
    authors("high rate", "aqsgd", 2, 4, FIRST),
    authors("high rate", "aqsgd", 2, 4, FIRST + ",guard=off", ", no guard"),
    authors("high rate", "direct", 2, 4),
    aqsgd("high rate", 2, 4),
    direct("high rate", 2, 4),
]

FULL = "most masked"
GUARDED = [
    fp32(FULL),
    aqsgd(FULL, 2, 4),
    aqsgd(FULL, 2, 4, name="aqsgd fw2 bw4, no guard", guard=False),
    direct(FULL, 2, 4),
]

DROPOUT = [
    row
    for setup in ("fresh masks", "keyed masks")
    for row in (fp32(setup), aqsgd(setup, 2, 4),
                aqsgd(setup, 2, 4, name="aqsgd fw2 bw4, no guard", guard=False))
]

# Gradients as thin factors, activations as they are: only at the end of a step (a quarter of the
# messages) or all of them, errors passed on to the next micro-batch or not.
MICRO = "8 micro-batches"
REST = "dithered:step=0.5"


def low_rank(name, rank, options, seeds=(1,)):
    return Row(MICRO, f"rank {rank} {name}", RAW, f"lowrank:rank={rank},{options},else={REST}",
               seeds, m="")


LOW_RANK = [
    fp32(MICRO, (1, 2)),
    Row(MICRO, "dithered 0.5", RAW, REST, m=""),
    low_rank("epilogue, lazy auto", 4, "lazy=auto", (1, 2)),
    low_rank("epilogue, not lazy", 4, "lazy=off"),
    low_rank("epilogue, lazy", 4, "lazy=on"),
    low_rank("all, not lazy", 4, "epilogue=false,lazy=off", (1, 2)),
    low_rank("all, lazy", 4, "epilogue=false,lazy=on"),
    low_rank("epilogue, not lazy", 16, "lazy=off"),
    low_rank("all, not lazy", 16, "epilogue=false,lazy=off"),
]

# How pipelines agree, activations and gradients between stages uncompressed.
PIPELINES, PIPELINES_4, PIPELINES_8 = "2 pipelines", "4 pipelines", "8 pipelines"
HIGH_RATE = tuple(f"{setup}, high rate" for setup in (PIPELINES, PIPELINES_4, PIPELINES_8))
REPLICA_SETUPS = (PIPELINES, PIPELINES_4, PIPELINES_8, *HIGH_RATE)


def replica(method, seeds=(1, 2), name="", setup=PIPELINES):
    return Row(setup, name or method, RAW, RAW, seeds, m="", replica=method)


# QSDP below 8 bits: differences of weights, weights, weights with learned levels.
QSDP_4 = ("qsdp:weights=4,gradients=4,delta=true", "qsdp:weights=4,gradients=4,delta=false",
          "qsdp:weights=4,gradients=4,delta=false,levels=learned")


REPLICA = [
    replica("average", name="fp32"),
    replica("qadam:bits=4"),
    replica("onebit"),
    replica("powersgd:rank=16,stages=0"),
    replica("qsdp:weights=8,gradients=8"),
    *(replica(method) for method in QSDP_4),
    replica("qsdp:weights=4,gradients=8,delta=true", (1,)),
    replica("marsit"),
    replica("marsit:scale=4", (1,)),
    replica("qadam:bits=32", (1,)),
    replica("qadam:bits=4,refresh=on", (1,)),
    replica("average:dtype=bf16", (1,)),
    replica("average:codec=direct:bits=4/bucket=512", (1,)),
    replica("average:codec=dithered:step=0.3", (1,)),
    replica("average:codec=dithered:step=1.0", (1,)),
    replica("average:codec=dithered:step=1.0,feedback=true", (1,)),
    replica("powersgd:rank=16", (1,)),
    replica("average:local_steps=16", (1,)),
    replica("average:local_steps=16,outer_rate=0.7,outer_momentum=0.9", (1,)),
    replica("average:codec=topk:ratio=0.015625/bits=2,local_steps=16", (1,)),
    replica("average:codec=direct:bits=4/bucket=512,local_steps=16", (1,)),
    replica("average:codec=topk:ratio=0.015625/bits=2", (1,)),
    replica("cocktail:random=0.1,top=0.2,bits=4", (1,)),
] + [
    replica(method, (1,), "fp32" if method == "average" else "", setup)
    for setup in (PIPELINES_4, PIPELINES_8)
    for method in ("average", *QSDP_4, "qsdp:weights=8,gradients=8", "qadam:bits=4", "onebit",
                   "powersgd:rank=16,stages=0", "marsit")
] + [
    replica(method, (1,), "fp32" if method == "average" else "", setup)
    for setup in HIGH_RATE
    for method in ("average", "onebit", "marsit")
] + [
    # Why `every` and `scale` are what they are.
    replica("marsit:scale=4", (1,), setup=HIGH_RATE[0]),
    replica("marsit:every=12,scale=4", (1,), setup=HIGH_RATE[0]),
    replica("marsit:every=12", (1,), setup=HIGH_RATE[1]),
    replica("marsit:every=50,scale=4", (1,), setup=HIGH_RATE[2]),
]

# The defaults on all bases.
SHAPED_ROWS = [
    row
    for setup in (*shaped_setups(FOUR), *shaped_setups(EIGHT))
    for row in (fp32(setup, (1, 2)), defaults(setup, (1, 2)), one_m(setup))
] + [row
     for setup in (FOUR, EIGHT)
     for row in (unturned(f"{setup}, plain"), unturned(f"{setup}, both"),
                 alike(f"{setup}, outliers"), alike(f"{setup}, both"))]

FEWEST_ROWS = [
    *(m_of_gradients(setup, 1.14, 0.74) for setup in shaped_setups(FOUR)[:-1]),
    m_of_gradients("4 stages, both", 1.145, 0.73, first=(0.0625, 0.2)),
    m_of_gradients(EIGHT, 0.65, 0.4, seeds=(1,)),
    *(m_of_gradients(setup, 0.65, 0.4) for setup in shaped_setups(EIGHT)[:-1]),
    # In the last epoch, and over the run.
    m_of_gradients("8 stages, both", 0.6, 0.4, first=(0.0625, 0.2)),
    m_of_gradients("8 stages, both", 0.58, 0.39),
]

# Where nothing stands out, and where channels and first tokens do.
LOW_RANK_CHANGES_ROWS = [
    low_rank_changes(f"{setup}, {shape}", options)
    for setup in (FOUR, EIGHT)
    for shape in ("plain", "both")
    for options in LOW_RANK_CHANGES
]

# fp32 is the same model however it is cut into stages.
QADAM = "qadam:bits=4"
LARGE_ROWS = [
    fp32(LARGE, (1, 2, 3)),
    one_m(LARGE, (1, 2, 3)),
    frontier(LARGE, "dithered:step=1.5", "dithered 1.5", 1.0, (1, 2, 3), first="direct:bits=8",
             first_backward=""),
    # As many bits.
    direct(LARGE, 2, 3, (1, 2, 3)),
    one_m(LARGE, name="gradients without m, 2 stages", more={"stages": 2}),
    one_m(LARGE, name="gradients without m, 8 stages", more={"stages": 8}),
    Row(LARGE, "bf16 computation, fp32 boundaries", RAW, RAW, m="", more={"compute": "bf16"}),
    one_m(LARGE, name="bf16 computation, without m", more={"compute": "bf16"}),
    *(low_rank_changes(LARGE, options) for options in ("rank=16", "rank=32", "rank=64")),
    fp32(LARGE_SCRATCH),
    one_m(LARGE_SCRATCH),
    direct(LARGE_SCRATCH, 2, 3),
]

LARGE_STEPS_ROWS = [
    fp32(LARGE_STEPS),
    defaults(LARGE_STEPS),
    *(larger_steps(LARGE_STEPS, times) for times in (2, 4)),
    defaults(LARGE_STEPS, name="defaults of a run, 8 stages", more={"stages": 8}),
    larger_steps(LARGE_STEPS, 2, name="2 times as large steps, 8 stages", more={"stages": 8}),
]

# Compressed between stages and between pipelines. The optimizers differ as well: each is shown
# beside itself with fp32 between stages.
LARGE_REPLICA_ROWS = [
    row
    for setup in (LARGE_2, LARGE_4)
    for row in (fp32(setup), one_m(setup),
                Row(setup, f"fp32, {QADAM}", RAW, RAW, m="", replica=QADAM),
                Row(setup, "fp32, qadam:bits=32", RAW, RAW, m="", replica="qadam:bits=32"),
                one_m(setup, name=f"without m, {QADAM}", replica=QADAM))
]

GPT2_ROWS = [
    fp32(GPT2, (2, 3)),
    one_m(GPT2, (2, 3)),
    frontier(GPT2, "dithered:step=1.5", "dithered 1.5", 1.0, (2, 3), first="direct:bits=8",
             first_backward=""),
    direct(GPT2, 2, 3, (2, 3)),
    Row(GPT2, "bf16 computation, fp32 boundaries", RAW, RAW, (2,), m="",
        more={"compute": "bf16"}),
    one_m(GPT2, (2,), name="bf16 computation, without m", more={"compute": "bf16"}),
    *(low_rank_changes(GPT2, options, (2,)) for options in ("rank=16", "rank=32")),
]

ROWS = (MAIN + DEEP + SCRATCH + VARIANTS + FRONTIER + OTHERS + RATE + GUARDED + DROPOUT
        + LOW_RANK + SHAPED_ROWS + FEWEST_ROWS + LOW_RANK_CHANGES_ROWS + LARGE_ROWS
        + LARGE_STEPS_ROWS + LARGE_REPLICA_ROWS + GPT2_ROWS + REPLICA)
