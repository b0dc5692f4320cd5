#!/usr/bin/env python3
"""Makes tests/data/tokenizers: a small tokenizer.json in the manner of each family, and what
Hugging Face's `tokenizers` makes of texts with it.

FOLDER/tokenizer.json (or spm.model, and what SentencePiece makes of texts), FOLDER/vectors.jsonl
(text, ids, decoded) and index.json (of each folder: what stands around a text and around two,
tokens and SHA-256 of the ids of a whole file). Needs tokenizers and sentencepiece. Run again only
if a case is added.
usage: make_tokenizers.py [FOLDER...]
"""

import base64
import hashlib
import io
import json
import random
import sys
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data/tokenizers"
SHAKESPEARE = (ROOT / "examples/tinyshakespeare.txt").read_text("utf-8")
META = "\u2581"

WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = WORDS + r"|\p{N}{1,3}" + REST
QWEN = WORDS + r"|\p{N}" + REST
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{SHORT}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*"
    rf"{SHORT}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

ODD = [
    "",
    " ",
    "  ",
    "\n",
    "\r\n",
    "\t",
    " \n ",
    "a",
    " a",
    "a ",
    "Hello, world!",
    "It's we'll THEY'D'VE",
    "1234567890 12,345.678 \u2167\u00bd\u0664\u0665",
    "line one\r\nline two\r\n\r\nline four",
    "caf\u00e9 cafe\u0301 \u00c5ngstr\u00f6m A\u030a",
    "\u1112\u1161\u11ab\u1100\u1173\u11af \ud55c\uae00",
    "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3067\u3059\u3002",
    "\u4e2d\u6587\u6df7\u5408English\u6587\u672c",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 "
    "\U0001f1e9\U0001f1ea\U0001f3f3\ufe0f\u200d\U0001f308",
    "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd",
    "\u0928\u092e\u0938\u094d\u0924\u0947",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\u0130stanbul I\u0307 \u1e9e \u03a3\u03a3 \ufb01le \uff21\uff22\uff11",
    "a\u00a0b\u2003c\u3000d\u180ee\u0085f\u200bg\u2028h",
    "\x00\x01\x1f\x7f\u0080\ufffd\ufeff\u00ad",
    "\U0001e4d0\U0001e4d1 \U00011f02\U00011f04 \U00031350 \U0001e030 \U0001d2c0",
    "x" * 300,
    "ab" * 150,
    " " * 40 + "x",
    "!" * 50,
    "\n" * 20 + "y",
    "def f(x):\n    return x ** 2  # \u00b2\n\n\nprint(f(3))",
    "http://example.com/a?b=c&d=%20#e",
    "foo_bar-Baz.qux@quux",
    "\u00bfQu\u00e9? \u201cYes\u201d \u2014 no\u2026",
    "a\u0300\u0301\u0302\u0303b",
    "\u2581already\u2581meta \u2581",
    "<0x41> <unk> <s>",
    "ſ's K\u212a",
    "tab\tand  two   three    four",
    "\u00df\u00e6\u0153\u0142\u017c\u0219",
    "\U0001f469\U0001f3fd\u200d\U0001f680",
    "don't can't won't",
    "I'm you're he's.",
    "100% $5.00 \u20ac7 #1",
]


def sentences():
    """The texts of the vectors: odd ones, lines, and random mixtures, the same for all."""
    dice = random.Random(20)
    lines = [line for line in SHAKESPEARE.splitlines() if line]
    texts = ODD + dice.sample(lines, 12)
    letters = list("abcXYZ '\n\r\t.,!?0189_-\u00e9\u0301\u4e00\u0416\U0001f600\u2581\u00a0")
    texts += ["".join(dice.choices(letters, k=dice.randint(1, 40))) for _ in range(60)]
    return texts


TRAINING = SHAKESPEARE.splitlines()[:4000] + ODD * 3


def bpe(special=(), byte_level=True, size=700, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    alphabet = pre_tokenizers.ByteLevel.alphabet() if byte_level else []
    first = list(special)
    if options.get("byte_fallback"):
        first += [f"<0x{byte:02X}>" for byte in range(256)]
    return tokenizer, trainers.BpeTrainer(
        vocab_size=size, special_tokens=first, initial_alphabet=alphabet, show_progress=False
    )


def train(tokenizer, trainer):
    tokenizer.train_from_iterator(TRAINING, trainer)
    return tokenizer


def split_bytes(pattern, special, **options):
    tokenizer, trainer = bpe(**options)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    train(tokenizer, trainer)
    tokenizer.add_special_tokens(special)
    return tokenizer


def begin(tokenizer, name):
    return processors.TemplateProcessing(
        single=f"{name} $A",
        pair=f"{name} $A {name} $B",
        special_tokens=[(name, tokenizer.token_to_id(name))],
    )


def llama3():
    tokenizer = split_bytes(
        LLAMA3, ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"], ignore_merges=True
    )
    tokenizer.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=False), begin(tokenizer, "<|begin_of_text|>")]
    )
    return tokenizer


