#!/usr/bin/env python3
"""Makes tests/data/quantized: small matrices, what bitsandbytes' layers save of them in a state
dict, and what it decodes from that.

Needs torch, bitsandbytes 0.50 and safetensors; no GPU. Run again only if a case is added: other
versions give other last digits. usage: make_quantized.py [CASE...]
"""

import sys
from pathlib import Path

import bitsandbytes as bnb
import torch
from bitsandbytes import functional
from safetensors.torch import save_file

DATA = Path(__file__).resolve().parents[1] / "data/quantized"


def normal(seed, *shape, deviation=0.02):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * deviation


def special():
    values = normal(2, 6, 64)
    values[1] = 0  # a block that double quantisation gives an absmax all the same
    values[3, :9] = torch.linspace(-8, 8, 9)
    codes = functional.get_4bit_type("nf4", device="cpu")
    values[4, :15] = (codes[:-1] + codes[1:]) / 2  # as near to one code as to the next
    values[4, 15] = 1
    return values


# A case's name begins with its format; nf4_plain has no double quantisation.
CASES = {
    "nf4": normal(1, 40, 420),           # two blocks of absmaxes, and half a block of values
    "nf4_special": special(),
    "nf4_odd": normal(3, 3, 43),         # a last block of one value
    "nf4_bf16": normal(4, 5, 64).bfloat16(),
    "nf4_plain_fp16": normal(5, 9, 50).half(),
    "int8": normal(6, 9, 75),
    "int8_fp16": normal(7, 4, 33).half(),
}


def nf4(source, double):
    layer = bnb.nn.Linear4bit(source.shape[1], source.shape[0], bias=False, quant_type="nf4",
                              compress_statistics=double)
    layer.weight = bnb.nn.Params4bit(source.clone(), requires_grad=False, quant_type="nf4",
                                     compress_statistics=double, module=layer)
    layer = layer.to("cpu")
    saved = dict(layer.state_dict())
    absmax = torch.ops.bitsandbytes.quantize_4bit.default(source, 64, "nf4", torch.uint8)[1]
    decoded = functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
    return saved | {"decoded": decoded, "block_absmax": absmax}


def int8(source):
    layer = bnb.nn.Linear8bitLt(source.shape[1], source.shape[0], bias=False,
                                has_fp16_weights=False)
    layer.weight = bnb.nn.Int8Params(source.clone(), requires_grad=False, has_fp16_weights=False)
    layer = layer.to("cpu")
    saved = dict(layer.state_dict())
    # The layer rounds to fp16 first; the function does not.
    saved["weight"], saved["SCB"], _ = functional.int8_vectorwise_quant(source)
    decoded = functional.int8_vectorwise_dequant(saved["weight"], saved["SCB"])
    return saved | {"decoded": decoded}


def main():
    DATA.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or CASES:
        source = CASES[name]
        golden = int8(source) if name.startswith("int8") else nf4(source, "plain" not in name)
        golden["source"] = source
        save_file({key: value.contiguous() for key, value in golden.items()},
                  DATA / f"{name}.safetensors")
        print(name, {key: (tuple(value.shape), str(value.dtype)) for key, value in golden.items()})


if __name__ == "__main__":
    main()
