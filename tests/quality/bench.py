#!/usr/bin/env python3
"""What is lost at k bits? Trains a small model with every codec pair of rows.py through the
pipeline of shoal, prints the losses beside fp32 and judges them; see docs/quality/README.md.

Finished rows are kept in build/quality/ and not trained again.
"""

import concurrent.futures
import fnmatch
import hashlib
import json
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import report
from checks import Results, checks, wire_bytes
from kept import kept_rows, spec_of
from rows import FOUR, PIPELINES, REPLICA_SETUPS, ROWS
from shaped_weights import shape_folder

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/bench"))
import bench_command  # noqa: E402

# Part of the keys, as rows.VERSIONS: raise it when base training comes out differently.
BASE_VERSION = 1
BASE = {"firstSteps": 2000, "secondSteps": 800, "firstDecay": "none", "secondDecay": "linear"}
QUICK_BASE = {"firstSteps": 100, "secondSteps": 50, "firstDecay": "none", "secondDecay": "none"}
# A wider model is trained for half an hour to hours: one phase, and it goes on where it was.
WIDE_BASE = {"firstSteps": 1000, "firstRate": 6e-4, "firstDecay": "linear", "secondSteps": 0}
WIDE_SAVE = {"saveEvery": 100, "threads": 2}
QUICK_EPOCHS = 3
HIDDEN = 128
# What of a row's spec says which model it is.
MODEL = ("layers", "hidden", "heads", "merges")
# Tensors come and go all the time: giving their pages back to the system costs a seventh.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "33554432", "MALLOC_TRIM_THRESHOLD_": "1073741824"}


