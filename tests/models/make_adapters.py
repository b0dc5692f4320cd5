#!/usr/bin/env python3
"""Makes tests/data/adapters: adapters of models of tests/data/families, and what PEFT and PyTorch
compute with them: logits, loss, gradients, and what is trained after three steps of AdamW.

Needs torch, transformers and peft. Run again only if a case is added: other versions give other
last digits. usage: make_adapters.py [CASE...]
"""

import json
import shutil
import sys
from pathlib import Path

import adamw_golden
import torch
from peft import LoraConfig, get_peft_model
from peft.utils import get_peft_model_state_dict
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

DATA = Path(__file__).resolve().parents[1] / "data"
# A case's seed is its place: new ones go to the end.
CASES = {
    "gpt2": ("gpt2", dict(r=3, lora_alpha=5, target_modules="all-linear", fan_in_fan_out=True)),
    "llama3": ("llama3", dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])),
    "gemma2": ("gemma2", dict(r=5, lora_alpha=7, use_rslora=True, target_modules="all-linear")),
    "phi3": ("phi3", dict(r=2, lora_alpha=4, target_modules=["qkv_proj", "mlp.down_proj"])),
    "llama_saved": ("llama", dict(r=4, lora_alpha=8, target_modules=["o_proj", "gate_proj"],
                                  modules_to_save=["lm_head"])),
    "bert": ("bert", dict(r=3, lora_alpha=3, task_type="SEQ_CLS",
                          target_modules=["query", "intermediate.dense"],
                          modules_to_save=["classifier", "pooler"])),
    # Products that make keys and queries of a frozen table, too.
    "deberta": ("deberta", dict(r=3, lora_alpha=5, task_type="SEQ_CLS",
                                target_modules=["query_proj", "key_proj"],
                                modules_to_save=["classifier", "pooler"])),
    "deberta_own": ("deberta_own", dict(r=2, lora_alpha=4, task_type="SEQ_CLS",
                                        target_modules=["pos_key_proj", "pos_query_proj",
                                                        "value_proj", "output.dense"],
                                        modules_to_save=["classifier", "pooler"])),
}


def logits_of(model, golden):
    if "segments" not in golden:
        return model(input_ids=golden["input_ids"], use_cache=False).logits
    return model(input_ids=golden["input_ids"],
                 attention_mask=(golden["segments"] >= 0).long()).logits


def names_of(model):
    """Trained parameters by their names in adapter_model.safetensors."""
    pointers = {value.data_ptr(): name for name, value in
                get_peft_model_state_dict(model, save_embedding_layers=False).items()}
    return {pointers[p.data_ptr()]: p for p in model.parameters() if p.requires_grad}


def make(name):
    base, options = CASES[name]
    torch.manual_seed(1000 + list(CASES).index(name))
    kind = (AutoModelForSequenceClassification if options.get("task_type") == "SEQ_CLS"
            else AutoModelForCausalLM)
    source = kind.from_pretrained(DATA / "families" / base, attn_implementation="eager",
                                  torch_dtype=torch.float32)
    model = get_peft_model(source, LoraConfig(**options)).eval()
    trained = names_of(model)
    with torch.no_grad():
        for parameter in trained.values():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    folder = DATA / "adapters" / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, save_embedding_layers=False)
    (folder / "README.md").unlink(missing_ok=True)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = base  # no path of the machine that made it
    if isinstance(config["target_modules"], list):
        config["target_modules"].sort()
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    given = load_file(DATA / "families" / base / "golden.safetensors")
    golden = {key: given[key] for key in ("input_ids", "labels", "segments") if key in given}
    adamw_golden.train(trained, lambda: logits_of(model, golden), golden)
    save_file({key: value.contiguous() for key, value in golden.items()},
              folder / "golden.safetensors")
    print(f"{name}: loss {golden['loss'].item():.4f}, {len(trained)} trained tensors")


for case in sys.argv[1:] or CASES:
    make(case)
