#!/usr/bin/env python3
"""Makes tests/data/families: a small model of each family with odd shapes, and what transformers
and PyTorch compute with it: logits, loss, gradients, and the weights after three steps of AdamW.

Needs torch and transformers. Run again only if a family or a case is added: other versions give
other last digits. usage: make_families.py [FAMILY...]
"""

import json
import sys
from pathlib import Path

import adamw_golden
import torch
from safetensors.torch import save_file
from transformers import (AutoModelForCausalLM, AutoModelForSequenceClassification, BertConfig,
                          DebertaV2Config, Gemma2Config, Gemma3TextConfig, GPT2Config, LlamaConfig,
                          MistralConfig, Phi3Config, Qwen2Config, Qwen3Config, RobertaConfig)

DATA = Path(__file__).resolve().parents[1] / "data/families"
ROWS, TOKENS = 2, 21
# Tokens of a classifier's rows, and their classes; behind them is padding. Where the second of two
# texts begins, which has the token type 1.
LENGTHS, CLASSES = [21, 13, 1, 8], [2, 0, -100, 1]
TYPE_BORDERS = [9, 5, 21, 7]
COMMON = {"vocab_size": 53, "hidden_size": 20, "intermediate_size": 28}
# A case's seed is its place: new ones go to the end.
CASES = {
    "gemma2": Gemma2Config(**COMMON, num_hidden_layers=3, num_attention_heads=4,
                           num_key_value_heads=2, head_dim=12, max_position_embeddings=64,
                           sliding_window=9, query_pre_attn_scalar=24,
                           attn_logit_softcapping=5.0, final_logit_softcapping=3.0),
    "gemma3": Gemma3TextConfig(**COMMON, num_hidden_layers=4, num_attention_heads=4,
                               num_key_value_heads=1, head_dim=12, max_position_embeddings=64,
                               sliding_window=9, query_pre_attn_scalar=12),
    "gpt2": GPT2Config(vocab_size=53, n_positions=24, n_embd=20, n_layer=3, n_head=5),
    "gpt2_erf": GPT2Config(vocab_size=53, n_positions=24, n_embd=20, n_layer=2, n_head=2,
                           n_inner=36, activation_function="gelu", tie_word_embeddings=False),
    "llama": LlamaConfig(**COMMON, num_hidden_layers=3, num_attention_heads=5,
                         num_key_value_heads=1, max_position_embeddings=64),
    # Heads of 80 values, biases, the scaling of Llama 3.
    "llama3": LlamaConfig(**COMMON, num_hidden_layers=2, num_attention_heads=5,
                          num_key_value_heads=1, head_dim=80, max_position_embeddings=640,
                          attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                          rope_parameters={"rope_type": "llama3", "rope_theta": 5000.0,
                                           "factor": 8.0, "low_freq_factor": 1.0,
                                           "high_freq_factor": 4.0,
                                           "original_max_position_embeddings": 64}),
    "llama_linear": LlamaConfig(**COMMON, num_hidden_layers=2, num_attention_heads=2,
                                max_position_embeddings=64,
                                rope_parameters={"rope_type": "linear", "rope_theta": 10000.0,
                                                 "factor": 4.0}),
    "llama_yarn": LlamaConfig(**COMMON, num_hidden_layers=2, num_attention_heads=5, head_dim=16,
                              max_position_embeddings=640,
                              rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0,
                                               "factor": 4.0,
                                               "original_max_position_embeddings": 160}),
    "mistral": MistralConfig(**COMMON, num_hidden_layers=3, num_attention_heads=10,
                             num_key_value_heads=5, max_position_embeddings=64, sliding_window=9),
    "phi3": Phi3Config(**COMMON, num_hidden_layers=2, num_attention_heads=5,
                       num_key_value_heads=5, max_position_embeddings=64, pad_token_id=0,
                       sliding_window=11),
    "qwen2": Qwen2Config(**COMMON, num_hidden_layers=3, num_attention_heads=5,
                         num_key_value_heads=5, max_position_embeddings=64,
                         use_sliding_window=True, sliding_window=7, max_window_layers=1),
    "qwen3": Qwen3Config(**COMMON, num_hidden_layers=2, num_attention_heads=5,
                         num_key_value_heads=5, head_dim=12, max_position_embeddings=64,
                         tie_word_embeddings=True),
    "gpt2_by_layer": GPT2Config(vocab_size=53, n_positions=24, n_embd=20, n_layer=3, n_head=5,
                                scale_attn_by_inverse_layer_idx=True),
    "gpt2_unscaled": GPT2Config(vocab_size=53, n_positions=24, n_embd=20, n_layer=2, n_head=5,
                                scale_attn_weights=False),
    "bert": BertConfig(**COMMON, num_hidden_layers=3, num_attention_heads=5,
                       max_position_embeddings=24, num_labels=3),
    "roberta": RobertaConfig(**COMMON, num_hidden_layers=2, num_attention_heads=5,
                             max_position_embeddings=26, type_vocab_size=1, pad_token_id=1,
                             layer_norm_eps=1e-5, num_labels=4),
    "bert_pairs": BertConfig(**COMMON, num_hidden_layers=3, num_attention_heads=5,
                             max_position_embeddings=24, num_labels=3, type_vocab_size=3),
    # As DeBERTa-v3, with more distances than buckets.
    "deberta": DebertaV2Config(**COMMON, num_hidden_layers=3, num_attention_heads=5,
                               max_position_embeddings=24, num_labels=3, relative_attention=True,
                               position_buckets=6, norm_rel_ebd="layer_norm", share_att_key=True,
                               pos_att_type="p2c|c2p", position_biased_input=False),
    # Products of their own, distances that are cut off, and what BERT adds.
    "deberta_own": DebertaV2Config(**COMMON, num_hidden_layers=2, num_attention_heads=2,
                                   max_position_embeddings=24, num_labels=3, type_vocab_size=2,
                                   relative_attention=True, max_relative_positions=7,
                                   pos_att_type=["c2p", "p2c"], pooler_hidden_act="tanh",
                                   attention_head_size=10),
    "deberta_p2c": DebertaV2Config(**COMMON, num_hidden_layers=2, num_attention_heads=4,
                                   max_position_embeddings=32, num_labels=3,
                                   relative_attention=True, position_buckets=9,
                                   share_att_key=True, pos_att_type=["p2c"],
                                   position_biased_input=False, pooler_hidden_act="silu",
                                   embedding_size=12),
}
CLASSIFIERS = {"bert", "roberta", "bert_pairs", "deberta", "deberta_own", "deberta_p2c"}


