#!/usr/bin/env python3
"""Trains the demo tokenizer tiny-gpt2/{tokenizer.json,vocab.json,merges.txt} on tinyshakespeare.txt
and writes the golden ids of tests/data/tiny_gpt2_vectors.jsonl.

Only needed to make those files again: pip install tokenizers==0.23.3, then run it from anywhere.
"""
import hashlib
import json
import pathlib
import struct

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

EXAMPLES = pathlib.Path(__file__).resolve().parent
TEXT = EXAMPLES / "tinyshakespeare.txt"
OUT = EXAMPLES / "tiny-gpt2"
VECTORS = EXAMPLES.parent / "tests" / "data" / "tiny_gpt2_vectors.jsonl"

SAMPLES = [
    "", " ", "  ", "\n", "\n\n", " \n ", "\t\n", "a", "Hello world", " Hello world",
    "don't we'll I'd he's", "DON'T WE'LL",
    "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\nSpeak, speak.",
    "ROMEO:\nBut, soft! what light through yonder window breaks?",
    "1234 5.678 -9", "a  b   c    d", "trailing   ", "   leading", "tabs\tand\r\nlines",
    "na\u00efve caf\u00e9 \u00fcber", "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0",
    "\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440", "\u0645\u0631\u062d\u0628\u0627",
    "emoji \U0001f600\U0001f3fd\u200d\U0001f680!", "nul\u0000byte", "x\u00a0y\u2003z\u3000w",
    "next\u0085line", "mongolian\u180evowel", "\u00bd \u2167 \u0663", "'s't're've'm'll'd",
    "a" * 200, "the " * 40, "!?" * 60, " " * 70, "\ufeffmark", "e\u0301 combining",
]


def main():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train(
        [str(TEXT)],
        trainers.BpeTrainer(
            vocab_size=1024,
            special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    OUT.mkdir(exist_ok=True)
    tokenizer.save(str(OUT / "tokenizer.json"))
    tokenizer.model.save(str(OUT))
    with open(VECTORS, "w", encoding="ascii") as out:
        for text in SAMPLES:
            out.write(json.dumps({"text": text, "ids": tokenizer.encode(text).ids}) + "\n")
    ids = tokenizer.encode(TEXT.read_text(encoding="utf-8")).ids
    digest = hashlib.sha256(struct.pack(f"<{len(ids)}H", *ids)).hexdigest()
    print(f"{tokenizer.get_vocab_size()} tokens in the vocabulary")
    print(f"tinyshakespeare.txt: {len(ids)} ids, sha256 of the uint16 ids {digest}")


if __name__ == "__main__":
    main()
