#!/usr/bin/env python3
"""Compares `shoal convert --as gguf` with llama.cpp: a small model of each family, with random
weights, continues prompts by the most probable tokens. Prompts must have the same number of ids,
and each id of shoal's text must be the one that llama.cpp, given those before it, finds the most
probable, or nearly so: llama.cpp rounds activations to fp16. With q8_0 the file must load and its
matrices be those that the `gguf` package makes.

Needs gguf, numpy, protobuf, sentencepiece and xllamacpp (llama.cpp as a wheel).
usage: check_llama_cpp.py [--bin build/release/bin] [CASE...]
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy
import sentencepiece
import xllamacpp
from sentencepiece import sentencepiece_model_pb2

ROOT = Path(__file__).resolve().parents[2]
TOKENS = 40
# Between logarithms of probabilities, whose order rounding may turn.
TIE = 0.02
PROMPTS = ["ROMEO: it is", "Hello, world! It's 1234567 caf\u00e9, na\u00efve",
           "  two  spaces\n\nline", "The quick brown fox", "a b c d", "\u4e2d\u6587 \U0001f600 x"]

COMMON = {"hidden_size": 64, "intermediate_size": 96, "initializer_range": 0.15,
          "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3,
          "max_position_embeddings": 128, "rms_norm_eps": 1e-5}
GEMMA = {"head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 9,
         "tie_word_embeddings": True, "hidden_activation": "gelu_pytorch_tanh"}


def rope(kind, **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **more}}


# Case: tokenizer, model_type, architecture, keys of config.json.
CASES = {
    "gpt2": ("gpt2", "gpt2", "GPT2LMHeadModel", {
        "n_embd": 64, "n_head": 4, "n_layer": 3, "n_positions": 128, "initializer_range": 0.15}),
    "llama": ("pieces", "llama", "LlamaForCausalLM", COMMON),
    "llama3": ("llama3", "llama", "LlamaForCausalLM", {
        **COMMON, "head_dim": 32, "attention_bias": True, "mlp_bias": True,
        "tie_word_embeddings": True,
        **rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
               original_max_position_embeddings=16)}),
    "llama_linear": ("smollm", "llama", "LlamaForCausalLM", {
        **COMMON, **rope("linear", factor=4.0)}),
    "llama_yarn": ("llama3", "llama", "LlamaForCausalLM", {
        **COMMON, **rope("yarn", factor=4.0, original_max_position_embeddings=32)}),
    "mistral": ("json_of_pieces", "mistral", "MistralForCausalLM", {
        **COMMON, "sliding_window": None}),
    "qwen2": ("qwen", "qwen2", "Qwen2ForCausalLM", {**COMMON, "tie_word_embeddings": True}),
    "qwen3": ("qwen", "qwen3", "Qwen3ForCausalLM", {**COMMON, "head_dim": 32}),
    "qwen3_narrow": ("qwen", "qwen3", "Qwen3ForCausalLM", {
        **COMMON, "head_dim": 32, "hidden_size": 48}),
    "gemma2": ("gemma_pieces", "gemma2", "Gemma2ForCausalLM", {
        **COMMON, **GEMMA, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}),
    "gemma3": ("gemma_pieces", "gemma3_text", "Gemma3ForCausalLM", {
        **COMMON, **GEMMA, "num_hidden_layers": 7, "rope_theta": 1e6,
        "rope_local_base_freq": 1e4}),
    "gemma3_linear": ("gemma_pieces", "gemma3_text", "Gemma3ForCausalLM", {
        **COMMON, **GEMMA, "num_hidden_layers": 7, "rope_theta": 1e6, "rope_local_base_freq": 1e4,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0}}),
    "phi3": ("o200k", "phi3", "Phi3ForCausalLM", {
        **COMMON, "tie_word_embeddings": False, "partial_rotary_factor": 0.5}),
}


def train_pieces(folder, prefix_space):
    """A SentencePiece model of byte pairs, as Llama 2 has it."""
    sentencepiece.SentencePieceTrainer.train(
        input=str(ROOT / "examples/tinyshakespeare.txt"), model_prefix=str(folder / "tokenizer"),
        vocab_size=700, model_type="bpe", byte_fallback=True, character_coverage=0.999,
        normalization_rule_name="identity", add_dummy_prefix=prefix_space,
        remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True,
        max_sentence_length=20000, minloglevel=2)
    (folder / "tokenizer.vocab").unlink()
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString((folder / "tokenizer.model").read_bytes())
    return proto.pieces


def json_of_pieces(pieces):
    """tokenizer.json with all ways to make a piece, the highest score first."""
    ids = {piece.piece: i for i, piece in enumerate(pieces)}
    merges = []
    for piece in sorted((p for p in pieces if p.type == 1), key=lambda p: -p.score):
        for cut in range(1, len(piece.piece)):
            if piece.piece[:cut] in ids and piece.piece[cut:] in ids:
                merges.append([piece.piece[:cut], piece.piece[cut:]])
    special = [{"id": i, "content": pieces[i].piece, "single_word": False, "lstrip": False,
                "rstrip": False, "normalized": False, "special": True} for i in range(3)]
    meta = "\u2581"
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": meta},
            {"type": "Replace", "pattern": {"String": " "}, "content": meta}]},
        "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing", "pair": [],
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                       {"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": meta}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "fuse_unk": True,
                  "byte_fallback": True, "ignore_merges": False, "vocab": ids, "merges": merges}}


def put_tokenizer(kind, folder):
    """Writes the tokenizer's files; the number of its tokens."""
    if kind == "gpt2":
        for name in ("vocab.json", "merges.txt"):
            shutil.copy(ROOT / "examples/tiny-gpt2" / name, folder)
        return len(json.loads((folder / "vocab.json").read_text()))
    if kind.endswith("pieces"):
        pieces = train_pieces(folder, prefix_space=kind != "gemma_pieces")
        if kind == "json_of_pieces":
            (folder / "tokenizer.model").unlink()
            (folder / "tokenizer.json").write_text(json.dumps(json_of_pieces(pieces)))
        return len(pieces)
    shutil.copy(ROOT / "tests/data/tokenizers" / kind / "tokenizer.json", folder)
    file = json.loads((folder / "tokenizer.json").read_text())
    return len(file["model"]["vocab"].keys() | {t["content"] for t in file["added_tokens"]})


