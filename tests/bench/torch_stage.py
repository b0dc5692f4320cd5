#!/usr/bin/env python3
"""The layers of device_stage_bench.cc in PyTorch, eagerly and with SDPA: tokens per second of
forward and backward, activations and gradients on the device. Prints JSON. Needs torch and
transformers."""

import json
import sys
import time

import torch
from transformers import GPT2Config, LlamaConfig
from transformers.models.gpt2.modeling_gpt2 import GPT2Block
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

LAYERS = 2
ROUNDS = 12


def gpt2():
    config = GPT2Config(n_layer=LAYERS, n_embd=1600, n_head=25, n_positions=1024,
                        attn_pdrop=0, resid_pdrop=0, embd_pdrop=0, attn_implementation="sdpa")
    blocks = [GPT2Block(config, layer_idx=i) for i in range(LAYERS)]
    return config.n_embd, blocks, lambda rows, tokens: {}


def llama():
    config = LlamaConfig(num_hidden_layers=LAYERS, hidden_size=4096, intermediate_size=14336,
                         num_attention_heads=32, num_key_value_heads=8, rope_theta=500000.0,
                         max_position_embeddings=2048, attn_implementation="sdpa")
    blocks = [LlamaDecoderLayer(config, layer_idx=i) for i in range(LAYERS)]
    rotary = LlamaRotaryEmbedding(config)

    def more(rows, tokens):
        places = torch.arange(tokens, device=DEVICE).unsqueeze(0).expand(rows, -1)
        at = torch.zeros(1, dtype=torch.bfloat16, device=DEVICE)
        return {"position_embeddings": rotary.to(DEVICE)(at, places)}

    return config.hidden_size, blocks, more


def measure(name, make, rows, tokens):
    torch.manual_seed(1)
    hidden, blocks, more = make()
    net = torch.nn.ModuleList(blocks).to(DEVICE, torch.bfloat16)
    options = more(rows, tokens)
    x = torch.randn(rows, tokens, hidden, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    given = torch.randn_like(x)
    best = None
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        y = x
        for block in net:
            y = block(y, **options)
            y = y[0] if isinstance(y, tuple) else y
        y.backward(given)
        torch.cuda.synchronize()
        took = time.perf_counter() - start
        best = took if best is None else min(best, took)
    return {"shape": name, "layers": LAYERS, "rows": rows, "tokens": tokens,
            "milliseconds": 1e3 * best, "tokensPerSecond": rows * tokens / best}


DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cuda"
SHAPES = [("gpt2-xl", gpt2, 1, 1024), ("gpt2-xl", gpt2, 4, 1024), ("llama-3-8b", llama, 1, 2048)]
print(json.dumps({"schemaVersion": 1, "torch": torch.__version__,
                  "rows": [measure(*shape) for shape in SHAPES]}, indent=1))