def qwen():
    tokenizer = split_bytes(QWEN, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken("<tool_call>", special=False, normalized=False)])
    return tokenizer


def deepseek():
    tokenizer, trainer = bpe()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"),
            pre_tokenizers.Split(Regex("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), "isolated"),
            pre_tokenizers.Split(
                Regex(
                    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}"
                    r"\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)"
                    r"|\s+"
                ),
                "isolated",
            ),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, trainer)


def smollm():
    tokenizer, trainer = bpe()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    train(tokenizer, trainer)
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return tokenizer


def roberta():
    tokenizer, trainer = bpe(special=["<s>", "<pad>", "</s>", "<unk>"])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    train(tokenizer, trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), add_prefix_space=True
    )
    return tokenizer


SPECIAL = ["<unk>", "<s>", "</s>"]


def fallback(special=SPECIAL):
    tokenizer, trainer = bpe(
        special=special,
        byte_level=False,
        size=900,
        unk_token="<unk>",
        byte_fallback=True,
        fuse_unk=True,
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(META, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return tokenizer, trainer


def only_begins(tokenizer):
    """No token has a space behind a letter, which training on whole lines would make."""
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    return tokenizer


def llama2():
    tokenizer, trainer = fallback()
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend(META), normalizers.Replace(" ", META)]
    )
    train(only_begins(tokenizer), trainer)
    tokenizer.pre_tokenizer = None
    tokenizer.post_processor = begin(tokenizer, "<s>")
    return tokenizer


def mistral():
    tokenizer, trainer = fallback(SPECIAL + ["[INST]", "[/INST]"])
    train(only_begins(tokenizer), trainer)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.post_processor = begin(tokenizer, "<s>")
    return tokenizer


def gemma():
    tokenizer, trainer = fallback(
        ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    )
    tokenizer.normalizer = normalizers.Replace(" ", META)
    train(tokenizer, trainer)  # lines are words: tokens have spaces within
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(META, " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.post_processor = begin(tokenizer, "<bos>")
    return tokenizer


def bert(lowercase=True):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    train(
        tokenizer,
        trainers.WordPieceTrainer(
            vocab_size=900,
            show_progress=False,
            special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
        ),
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return tokenizer


def sentencepiece_model(lines, **options):
    """The bytes of a model with a small table of replacements."""
    rules = "".join(
        f"{from_}\t{to}\n"
        for from_, to in [
            ("FB01", "66 69"),
            ("FF21", "41"),
            ("FF22", "42"),
            ("FF11", "31"),
            ("65 301", "E9"),
            ("41 30A", "C5"),
            ("3000", "20"),
            ("A0", "20"),
            ("2026", "2E 2E 2E"),
            ("AD", ""),
            ("1F600", "3A 29"),
            ("9", "20"),
            ("A", "20"),
            ("D", "20"),
        ]
    )
    path = Path("/tmp/charsmap_rules.tsv")
    path.write_text(rules)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SHAKESPEARE.splitlines()[:lines]),
        model_writer=model,
        normalization_rule_tsv=str(path),
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def charsmap():
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(sentencepiece_model(500, vocab_size=200))
    return proto.normalizer_spec.precompiled_charsmap


def deberta_spm(folder):
    """As DeBERTa's directories have it: spm.model, and a token that only another file names."""
    model = sentencepiece_model(
        4000, vocab_size=600, pad_id=0, bos_id=1, eos_id=2, unk_id=3, pad_piece="[PAD]",
        bos_piece="[CLS]", eos_piece="[SEP]", unk_piece="[UNK]", num_threads=1,
    )
    (folder / "spm.model").write_bytes(model)
    (folder / "added_tokens.json").write_text('{"[MASK]": 600}\n')
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"do_lower_case": False, "vocab_type": "spm"}) + "\n")
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    # The library ends a text at a zero byte, and strips more than one space in front.
    texts = [text for text in sentences() if "\0" not in text and META + "a" not in text]
    write_vectors(folder, texts, pieces.encode, pieces.decode)
    a, pair = pieces.encode("a"), pieces.encode("b c")
    # Word by word: over a long text the library's fp32 sums of scores hide small differences.
    whole = [token for word in SHAKESPEARE.split() for token in pieces.encode(word)]
    return {
        "around_a": [1, *a, 2],
        "around_pair": [1, *a, 2, *pair, 2],
        "pair_types": [0] * (len(a) + len(pair) + 3),
        "a": a,
        "tokens": len(whole),
        "sha256": digest(whole),
    }