def next_tokens(config):
    ids = torch.randint(0, config.vocab_size, (ROWS, TOKENS))
    labels = torch.roll(ids, -1, 1)
    labels[:, -1] = -100
    labels[0, 3:7] = -100  # answers alone have a loss
    return {"input_ids": ids, "labels": labels}


def classes(pairs):
    ids = torch.randint(2, COMMON["vocab_size"], (len(LENGTHS), TOKENS))
    segments = torch.zeros_like(ids)
    labels = torch.full_like(ids, -100)
    labels[:, 0] = torch.tensor(CLASSES)
    for row, length in enumerate(LENGTHS):
        ids[row, length:] = 1
        segments[row, length:] = -1
    golden = {"input_ids": ids, "labels": labels, "segments": segments}
    if pairs:
        golden["type_borders"] = torch.tensor(TYPE_BORDERS)
    return golden


def new_model(name, config):
    kind = AutoModelForCausalLM
    if name in CLASSIFIERS:
        kind = AutoModelForSequenceClassification
    if name == "gemma3":
        config.layer_types = ["sliding_attention", "full_attention"] * 2
    # transformers gives the embedding's row of this token no gradient; shoal knows no such token.
    # RoBERTa counts positions with it, and classifiers' padding has no gradient.
    if name != "roberta":
        config.pad_token_id = None
    model = kind.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * (0.3 if parameter.dim() == 1 else 0.15))
    return model


def logits_of(model, golden):
    if "segments" not in golden:
        return model(golden["input_ids"], use_cache=False).logits
    seen = (golden["segments"] >= 0).long()
    types = None
    if "type_borders" in golden:
        types = seen * (torch.arange(TOKENS) >= golden["type_borders"][:, None]).long()
    return model(golden["input_ids"], attention_mask=seen, token_type_ids=types).logits


def make(name, config):
    torch.manual_seed(list(CASES).index(name))
    model = new_model(name, config)
    folder = DATA / name
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    prefix = model.base_model_prefix + "."
    canonical = {full.removeprefix(prefix): parameter
                 for full, parameter in model.named_parameters()}
    golden = classes(name == "bert_pairs") if name in CLASSIFIERS else next_tokens(config)
    adamw_golden.train(canonical, lambda: logits_of(model, golden), golden)
    save_file({key: value.contiguous() for key, value in golden.items()},
              folder / "golden.safetensors")
    print(f"{name}: loss {golden['loss'].item():.4f}, "
          f"{sum(p.numel() for p in model.parameters())} values")


def main():
    for name in sys.argv[1:] or CASES:
        make(name, CASES[name])


if __name__ == "__main__":
    main()
