#!/usr/bin/env python3
"""The other side of ./x bench model: model_steps.cc in PyTorch, with transformers' model and its
default attention, torch.optim.AdamW and, for adapters, PEFT. Same options, same answers."""

import json
import sys
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM

WEIGHT_DECAY, LEARNING_RATE, CLIP = 0.01, 1e-4, 1.0


def memory_of(key):
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(key + ":"):
                return 1024 * int(line.split()[1])
    sys.exit(f"torch_steps: /proc/self/status has no {key}")


def load_modules(options):
    """What loading a model would import, so that its memory counts as the libraries'."""
    config = AutoConfig.from_pretrained(options["--model"])
    AutoModelForCausalLM._model_mapping[type(config)]  # pylint: disable=protected-access
    if int(options["--rank"]) > 0:
        import peft  # noqa: F401


def load(options):
    model = AutoModelForCausalLM.from_pretrained(options["--model"], dtype=torch.float32)
    if int(options["--rank"]) > 0:
        from peft import LoraConfig, get_peft_model
        rank = int(options["--rank"])
        model = get_peft_model(model, LoraConfig(
            r=rank, lora_alpha=2 * rank, lora_dropout=float(options["--dropout"]),
            target_modules="all-linear", task_type="CAUSAL_LM",
            fan_in_fan_out=model.config.model_type == "gpt2"))
    if options["--recompute"] == "1":
        model.gradient_checkpointing_enable()
    return model.train()


class Trainer:
    def __init__(self, options):
        self.model = load(options)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        groups = [{"params": [p for p in trained if p.dim() >= 2], "weight_decay": WEIGHT_DECAY},
                  {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0}]
        self.trained = trained
        self.optimizer = torch.optim.AdamW([g for g in groups if g["params"]], lr=LEARNING_RATE)
        self.ids = torch.arange(int(options["--tokens"])).mul(7919).remainder(
            self.model.config.vocab_size).unsqueeze(0)

    def step(self):
        loss = self.model(input_ids=self.ids, labels=self.ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.trained, CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()


def main():
    torch.set_num_threads(1)
    options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    load_modules(options)
    before = memory_of("VmRSS")
    trainer = Trainer(options)
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # the most memory that the process had counts from here
    print("{}", flush=True)
    for line in sys.stdin:
        start = time.process_time()
        losses = [trainer.step() for _ in range(int(line))]
        seconds = time.process_time() - start
        print(json.dumps({"cpuSeconds": seconds, "losses": losses,
                          "peakBytes": memory_of("VmHWM") - before}), flush=True)


if __name__ == "__main__":
    main()
