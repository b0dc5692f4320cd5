#!/usr/bin/env python3
"""Makes tests/data/gguf/golden.gguf with llama.cpp's own writer: a value of each type of metadata
that shoal writes, and the same numbers as F32, F16 and Q8_0.

Needs gguf and numpy. Run again only if a type is added. usage: make_gguf.py
"""

from pathlib import Path

import gguf
import numpy

DATA = Path(__file__).resolve().parents[1] / "data/gguf"


def numbers():
    """Rows of 64: plain ones, halves of codes, zeros, subnormal and large scales."""
    random = numpy.random.default_rng(7)
    rows = [random.normal(size=64) * scale for scale in (1, 0.02, 300)]
    halves = numpy.arange(-127, 129, 4) / 2
    halves[0], halves[32] = 127, -127  # the scale of both blocks is 1
    rows.append(halves)
    rows.append(numpy.zeros(64))
    rows.append(numpy.where(numpy.arange(64) % 3 == 0, 1e-6, -3e-7))
    rows.append(random.normal(size=64) * 2000)
    return numpy.clip(numpy.array(rows), -65000, 65000).astype(numpy.float32)


def main():
    DATA.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(str(DATA / "golden.gguf"), "llama")
    writer.add_uint32("golden.count", 4_000_000_000)
    writer.add_float32("golden.number", 0.1)
    writer.add_bool("golden.yes", True)
    writer.add_bool("golden.no", False)
    writer.add_string("golden.text", "caf\u00e9 \u2581")
    writer.add_array("golden.texts", ["a", "", "\u0120b c"])
    writer.add_array("golden.numbers", [1.5, -2.25, 3.125])
    writer.add_array("golden.kinds", [1, -3, 6])
    values = numbers()
    writer.add_tensor("vector", values[0][:5].copy())
    writer.add_tensor("values", values)
    writer.add_tensor("halves", values.astype(numpy.float16))
    writer.add_tensor("blocks", gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0),
                      raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
