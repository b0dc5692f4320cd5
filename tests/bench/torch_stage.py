#!/usr/bin/env python3
"""The layers of device_stage_bench.cc in PyTorch, eagerly and with SDPA: tokens per second of
forward and backward, all weights trained or LoRA on every product, activations and gradients on the
device. Prints JSON. Needs torch and transformers. Arguments: the device (cuda), and "tiny" for
device_stage's --tiny."""

import json
import sys
import time

import torch
from transformers import GPT2Config, LlamaConfig
from transformers.models.gpt2.modeling_gpt2 import GPT2Block
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding
from transformers.pytorch_utils import Conv1D

LAYERS = 2
ROUNDS = 60
RANK, ALPHA = 16, 32
DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cuda"


class Lora(torch.nn.Module):
    """A product that stays as it is, with an adapter beside it."""

    def __init__(self, product):
        super().__init__()
        self.product = product
        outputs, inputs = product.weight.shape
        if isinstance(product, Conv1D):
            outputs, inputs = inputs, outputs
        self.a = torch.nn.Linear(inputs, RANK, bias=False)
        self.b = torch.nn.Linear(RANK, outputs, bias=False)

    def forward(self, x):
        return self.product(x) + self.b(self.a(x)) * (ALPHA / RANK)


def adapt(block):
    block.requires_grad_(False)
    products = [(owner, name, child) for owner in block.modules()
                for name, child in owner.named_children()
                if isinstance(child, (torch.nn.Linear, Conv1D))]
    for owner, name, product in products:
        setattr(owner, name, Lora(product))


def gpt2(hidden, heads, positions):
    config = GPT2Config(n_layer=LAYERS, n_embd=hidden, n_head=heads, n_positions=positions,
                        attn_pdrop=0, resid_pdrop=0, embd_pdrop=0, attn_implementation="sdpa")
    blocks = [GPT2Block(config, layer_idx=i) for i in range(LAYERS)]
    return config.n_embd, blocks, lambda rows, tokens: {}


def llama(hidden, inner, heads, positions):
    config = LlamaConfig(num_hidden_layers=LAYERS, hidden_size=hidden, intermediate_size=inner,
                         num_attention_heads=heads, num_key_value_heads=heads // 4,
                         rope_theta=500000.0, max_position_embeddings=positions,
                         attn_implementation="sdpa")
    blocks = [LlamaDecoderLayer(config, layer_idx=i) for i in range(LAYERS)]
    rotary = LlamaRotaryEmbedding(config)

    def more(rows, tokens):
        places = torch.arange(tokens, device=DEVICE).unsqueeze(0).expand(rows, -1)
        at = torch.zeros(1, dtype=torch.bfloat16, device=DEVICE)
        return {"position_embeddings": rotary.to(DEVICE)(at, places)}

    return config.hidden_size, blocks, more


def wait():
    if DEVICE != "cpu":
        torch.cuda.synchronize()


def measure(name, make, rows, tokens, lora):
    torch.manual_seed(1)
    hidden, blocks, more = make()
    if lora:
        for block in blocks:
            adapt(block)
    net = torch.nn.ModuleList(blocks).to(DEVICE, torch.bfloat16)
    options = more(rows, tokens)
    x = torch.randn(rows, tokens, hidden, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    given = torch.randn_like(x)
    best = None
    for _ in range(ROUNDS):
        wait()
        start = time.perf_counter()
        y = x
        for block in net:
            y = block(y, **options)
            y = y[0] if isinstance(y, tuple) else y
        y.backward(given)
        wait()
        took = time.perf_counter() - start
        best = took if best is None else min(best, took)
    return {"shape": name, "training": "lora" if lora else "full", "layers": LAYERS, "rows": rows,
            "tokens": tokens, "milliseconds": 1e3 * best, "tokensPerSecond": rows * tokens / best}


SHAPES = [("gpt2-xl", lambda: gpt2(1600, 25, 1024), 1, 1024),
          ("gpt2-xl", lambda: gpt2(1600, 25, 1024), 4, 1024),
          ("llama-3-8b", lambda: llama(4096, 14336, 32, 2048), 1, 2048)]
if "tiny" in sys.argv[2:]:
    SHAPES = [("tiny-gpt2", lambda: gpt2(64, 4, 64), 2, 64),
              ("tiny-llama", lambda: llama(64, 128, 4, 64), 1, 64)]
print(json.dumps({"schemaVersion": 1, "torch": torch.__version__,
                  "rows": [measure(*shape, lora) for shape in SHAPES for lora in (False, True)]},
                 indent=1))
