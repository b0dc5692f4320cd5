#!/usr/bin/env python3
"""Compares the logits of `shoal-run logits --json` with those of Hugging Face transformers.

usage: hf_logits.py MODEL_DIRECTORY LOGITS_JSON [--text TEXT] [--adapter FOLDER]
Ends with 0 when all are equal to 1e-4, 1 when not, 77 where transformers, or for an adapter peft,
is not installed. With --text the ids are compared, too.
"""

import argparse
import json
import sys

TOLERANCE = 1e-4


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("model")
    arguments.add_argument("logits")
    arguments.add_argument("--text")
    arguments.add_argument("--adapter")
    given = arguments.parse_args()
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        if given.adapter:
            from peft import PeftModel
    except ImportError as error:
        print(f"a library is not here ({error}): nothing was compared")
        return 77
    with open(given.logits, encoding="utf-8") as file:
        ours = json.load(file)
    if given.text is not None:
        ids = AutoTokenizer.from_pretrained(given.model)(given.text)["input_ids"]
        if ids != ours["ids"]:
            print(f"ids differ: {ids} and {ours['ids']}")
            return 1
    model = AutoModelForCausalLM.from_pretrained(given.model).float()
    if given.adapter:
        model = PeftModel.from_pretrained(model, given.adapter)
    model.eval()
    with torch.no_grad():
        theirs = model(torch.tensor([ours["ids"]])).logits[0]
    mine = torch.tensor(ours["logits"], dtype=torch.float32)
    if theirs.shape != mine.shape:
        print(f"shapes differ: {tuple(theirs.shape)} and {tuple(mine.shape)}")
        return 1
    worst = (theirs - mine).abs().max().item()
    print(f"transformers agrees to {worst:.2e} on {mine.numel()} logits")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
