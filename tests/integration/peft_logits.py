#!/usr/bin/env python3
"""Compares the logits of `shoal-run logits --adapter ADAPTER --json` with those of PEFT.

usage: peft_logits.py MODEL_DIRECTORY ADAPTER LOGITS_JSON
Ends with 0 when all are equal to 1e-4, 1 when not, 77 where peft is not installed.
"""

import argparse
import json
import sys

TOLERANCE = 1e-4


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("model", "adapter", "logits"):
        arguments.add_argument(name)
    given = arguments.parse_args()
    try:
        import torch
        from peft import PeftModel
        from transformers import AutoModelForCausalLM
    except ImportError as error:
        print(f"peft is not here ({error}): nothing was compared")
        return 77
    with open(given.logits, encoding="utf-8") as file:
        ours = json.load(file)
    base = AutoModelForCausalLM.from_pretrained(given.model).float()
    model = PeftModel.from_pretrained(base, given.adapter).eval()
    with torch.no_grad():
        theirs = model(torch.tensor([ours["ids"]])).logits[0]
    mine = torch.tensor(ours["logits"], dtype=torch.float32)
    worst = (theirs - mine).abs().max().item()
    print(f"peft agrees to {worst:.2e} on {mine.numel()} logits")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
