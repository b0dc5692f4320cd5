#!/usr/bin/env python3
"""Makes bf16.safetensors of each model of tests/data/families: logits and gradients (F16, which is
finer) of transformers under bf16 autocast, where products are bf16 and sums of layers and norms are
fp32, as shoal's. And how far apart two orders of summation are in PyTorch itself: attention by its
definition and by scaled_dot_product_attention, which sums blocks of keys in fp32; DeBERTa's, which
that cannot do, by its definition and all in fp32.

Needs torch and transformers. Run again only if a family or a case is added: other versions give
other last digits. usage: make_bf16.py [FAMILY...]
"""

import sys
from pathlib import Path

import adamw_golden
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification
from transformers.models.gemma2 import modeling_gemma2

DATA = Path(__file__).resolve().parents[1] / "data/families"
NOISE = ("key.bias", "key_proj.bias")
BY_DEFINITION = modeling_gemma2.eager_attention_forward


def in_fp32(module, query, key, value, mask, **more):
    """Gemma 2 caps scores, which PyTorch's operator cannot."""
    with torch.autocast("cpu", enabled=False):
        out, weights = BY_DEFINITION(module, query.float(), key.float(), value.float(), mask,
                                     **more)
    return out.to(query.dtype), weights


def compute(name, golden, attention):
    modeling_gemma2.eager_attention_forward = BY_DEFINITION
    if name == "gemma2" and attention == "sdpa":
        modeling_gemma2.eager_attention_forward, attention = in_fp32, "eager"
    fp32 = name.startswith("deberta") and attention == "sdpa"
    if fp32:
        attention = "eager"
    # Padding is marked in rows of classifiers alone.
    kind = AutoModelForSequenceClassification if "segments" in golden else AutoModelForCausalLM
    model = kind.from_pretrained(DATA / name, attn_implementation=attention,
                                 dtype=torch.float32).eval()
    if name != "roberta":
        model.config.pad_token_id = None  # as make_families.py
    mask = (golden["segments"] >= 0).long() if "segments" in golden else None
    more = {} if mask is None else {"attention_mask": mask}
    if "type_borders" in golden:
        places = torch.arange(golden["input_ids"].size(1))
        more["token_type_ids"] = (places >= golden["type_borders"].unsqueeze(1)).long() * (mask > 0)
    with torch.autocast("cpu", torch.bfloat16, enabled=not fp32):
        logits = model(golden["input_ids"], **more).logits
    adamw_golden.loss_of(logits.float(), golden["labels"]).backward()
    prefix = model.base_model_prefix + "."
    found = {"gradient." + full.removeprefix(prefix): p.grad for full, p in
             model.named_parameters()}
    return {"logits": logits.detach().float(), **found}


def apart(one, other):
    return ((one - other).norm() / other.norm()).reshape(1)


def make(name):
    golden = load_file(DATA / name / "golden.safetensors")
    found, other = compute(name, golden, "eager"), compute(name, golden, "sdpa")
    # A key bias without rotary positions has no gradient but noise.
    gradients = torch.cat([apart(other[key], found[key]) for key in found
                           if key != "logits" and not key.endswith(NOISE)])
    measured = {"apart.logits": apart(other["logits"], found["logits"]),
                "apart.gradients": gradients.square().mean().sqrt().reshape(1),
                "apart.largest": gradients.max().reshape(1)}
    save_file({**{key: value.half().contiguous() for key, value in found.items()}, **measured},
              DATA / name / "bf16.safetensors")
    print(name, ", ".join(f"{key} {value.item():.1e}" for key, value in measured.items()))


for family in sys.argv[1:] or sorted(path.name for path in DATA.iterdir()):
    make(family)