def unigram(size=700, **options):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(
        TRAINING,
        trainers.UnigramTrainer(
            vocab_size=size,
            unk_token="<unk>",
            special_tokens=["<pad>", "<unk>", "</s>"],
            show_progress=False,
        ),
    )
    state = json.loads(tokenizer.to_str())
    return tokenizer, state, options


def deberta():
    tokenizer, state, _ = unigram()
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Strip(),
            normalizers.Precompiled(charsmap()),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)]
    )
    return tokenizer


def unigram_bytes():
    """Unigram with byte tokens, and a text that is one word."""
    tokenizer, state, _ = unigram()
    vocab = [
        (piece, score)
        for piece, score in state["model"]["vocab"]
        if len(piece) != 1 or piece < "m" or piece == META
    ]
    vocab += [(f"<0x{byte:02X}>", -20.0) for byte in range(256)]
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=1, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="never")]
    )
    return tokenizer


def mixed():
    """What is left of normalizers and pre-tokenizers."""
    tokenizer, trainer = bpe(special=["<unk>"], byte_level=False, unk_token="<unk>")
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Nmt(),
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.NFKC(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.CharDelimiterSplit("_"),
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Punctuation("contiguous"),
            pre_tokenizers.Digits(),
        ]
    )
    train(tokenizer, trainer)
    tokenizer.add_tokens([AddedToken("HE", single_word=True, normalized=True)])
    return tokenizer


def words():
    tokenizer, trainer = bpe(special=["<unk>"], byte_level=False, unk_token="<unk>", fuse_unk=True)
    tokenizer.normalizer = normalizers.NFD()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    train(tokenizer, trainer)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Whitespace(),
            pre_tokenizers.Split("e", "merged_with_next"),
            pre_tokenizers.Split(Regex("[aou]+"), "merged_with_previous"),
            pre_tokenizers.Split("t", "removed"),
            pre_tokenizers.Split("n", "contiguous", invert=True),
        ]
    )
    return tokenizer


CASES = {
    "llama3": llama3,
    "qwen": qwen,
    "deepseek": deepseek,
    "smollm": smollm,
    "roberta": roberta,
    "o200k": lambda: split_bytes(O200K, ["<|endoftext|>"]),
    "llama2": llama2,
    "mistral": mistral,
    "gemma": gemma,
    "bert": bert,
    "bert_cased": lambda: bert(lowercase=False),
    "deberta": deberta,
    "unigram_bytes": unigram_bytes,
    "mixed": mixed,
    "words": words,
}


def without_byte_tokens(tokenizer):
    """Byte tokens are in the vocabulary, but not found in texts."""
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [
        token for token in state["added_tokens"] if not token["content"].startswith("<0x")
    ]
    return Tokenizer.from_str(json.dumps(state))


def write_vectors(folder, texts, encode, decode):
    with open(folder / "vectors.jsonl", "w", encoding="utf-8") as file:
        for text in texts:
            ids = encode(text)
            file.write(json.dumps({"text": text, "ids": ids, "decoded": decode(ids)}) + "\n")


def digest(ids):
    return hashlib.sha256(b"".join(i.to_bytes(2, "little") for i in ids)).hexdigest()


def main():
    index_path = DATA / "index.json"
    index = json.loads(index_path.read_text()) if index_path.exists() else {}
    for name in sys.argv[1:] or [*CASES, "deberta_spm"]:
        folder = DATA / name
        folder.mkdir(parents=True, exist_ok=True)
        if name == "deberta_spm":
            index[name] = deberta_spm(folder)
            continue
        tokenizer = without_byte_tokens(CASES[name]())
        tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
        special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        around = [f"{token}in{token} the{token}middle {token} x" for token in special[:6]]
        write_vectors(
            folder,
            sentences() + around,
            lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
            lambda ids: tokenizer.decode(ids, skip_special_tokens=False),
        )
        whole = tokenizer.encode(SHAKESPEARE, add_special_tokens=False).ids
        pair = tokenizer.encode("a", "b c")
        index[name] = {
            "around_a": tokenizer.encode("a").ids,
            "around_pair": pair.ids,
            "pair_types": pair.type_ids,
            "a": tokenizer.encode("a", add_special_tokens=False).ids,
            "tokens": len(whole),
            "sha256": digest(whole),
        }
        print(name, tokenizer.get_vocab_size(), len(whole))
    index_path.write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
