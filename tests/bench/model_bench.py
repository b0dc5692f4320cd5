#!/usr/bin/env python3
"""Is a training step of a whole model as fast as plain PyTorch's, and no hungrier?

GPT-2 and a Llama of 100 M values, one row of 512 tokens a step on one thread in fp32: forward,
backward, gradient norm, AdamW. The other side is transformers' model with its default attention,
torch.optim.AdamW, gradient checkpointing for recompute, and PEFT for adapters of rank 16 on all
products. Both begin with the same weights, and their losses must agree. They take turns, a few
steps each, in processes of their own. What counts is CPU time, the median of the turns, and the
most resident memory in steps beyond what the libraries take."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).resolve().parent))
import bench_command  # noqa: E402
import bench_rows  # noqa: E402

FASTER_WANTED = 1.1
LOSS_WITHIN = 1e-3  # of each other
CONFIGS = {
    "gpt2": {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 12,
             "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257,
             "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0},
    "llama": {"model_type": "llama", "architectures": ["LlamaForCausalLM"],
              "num_hidden_layers": 12, "hidden_size": 768, "intermediate_size": 2048,
              "num_attention_heads": 12, "num_key_value_heads": 4, "vocab_size": 32000,
              "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "tie_word_embeddings": True},
}
# Of the same families with --quick.
SMALL = {"gpt2": {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 211},
         "llama": {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96,
                   "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 211}}
# By the names of rows: options of both sides.
MODES = {
    "full": {"recompute": 0, "rank": 0, "dropout": 0},
    "recompute": {"recompute": 1, "rank": 0, "dropout": 0},
    "lora": {"recompute": 0, "rank": 16, "dropout": 0},
    "lora-dropout": {"recompute": 0, "rank": 16, "dropout": .05},
}
NEEDED = "import torch, transformers, peft"


def arguments():
    parser = bench_command.parser(
        "model", __doc__, needs="4 GB of memory; for the comparison, a Python with torch, "
        "transformers and peft (--python).",
        takes="two minutes a row on an idle processor.",
        bounds=f"every row has at least {FASTER_WANTED} of PyTorch's tokens a second, at most its "
        "memory and its losses, or there is no PyTorch to compare with")
    parser.add_argument("--python", default=os.environ.get("SHOAL_TORCH_PYTHON", sys.executable),
                        help="the interpreter of PyTorch's side (default: SHOAL_TORCH_PYTHON of "
                             "the environment, or the one that runs this)")
    parser.add_argument("--only", default="", metavar="TEXT",
                        help="rows whose \"family mode\" has this text")
    parser.add_argument("--tokens", type=int, default=512, help="of the row (default: 512)")
    parser.add_argument("--rounds", type=int, default=5, help="turns that count (default: 5)")
    parser.add_argument("--steps", type=int, default=2, help="of a turn (default: 2)")
    parser.add_argument("--quick", action="store_true",
                        help="tiny models, whose speed and memory say nothing: for tests")
    parser.add_argument("--build", default=str(SOURCE / "build/release"), help="build folder")
    args = parser.parse_args()
    if min(args.tokens, args.rounds, args.steps) < 1 or args.tokens > 1024:
        parser.error("--rounds and --steps are at least 1, --tokens 1 to 1024")
    if shutil.which(args.python) is None:
        parser.error(f"--python: there is no program {args.python}")
    if not any(args.only in f"{family} {mode}" for family in CONFIGS for mode in MODES):
        parser.error(f"--only: no row has '{args.only}' in its family and mode")
    return args


class Side:
    """A process that makes steps when it is told to."""

    def __init__(self, command, options):
        pairs = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        self.process = subprocess.Popen(
            [*command, *pairs], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
                 "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
                 "TRANSFORMERS_VERBOSITY": "error", "PYTHONWARNINGS": "ignore"})
        self.losses, self.seconds, self.peak = [], [], 0
        self.read()

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("model: a side ended; see its message above")
        return json.loads(line)

    def turn(self, steps, counts):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        answer = self.read()
        self.losses += answer["losses"]
        self.peak = answer["peakBytes"]
        if counts:
            self.seconds.append(answer["cpuSeconds"] / steps)


def sides(args, model, mode, compare):
    options = {"model": model, "tokens": args.tokens, **MODES[mode]}
    ours = [str(Path(args.build, "bench/model_steps"))]
    theirs = [args.python, "-B", str(SOURCE / "tests/bench/torch_steps.py")]
    return [Side(command, options) for command in ([ours, theirs] if compare else [ours])]


def apart(ours, theirs, mode):
    """The largest difference of two sides' losses, relative. Adapters are drawn by each side for
    itself, but do nothing before the first step."""
    pairs = list(zip(ours.losses, theirs.losses))
    return max(abs(a - b) / b for a, b in (pairs[:1] if MODES[mode]["rank"] else pairs))


def measure(args, model, family, mode, compare):
    both = sides(args, model, mode, compare)
    try:
        for round_ in range(args.rounds + 1):  # the first one warms up
            for side in both:
                side.turn(args.steps, counts=round_ > 0)
    finally:
        for side in both:
            side.close()
    row = {"family": family, "mode": mode, "tokens": args.tokens, "quick": args.quick,
           "tokensPerSecond": args.tokens / statistics.median(both[0].seconds),
           "peakBytes": both[0].peak, "pytorchTokensPerSecond": None, "pytorchPeakBytes": None,
           "faster": None, "lossApart": None}
    if compare:
        ours, theirs = both
        row["pytorchTokensPerSecond"] = args.tokens / statistics.median(theirs.seconds)
        row["pytorchPeakBytes"] = theirs.peak
        row["faster"] = statistics.median(b / a for a, b in zip(ours.seconds, theirs.seconds))
        row["lossApart"] = apart(ours, theirs, mode)
    return row


COLUMNS = (
    ("family", lambda r: r["family"]), ("mode", lambda r: r["mode"]),
    ("tokens/s", lambda r: f"{r['tokensPerSecond']:.1f}"),
    ("PyTorch", lambda r: f"{r['pytorchTokensPerSecond']:.1f}"),
    ("ratio", lambda r: f"{r['faster']:.3f}"),
    ("memory MiB", lambda r: f"{r['peakBytes'] / 2**20:.0f}"),
    ("PyTorch", lambda r: f"{r['pytorchPeakBytes'] / 2**20:.0f}"),
    ("ratio", lambda r: f"{r['peakBytes'] / r['pytorchPeakBytes']:.3f}"),
    ("losses apart", lambda r: f"{r['lossApart']:.1e}"),
    ("", lambda r: ", ".join(misses(r)) or ("good" if r["faster"] else "not compared")),
)


def misses(row):
    if row["faster"] is None:
        return []
    found = []
    if row["faster"] < FASTER_WANTED and not row["quick"]:
        found.append(f"below {FASTER_WANTED}")
    if row["peakBytes"] > row["pytorchPeakBytes"] and not row["quick"]:
        found.append("hungrier")
    if row["lossApart"] > LOSS_WITHIN:
        found.append("another loss")
    return found


def has_torch(python):
    try:
        return subprocess.run([python, "-c", NEEDED], capture_output=True,
                              check=False).returncode == 0
    except OSError:
        return False


def new_model(args, family, folder):
    """A model directory with random weights."""
    config = Path(folder, f"{family}.json")
    small = SMALL[family] if args.quick else {}
    config.write_text(json.dumps({**CONFIGS[family], **small}), encoding="utf-8")
    model = Path(folder, family)
    subprocess.run([str(Path(args.build, "bin/shoal-run")), "init-model", "--config", str(config),
                    "--out", str(model)], check=True, stdout=subprocess.DEVNULL)
    return model


def main():
    args = arguments()
    compare = has_torch(args.python)
    if not compare:
        print(f"model: {args.python} has no torch, transformers and peft: our side alone; see "
              "--python", file=sys.stderr)
    if not args.json:
        print("| " + " | ".join(name for name, _ in COLUMNS) + " |")
        print("|" + "---|" * len(COLUMNS), flush=True)
    rows = []
    with tempfile.TemporaryDirectory(prefix="shoal-model-") as folder:
        for family in CONFIGS:
            modes = [mode for mode in MODES if args.only in f"{family} {mode}"]
            model = new_model(args, family, folder) if modes else None
            for mode in modes:
                rows.append(measure(args, model, family, mode, compare))
                if not args.json:
                    cells = bench_rows.cells(COLUMNS, rows[-1])
                    print("| " + " | ".join(cells) + " |", flush=True)
    if args.json:
        bench_rows.print_json(rows)
    return bench_command.exit_code(not any(map(misses, rows)))


if __name__ == "__main__":
    sys.exit(main())
