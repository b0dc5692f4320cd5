"""Bases with the activations of large pretrained models, made from a small model's weights.

Pretrained GPT-2 and Llama have a few residual channels that are 20 to 100 times the median in all
tokens ("outliers"), and a first token with values in the thousands in a few channels ("sinks").
A model of 0.9 M parameters that trains for minutes has neither. So some channels of its residual
stream are multiplied in all weights that write them, or a first position gets large values, and
the norms that read the stream are corrected. Training then goes on from there.
"""

import array
import json
import math
import os
import struct
import sys
from pathlib import Path

# Fixed channels, as in pretrained models. They may lie in one bucket of a token or in several.
OUTLIERS = (11, 50, 101)
OUTLIER_FACTOR = 30.0
SINKS = {23: 2400.0, 77: -1500.0}
SHAPES = {"outliers": (True, False), "sinks": (False, True), "both": (True, True)}

# Which tensors write to the residual stream (their last dimension is the stream's), and which
# weights read it behind a norm.
WRITERS = ("wte.weight", "wpe.weight", "attn.c_proj.weight", "attn.c_proj.bias",
           "mlp.c_proj.weight", "mlp.c_proj.bias")
NORMS = ("ln_1.weight", "ln_2.weight", "ln_f.weight")


def multiply_channels(values, hidden, channels, factor):
    for channel in channels:
        for i in range(channel, len(values), hidden):
            values[i] *= factor


def correct_norm(values, channels, factor):
    """A norm divides by the root of the mean square, which the larger channels raise: by the root
    of the mean squared factor, if all channels were alike before."""
    hidden = len(values)
    grown = math.sqrt((hidden + len(channels) * (factor * factor - 1)) / hidden)
    for i in range(hidden):
        values[i] *= grown / (factor if i in channels else 1)


def shape_tensor(name, values, hidden, outliers, sinks):
    """Changes the fp32 values of one tensor in place."""
    if outliers and name.endswith(WRITERS):
        multiply_channels(values, hidden, OUTLIERS, OUTLIER_FACTOR)
    if outliers and name.endswith(NORMS):
        correct_norm(values, OUTLIERS, OUTLIER_FACTOR)
    if sinks and name == "wpe.weight":
        for channel, value in SINKS.items():
            values[channel] = value  # of position 0


def shape_file(source, target, hidden, outliers, sinks):
    """Copies a safetensors file of fp32 tensors with their values changed."""
    data = bytearray(source.read_bytes())
    (header_bytes,) = struct.unpack_from("<Q", data)
    begin = 8 + header_bytes
    for name, tensor in json.loads(data[8:begin]).items():
        if name == "__metadata__":
            continue
        if tensor["dtype"] != "F32" or sys.byteorder != "little":
            raise ValueError(f"{source}: {name} is {tensor['dtype']}; little-endian F32 is needed")
        first, last = (begin + offset for offset in tensor["data_offsets"])
        values = array.array("f", bytes(data[first:last]))
        shape_tensor(name, values, hidden, outliers, sinks)
        data[first:last] = values.tobytes()
    part = target.with_suffix(".part")
    part.write_bytes(data)
    os.replace(part, target)


def shape_folder(source, target, hidden, shape):
    """Shapes all weights of a folder of part files; optimizer state is left behind."""
    outliers, sinks = SHAPES[shape]
    Path(target).mkdir(parents=True, exist_ok=True)
    for path in sorted(Path(source).glob("*.safetensors")):
        if not path.name.endswith(".optimizer.safetensors"):
            shape_file(path, Path(target) / path.name, hidden, outliers, sinks)
