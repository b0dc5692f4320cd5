"""What the methods of replica_bench.py have to send: bytes per member and exchange."""

import functools
import math

PART = 2048  # columns of PowerSGD's matrices in replica_methods.cc
ROWS = 4096


def bits_of(codec):
    """Bits a value of a codec, scales included, of Gaussian values in large buckets."""
    name, _, text = codec.partition(":")
    options = dict(pair.split("=") for pair in text.split(",") if pair)
    if name == "raw":
        return {"fp32": 32, "bf16": 16, "fp16": 16}[options["dtype"]]
    if name == "direct":
        return int(options["bits"]) + 32 / int(options["bucket"])
    if name == "onebit":
        return 1
    if name == "dithered":
        return dithered_bits(float(options["step"]))
    raise ValueError(codec)


@functools.cache
def dithered_bits(step):
    """Entropy of a Gaussian's level under a known dither: that of Gaussian plus uniform, in units
    of the step (Zamir and Feder 1992, universal quantisation with dither)."""
    entropy, places = 0.0, 20000
    width = (20 + step) / places
    for i in range(places):
        x = -(20 + step) / 2 + (i + .5) * width
        density = (math.erf((x + step / 2) / math.sqrt(2)) -
                   math.erf((x - step / 2) / math.sqrt(2))) / (2 * step)
        if density > 0:
            entropy -= density * math.log2(density) * width
    return entropy - math.log2(step)


def factor_values(values, rank):
    """Of both exchanges of PowerSGD: factors, and what stays a vector."""
    total = 0
    while values >= PART:
        rows = min(ROWS, values // PART)
        factors = (rows + PART) * min(rank, rows)
        total += factors if 2 * factors < rows * PART else rows * PART
        values -= rows * PART
    return total + values


def bytes_per_member(spec, members, values):
    """Every direct, ring or torus exchange: (D-1)/D of the vector to the others, and again."""
    kind = spec["kind"]
    contribution = result = 32
    if kind == "marsit":
        contribution = result = 1
    elif kind == "powersgd":
        values = factor_values(values, spec["rank"])
    elif kind == "direct":
        contribution = bits_of(spec["codec"])
        result = bits_of(spec.get("resultCodec", spec["codec"]))
    return (members - 1) / members * values * (contribution + result) / 8