class Shoal:
    def __init__(self, folder):
        self.program = str(folder / "shoal-run")

    def __call__(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return done.stdout

    def json(self, *arguments):
        return json.loads(self(*arguments, "--json"))


class LlamaCpp:
    def __init__(self, path):
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx, params.n_parallel, params.warmup = 128, 1, False
        self.server = xllamacpp.Server(params)

    def next(self, prompt):
        """Of a text or ids: how many ids they are, and the most probable ids behind them, the best
        first, as {id: logarithm of its probability}; none for a part of a character."""
        reply = self.server.handle_completions({
            "prompt": prompt, "temperature": 0, "top_k": 1, "max_tokens": 1, "logprobs": 5})
        choice = reply["choices"][0]
        steps = choice["logprobs"]["content"] if choice["logprobs"] else []
        likely = steps[0]["top_logprobs"] if steps else []
        return (reply["usage"]["prompt_tokens"],
                {token["id"]: token["logprob"] for token in likely})


def make_models(shoal, name, folder):
    tokenizer, model_type, architecture, keys = CASES[name]
    config = folder / "config"
    config.mkdir()
    size = put_tokenizer(tokenizer, config)
    (config / "config.json").write_text(json.dumps({
        "model_type": model_type, "architectures": [architecture], "vocab_size": size, **keys}))
    shoal("init-model", "--config", config / "config.json", "--out", folder / "fresh", "--seed", 5)
    # In fp16, so that both programs have the same weights.
    shoal("convert", "--model", folder / "fresh", "--out", folder / "model", "--dtype", "fp16")
    for kind in ("f16", "q8_0"):
        shoal("convert", "--model", folder / "model", "--out", folder / kind, "--as", "gguf",
              "--type", kind)


def begin_of(path):
    """Ids that llama.cpp puts in front of a text."""
    fields = gguf.GGUFReader(path).fields
    if not fields["tokenizer.ggml.add_bos_token"].parts[-1][0]:
        return []
    return [int(fields["tokenizer.ggml.bos_token_id"].parts[-1][0])]


def compare_texts(shoal, folder):
    """How many ids are llama.cpp's best, near it, and not shown by it."""
    path = folder / "f16/model.gguf"
    llama, begin = LlamaCpp(path), begin_of(path)
    count = {"equal": 0, "near": 0, "unseen": 0}
    for prompt in PROMPTS:
        made = shoal.json("generate", "--model", folder / "model", "--prompt", prompt,
                          "--temperature", 0, "--tokens", TOKENS)["ids"]
        ids = begin + shoal.json("logits", "--model", folder / "model", "--text", prompt)["ids"]
        size, likely = llama.next(prompt)
        again = llama.next(ids)[1]
        # A cached beginning rounds otherwise.
        same = all(abs(likely[i] - again.get(i, likely[i])) < TIE for i in likely)
        if size != len(ids) or not same or bool(likely) != bool(again):
            raise RuntimeError(f"{prompt!r} has other ids in llama.cpp")
        for mine in made:
            likely = llama.next(ids)[1]
            best = next(iter(likely), None)
            ids.append(mine)
            if best is None:  # part of a character
                count["unseen"] += 1
            elif mine == best:
                count["equal"] += 1
            elif likely[best] - likely.get(mine, float("-inf")) <= TIE:
                count["near"] += 1
            else:
                raise RuntimeError(f"{prompt!r}: id {mine} at {len(ids)}, llama.cpp: {likely}")
    return count


def compare_blocks(folder):
    """Tensors of the q8_0 file against those of the f16 file, by the gguf package."""
    half = {t.name: t for t in gguf.GGUFReader(folder / "f16/model.gguf").tensors}
    count = 0
    for tensor in gguf.GGUFReader(folder / "q8_0/model.gguf").tensors:
        if tensor.tensor_type != gguf.GGMLQuantizationType.Q8_0:
            numpy.testing.assert_array_equal(tensor.data, half[tensor.name].data)
            continue
        values = half[tensor.name].data.astype(numpy.float32)
        wanted = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
        numpy.testing.assert_array_equal(tensor.data, wanted)
        count += 1
    return count


def check(shoal, name):
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        make_models(shoal, name, folder)
        count = compare_texts(shoal, folder)
        blocks = compare_blocks(folder)
        LlamaCpp(folder / "q8_0/model.gguf").next(PROMPTS[0])
    print(f"{name}: {count['equal']} ids equal, {count['near']} nearly as probable, "
          f"{count['unseen']} unseen; {blocks} tensors of Q8_0 equal", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, default=ROOT / "build/release/bin")
    parser.add_argument("cases", nargs="*", default=list(CASES))
    options = parser.parse_args()
    shoal = Shoal(options.bin)
    bad = []
    for name in options.cases:
        try:
            check(shoal, name)
        except (RuntimeError, AssertionError) as error:
            print(f"{name}: DIFFERENT, {error}", flush=True)
            bad.append(name)
    sys.exit(f"different: {', '.join(bad)}" if bad else 0)


if __name__ == "__main__":
    main()