def key_of(version, value):
    text = json.dumps([version, value], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def selected(args):
    """The rows that the arguments name, each with one of its seeds."""
    rows = ROWS
    if args.quick:
        wanted = {"fp32", "aqsgd fw2 bw4", "direct fw2 bw4", "qadam:bits=4"}
        rows = [row for row in ROWS if row.setup in (FOUR, PIPELINES) and row.name in wanted]
    for row in rows:
        name = f"{row.setup}: {row.name}"
        if args.replica and row.setup not in REPLICA_SETUPS:
            continue
        if args.only and not any(fnmatch.fnmatch(name, pattern) for pattern in args.only):
            continue
        for seed in row.seeds[:1] if args.quick else row.seeds:
            if not args.seed or seed in args.seed:
                yield row, seed


def arguments():
    parser = bench_command.parser(
        "quality", __doc__.strip(),
        needs="tinyshakespeare, wikitext-2 and gpt2-bpe below SHOAL_SHARED_DATA; zstd.",
        takes="about 90 s a row and seed (GPT-2 of 34 M: 15 minutes, its base an hour), "
              "--jobs at a time; --quick two minutes.",
        bounds="all rows were trained and all checks held, or --quick judged none")
    parser.add_argument("--only", metavar="PATTERN", action="append",
                        help="rows whose 'setup: name' matches, * as in file names; repeatable")
    parser.add_argument("--replica", action="store_true",
                        help="only how pipelines agree: methods of [replica] beside fp32")
    parser.add_argument("--seed", type=int, action="append", help="only this seed; repeatable")
    parser.add_argument("--jobs", type=int, default=2, help="trainings at a time (default: 2)")
    parser.add_argument("--fresh", action="store_true", help="train again what is finished")
    parser.add_argument("--report-only", action="store_true", help="train nothing")
    parser.add_argument("--docs", action="store_true",
                        help="rewrite docs/quality/ from what is finished (of --only, if given) "
                             "and what it shows already; rows of older rules are named and left "
                             "out")
    parser.add_argument("--quick", action="store_true",
                        help="a tiny base model and 3 epochs of a few rows, in 2 minutes: shows "
                             "that all runs; its figures mean nothing and are not judged")
    parser.add_argument("--list", action="store_true", help="print the rows and stop")
    parser.add_argument("--binary", default=str(SOURCE / "build/release/bench/quality_run"),
                        help="the training program")
    parser.add_argument("--device", default="cpu",
                        help="where stages compute, as in run.toml (default: cpu); rows that are "
                             "compared belong on one device")
    parser.add_argument("--cache", default=str(SOURCE / "build/quality"), help="kept rows")
    return parser.parse_args()


def all_rows():
    return ((row, seed) for row in ROWS for seed in row.seeds)


class Data:
    """Paths of the texts; WikiText-2 is unpacked on first use."""

    def __init__(self, cache):
        folder = Path(os.environ.get("SHOAL_SHARED_DATA") or SOURCE.parent / "shared/data")
        self.shakespeare = str(folder / "tinyshakespeare/input.txt")
        packed = {name: folder / f"wikitext-2/{name}.txt.zst" for name in ("train", "valid")}
        for path in [Path(self.shakespeare), *packed.values()]:
            if not path.exists():
                sys.exit(f"quality: {path} is not there; set SHOAL_SHARED_DATA to a folder with "
                         "tinyshakespeare/input.txt and wikitext-2/{train,valid}.txt.zst")
        self.wikitext = {}
        for name, path in packed.items():
            target = cache / f"wikitext-{name}.txt"
            if not target.exists():
                subprocess.run(["zstd", "-dqf", str(path), "-o", f"{target}.part"], check=True)
                os.replace(f"{target}.part", target)
            self.wikitext[name] = str(target)
        self.packed_bpe = folder / "gpt2-bpe"
        self.cache = cache

    def tokenizer(self, merges):
        """A folder with the vocabulary that the first merges of GPT-2's BPE make."""
        target = self.cache / f"bpe-{merges}"
        try:
            lines = (self.packed_bpe / "vocab.bpe").read_text("utf-8").splitlines()
            ids = json.loads((self.packed_bpe / "encoder.json").read_text("utf-8"))
        except OSError as error:
            raise RuntimeError(f"{error}; GPT-2's BPE is needed below SHOAL_SHARED_DATA") from error
        kept = {name: number for name, number in ids.items() if number < 256 + merges}
        target.mkdir(parents=True, exist_ok=True)
        for name, text in (("vocab.json", json.dumps(kept)),
                           ("merges.txt", "\n".join(lines[:1 + merges]) + "\n")):
            # Trainings read it while others ask for it.
            part = target / f"{name}.{os.getpid()}.part"
            part.write_text(text, "utf-8")
            os.replace(part, target / name)
        return str(target)


class Bench:
    def __init__(self, args):
        self.args = args
        self.cache = Path(args.cache)
        for folder in ("rows", "specs"):
            (self.cache / folder).mkdir(parents=True, exist_ok=True)
        self.data = None if args.report_only else Data(self.cache)
        self.lock = threading.Lock()
        self.base_locks = {}
        self.failures = []

    def base_spec(self, spec):
        """What names the base model of a row's spec, and how it is trained."""
        wide = WIDE_BASE if "hidden" in spec else BASE
        return dict(QUICK_BASE if self.args.quick else wide,
                    **{name: spec[name] for name in (*MODEL, "shape") if name in spec})

    def base_key(self, spec):
        return key_of(BASE_VERSION, self.base_spec(spec))

    def texts(self, spec):
        """Paths of what a training reads."""
        paths = {"shakespeare": self.data.shakespeare}
        if "merges" in spec:
            with self.lock:
                paths["tokenizer"] = self.data.tokenizer(spec["merges"])
        return paths

    def row_spec(self, row, seed):
        spec = row.spec(seed)
        if self.args.quick:
            spec["epochs"] = QUICK_EPOCHS
        return spec

    def row_file(self, row, seed):
        spec = self.row_spec(row, seed)
        key = key_of(row.versions(), [spec, self.base_key(spec)])
        return self.cache / "rows" / f"{key}.json"

    def execute(self, spec, target, label):
        """Runs one training; its figures go to `target` whole or not at all."""
        name = target.stem if target.parent.name == "rows" else target.parent.name
        path = self.cache / "specs" / f"{name}.json"
        path.write_text(json.dumps(spec, indent=1))
        with open(self.cache / "specs" / f"{name}.log", "w", encoding="utf-8") as log:
            done = subprocess.run([self.args.binary, str(path), self.args.device],
                                  stdout=subprocess.PIPE, stderr=log,
                                  env={**os.environ, **KEEP_MEMORY}, check=False)
        if done.returncode != 0:
            lines = (self.cache / "specs" / f"{name}.log").read_text().strip().splitlines()
            raise RuntimeError(f"{label}: {lines[-1] if lines else 'no message'}")
        figures = json.loads(done.stdout)
        part = target.with_suffix(".part")
        part.write_text(json.dumps({"label": label, "figures": figures}, indent=1))
        os.replace(part, target)
        return figures

    def base(self, row_spec):
        """The folder of a row's base model, trained if it is not there. One of a shape starts
        behind the first phase of the plain one."""
        key = self.base_key(row_spec)
        shape = row_spec.get("shape", "")
        folder = self.cache / f"base-{key}"
        done = folder / "done.json"
        with self.lock:
            lock = self.base_locks.setdefault(key, threading.Lock())
        with lock:
            if done.exists():
                return folder
            folder.mkdir(parents=True, exist_ok=True)
            hidden = row_spec.get("hidden", HIDDEN)
            name = f"base model of {row_spec['layers']} blocks, hidden {hidden}"
            if shape:
                name += f", with {shape}"
                plain = {key: value for key, value in row_spec.items() if key != "shape"}
                shape_folder(self.base(plain) / "wikitext", folder / "wikitext", hidden, shape)
                (folder / "wikitext/complete").touch()
            self.say(f"training the {name}")
            spec = dict(self.base_spec(row_spec), action="base", folder=str(folder),
                        wikitext=self.data.wikitext["train"],
                        wikitextValidation=self.data.wikitext["valid"], **self.texts(row_spec),
                        **(WIDE_SAVE if "hidden" in row_spec else {}))
            figures = self.execute(spec, done, name)
            self.say(f"{name}: {figures['wikitextLoss']:.4f} nats per token on WikiText-2, "
                     f"{figures['shakespeareLoss']:.4f} held out")
        return folder

    def train(self, row, seed):
        spec = self.row_spec(row, seed)
        target = self.row_file(row, seed)
        label = f"{row.setup}: {row.name}, seed {seed}"
        try:
            spec["weights"] = str(self.base(spec) / spec["weights"])
            figures = self.execute(dict(spec, **self.texts(spec)), target, label)
        except RuntimeError as error:
            with self.lock:
                self.failures.append(str(error))
            self.say(f"FAILED {error}")
            return
        self.say(f"{label}: train {figures['trainLoss'][-1]:.4f}, held out "
                 f"{figures['heldOutLoss'][-1]:.4f}")

    def say(self, words):
        with self.lock:
            print(words, file=sys.stderr, flush=True)

    def run(self):
        todo = [(row, seed) for row, seed in selected(self.args)
                if self.args.fresh or not self.row_file(row, seed).exists()]
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            list(pool.map(lambda one: self.train(*one), todo))

    def results(self):
        results = Results()
        for row, seed in selected(self.args) if self.args.only else all_rows():
            path = self.row_file(row, seed)
            if path.exists():
                results.add(row, seed, json.loads(path.read_text())["figures"])
        return results


def machine():
    model = ""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return {"cpu": model or platform.processor(), "cores": os.cpu_count(),
            "system": platform.system()}


def as_json(results):
    rows = []
    for row in ROWS:
        for seed, run in sorted(results.seeds(row.setup, row.name).items()):
            rows.append({**spec_of(row), "seed": seed, "versions": row.versions(),
                         "wireBytes": wire_bytes(run), "machine": machine(), **run})
    return {"schemaVersion": 2, "bench": "quality", "machine": machine(), "rows": rows}


def write_docs(folder, results):
    """What is finished here, and of the rows shown before those that would come out the same."""
    path = folder / "results.json"
    shown, refused = kept_rows(path, results)
    for line in refused:
        print(f"left out of the docs: {line}", file=sys.stderr)
    report.write_docs(folder, shown, checks(shown), machine())
    path.write_text(json.dumps(as_json(shown)) + "\n")


def main():
    args = arguments()
    if args.list:
        for row in ROWS:
            print(f"{row.setup}: {row.name}  [{row.forward} | {row.backward}]  seeds {row.seeds}")
        return 0
    if not any(selected(args)):
        print("quality: no row matches --only, --seed and --quick; --list prints the rows",
              file=sys.stderr)
        return bench_command.USAGE
    bench = Bench(args)
    if not args.report_only:
        bench.run()
    results = bench.results()
    found = [] if args.quick else checks(results)
    if args.json:
        print(json.dumps(as_json(results), indent=1))
    else:
        print(report.table(results))
    if found and not args.json:
        print(report.check_table(found))
    if args.docs:
        write_docs(SOURCE / "docs/quality", results)
    for failure in bench.failures:
        print(f"failed: {failure}", file=sys.stderr)
    missed = [c for c in found if c.ok is False or (c.ok is None and not args.only)]
    return bench_command.exit_code(not bench.failures and not missed)


if __name__ == "__main__":
    sys.exit(main())
