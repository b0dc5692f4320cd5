#!/usr/bin/env python3
"""What shaped_weights.py changes of a model, and what it leaves alone."""

import array
import json
import math
import struct
import tempfile
import unittest
from pathlib import Path

import shaped_weights as shaped

HIDDEN = 128


def write(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (shape, values) in tensors.items():
        raw = array.array("f", values).tobytes()
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read(path):
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    out = {}
    for name, tensor in header.items():
        if name != "__metadata__":
            first, last = (8 + size + offset for offset in tensor["data_offsets"])
            out[name] = list(array.array("f", data[first:last]))
    return out


class ShapedWeights(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.source, self.target = Path(temporary.name, "from"), Path(temporary.name, "to")
        self.source.mkdir()
        write(self.source / "embedding.safetensors",
              {"wpe.weight": ([2, HIDDEN], [0.5] * 2 * HIDDEN)})
        write(self.source / "layer.0.safetensors",
              {"h.0.ln_1.weight": ([HIDDEN], [1.0] * HIDDEN),
               "h.0.attn.c_attn.weight": ([HIDDEN, 3 * HIDDEN], [0.25] * 3 * HIDDEN * HIDDEN),
               "h.0.mlp.c_proj.bias": ([HIDDEN], [2.0] * HIDDEN)})
        write(self.source / "layer.0.optimizer.safetensors", {"m": ([1], [1.0])})

    def shape(self, name):
        shaped.shape_folder(self.source, self.target, HIDDEN, name)
        return tuple(read(self.target / f"{part}.safetensors")
                     for part in ("embedding", "layer.0"))

    def test_outliers_are_written_larger_and_read_smaller(self):
        embedding, layer = self.shape("outliers")
        for i in range(HIDDEN):
            factor = 30 if i in shaped.OUTLIERS else 1
            self.assertEqual(embedding["wpe.weight"][HIDDEN + i], 0.5 * factor)
            self.assertEqual(layer["h.0.mlp.c_proj.bias"][i], 2.0 * factor)
        self.assertEqual(set(layer["h.0.attn.c_attn.weight"]), {0.25})
        # A token of ones, its outliers multiplied: behind the norm it is what it was.
        stream = [30.0 if i in shaped.OUTLIERS else 1.0 for i in range(HIDDEN)]
        rms = math.sqrt(sum(x * x for x in stream) / HIDDEN)
        for x, weight in zip(stream, layer["h.0.ln_1.weight"]):
            self.assertAlmostEqual(x / rms * weight, 1.0, places=5)

    def test_sinks_are_at_position_zero_only(self):
        embedding, layer = self.shape("sinks")
        first = embedding["wpe.weight"][:HIDDEN]
        self.assertEqual({i: x for i, x in enumerate(first) if x != 0.5}, shaped.SINKS)
        self.assertEqual(set(embedding["wpe.weight"][HIDDEN:]), {0.5})
        self.assertEqual(set(layer["h.0.ln_1.weight"]), {1.0})

    def test_optimizer_state_is_left_behind(self):
        self.shape("both")
        self.assertEqual(sorted(path.name for path in self.target.iterdir()),
                         ["embedding.safetensors", "layer.0.safetensors"])


if __name__ == "__main__":
    unittest.main()
