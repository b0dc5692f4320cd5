"""Models, adapters and data that are damaged, incomplete or do not belong together: every command
that reads them says in one line what is wrong and what to do next, and leaves all as it was."""

import json
import os
import re
import shutil
import struct
import tempfile
from pathlib import Path

import harness
from families_test import LLAMA, TEMPLATE, TOKENIZERS, make_model
from harness import BAD_CONFIG, FAILURE, run, wait_for
from swarm import Swarm

WEIGHTS = "model.safetensors"
QUERY = "model.layers.0.self_attn.q_proj.weight"
INDEX = "model.safetensors.index.json"
LFS_POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 291584\n"


def refused(name, *arguments, **options):
    return run(name, *arguments, check=False, timeout=40, errors="replace", **options)


def read_tensors(path):
    """Tensors by name: [dtype, shape, bytes]."""
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    data = raw[8 + size:]
    return {name: [entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])]]
            for name, entry in header.items()}


def write_tensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def with_nan(tensor):
    dtype, shape, values = tensor
    return [dtype, shape, values[:-4] + struct.pack("<f", float("nan"))]


class BadFilesTest(harness.SwarmTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.common = Path(tempfile.mkdtemp(prefix="shoal-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.common)
        cls.good = make_model(cls.common / "good", LLAMA, "qwen", TEMPLATE)
        cls.data = cls.common / "data.shoal"
        cls.chats = cls.common / "chats.jsonl"
        turns = [{"role": "user", "content": "who?"}, {"role": "assistant", "content": "the king"}]
        cls.chats.write_text((json.dumps({"messages": turns}) + "\n") * 40)
        run("shoal", "prepare", "--tokenizer", cls.good, "--text", cls.chats, "--row", 32, "--out",
            cls.data)

    def prepare(self, text, model=None, out=None, check=False):
        return run("shoal", "prepare", "--tokenizer", model or self.good, "--text", text, "--row",
                   32, "--out", out or self.folder / "new.shoal", check=check, timeout=40)

    def copy(self, name):
        model = self.folder / name
        shutil.copytree(self.good, model)
        return model

    def text_file(self, name, *records):
        path = self.folder / name
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return path

    def assert_all_refuse(self, model, *patterns, names=("init", "try")):
        """The commands on this model; none of them makes anything."""
        commands = {
            "init": ("swarm", "init", "--stages", 2, "--dir", self.folder / "run", "--model", model,
                     "--data", self.data),
            "try": ("try", "--model", model, "--tokens", 2, "hello"),
            "chat": ("chat", "--model", model, "--message", "hello"),
            "eval": ("eval", "--model", model, "--data", self.data),
            "convert": ("convert", "--model", model, "--out", self.folder / "out"),
        }
        for name in names:
            with self.subTest(model=model.name, command=name):
                done = refused("shoal", *commands[name])
                self.assert_refused(done, BAD_CONFIG, *patterns)
                self.assertEqual(done.stdout, "")
        self.assertFalse((self.folder / "run").exists())
        self.assertFalse((self.folder / "out").exists())

    def test_config_json(self):
        for name, old, new, *patterns in (
                ("repeated", "{", '{"hidden_size": 64, ', "'hidden_size' twice", "remove one"),
                ("unknown", "{", '{"use_magic": true, ', "use_magic", "not known", "remove it"),
                ("deeper", '"num_hidden_layers": 3', '"num_hidden_layers": 4', "'layers.3.",
                 "is missing", "fetch")):
            model = self.copy(name)
            text = (model / "config.json").read_text()
            self.assertIn(old, text)
            (model / "config.json").write_text(text.replace(old, new, 1))
            self.assert_all_refuse(model, *patterns)
        model = self.copy("cut")
        os.truncate(model / "config.json", 40)
        self.assert_all_refuse(model, "not a JSON object", "the model's own config.json")
        (model / "config.json").unlink()
        every = ("init", "try", "chat", "eval", "convert")
        self.assert_all_refuse(model, "has no config.json", "Hugging Face", names=every)
        self.assert_all_refuse(self.folder / "none", "is no folder", "Hugging Face",
                               names=("init", "chat"))

    def test_weights_that_are_not_the_models(self):
        good = read_tensors(self.good / WEIGHTS)
        for name, spoil, *patterns in (
                ("lacking", lambda tensors: tensors.pop(QUERY), "q_proj.weight' is missing",
                 "fetch"),
                ("more", lambda tensors: tensors.update({"model.layers.9.x.weight": good[QUERY]}),
                 "'layers.9.x.weight' belongs to no part", "fetch"),
                ("shape", lambda tensors: tensors[QUERY].__setitem__(1, [16, 64]),
                 r"q_proj.weight' has shape \[16, 64\].*asks for \[32, 32\]", "fetch")):
            model = self.copy(name)
            tensors = {key: list(value) for key, value in good.items()}
            spoil(tensors)
            write_tensors(model / WEIGHTS, tensors)
            self.assert_all_refuse(model, *patterns)
        model = self.copy("short")
        os.truncate(model / WEIGHTS, 5000)
        self.assert_all_refuse(model, WEIGHTS, "damaged", "fetch it again",
                               names=("init", "try", "eval", "convert"))
        (model / WEIGHTS).write_text(LFS_POINTER)
        self.assert_all_refuse(model, "is a pointer of Git LFS", "git lfs pull")

    def test_shards(self):
        model = self.copy("shards")
        tensors = read_tensors(model / WEIGHTS)
        (model / WEIGHTS).unlink()
        names = sorted(tensors)
        files = {name: f"model-0000{1 + i % 2}-of-00002.safetensors"
                 for i, name in enumerate(names)}
        for file in set(files.values()):
            write_tensors(model / file, {name: tensors[name] for name in names
                                         if files[name] == file})
        index = json.dumps({"metadata": {}, "weight_map": files})
        (model / INDEX).write_text(index)
        run("shoal", "eval", "--model", model, "--data", self.data)
        (model / INDEX).write_text(index.replace('"weight_map": {', '"weight_map": {' +
                                                 f'"{names[0]}": "{files[names[1]]}", '))
        self.assert_all_refuse(model, INDEX, f"'{names[0]}' twice", "remove one", names=("init",))
        (model / INDEX).write_text(index)
        (model / files[names[0]]).unlink()
        self.assert_all_refuse(model, INDEX, f"names '{files[names[0]]}'", "not there",
                               "fetch that file", names=("init", "convert"))

    def test_weights_that_are_not_finite(self):
        model = self.copy("nan")
        tensors = read_tensors(model / WEIGHTS)
        tensors[QUERY] = with_nan(tensors[QUERY])
        write_tensors(model / WEIGHTS, tensors)
        patterns = ("nan: tensor 'layers.0.self_attn.q_proj.weight'", "not finite, at place 1023",
                    "fetch it again")
        self.assert_all_refuse(model, *patterns, names=("try", "chat", "eval", "convert"))
        # Whoever serves it reads all of it, before anybody can join.
        run("shoal", "swarm", "init", "--stages", 2, "--dir", self.folder / "run", "--model", model,
            "--data", self.data)
        done = refused("shoal-scheduler", "--config", self.folder / "run/run.toml")
        self.assert_refused(done, BAD_CONFIG, *patterns)
        self.assertEqual(list((self.folder / "run").rglob("invite")), [])

    def test_tokenizers(self):
        model = self.copy("other")
        shutil.copy(TOKENIZERS / "bert/tokenizer.json", model)
        self.assert_all_refuse(model, "another tokenizer", "prepare", names=("init", "eval"))
        self.assert_all_refuse(model, "has 900 tokens, the model only 704", "copy",
                               names=("try", "chat"))
        (model / "tokenizer.json").write_text(LFS_POINTER)
        self.assert_all_refuse(model, r"tokenizer\.json: a pointer of Git LFS", "git lfs pull",
                               names=("try",))
        (model / "tokenizer.json").write_text("{")
        self.assert_all_refuse(model, "tokenizer.json", "damaged", "copy it again",
                               names=("init", "try", "chat", "eval"))
        done = self.prepare(self.chats, model)
        self.assert_refused(done, BAD_CONFIG, "tokenizer.json", "damaged", "copy it again")
        (model / "tokenizer.json").unlink()
        self.assert_all_refuse(model, "no tokenizer in", "copy", names=("try", "chat"))
        self.assertFalse((self.folder / "new.shoal").exists())

    def test_chat_templates(self):
        for name, template, *patterns in (
                ("raises", "{{ raise_exception('only users') }}",
                 "template refuses the conversation: only users"),
                ("syntax", "{% for %}", "line 1", "copy the template again"),
                ("endless", "{% for a in range(9 ** 9) %}a{% endfor %}", "more than 100000")):
            model = self.copy(name)
            (model / "chat_template.jinja").write_text(template)
            with self.subTest(name):
                code = FAILURE if name == "endless" else BAD_CONFIG  # beyond a limit
                self.assert_refused(self.prepare(self.chats, model), code,
                                    r"chat_template\.jinja", *patterns)
                done = refused("shoal", "chat", "--model", model, "--message", "hello")
                self.assert_refused(done, BAD_CONFIG, r"chat_template\.jinja", *patterns)
        (model / "chat_template.jinja").unlink()
        self.assert_refused(self.prepare(self.chats, model), BAD_CONFIG, "no chat template", "copy")
        self.assert_all_refuse(model, "no chat template", "shoal try", names=("chat",))
        self.assertFalse((self.folder / "new.shoal").exists())

    def test_conversations(self):
        user = {"role": "user", "content": "who?"}
        good = json.loads(self.chats.read_text().splitlines()[0])
        long = {"prompt": "who? " * 40, "completion": "me"}
        for name, records, *patterns in (
                ("alone", [good, {"messages": [user]}], "line 2", "no turn of the assistant",
                 "mend or remove"),
                ("empty", [good, {"messages": []}], "line 2", "no turn of the assistant"),
                ("role", [good, {"messages": [{"content": "a"}]}], "line 2", "has no \"role\""),
                ("lossless", [long] * 3, "none of the 3 training samples", "longer --row")):
            with self.subTest(name):
                done = self.prepare(self.text_file(name + ".jsonl", *records))
                self.assert_refused(done, BAD_CONFIG, *patterns)
                self.assertFalse((self.folder / "new.shoal").exists())

    def test_prepare_replaces_prepared_data_only(self):
        data = self.folder / "data.shoal"
        shutil.copy(self.data, data)
        before = data.read_bytes()
        self.prepare(self.text_file("bad.jsonl", {"messages": []}), out=data)
        self.assertEqual(data.read_bytes(), before)
        one = self.text_file("one.jsonl", {"prompt": "who?", "completion": "me"})
        self.prepare(one, out=data, check=True)
        self.assertNotEqual(data.read_bytes(), before)
        weights = self.copy("model") / WEIGHTS
        before = weights.read_bytes()
        for out in (weights, self.folder, Path("/dev/null")):
            done = self.prepare(self.chats, out=out)
            with self.subTest(out):
                self.assertIn(done.returncode, (BAD_CONFIG, FAILURE))
                self.assert_refused(done, done.returncode, str(out),
                                    "is no prepared data|is a folder", "--out")
        self.assertEqual(weights.read_bytes(), before)
        self.assertTrue(Path("/dev/null").is_char_device())

    def adapter(self, name, rank=4, layers=3, config=None, tensors=None):
        """As PEFT saves it; `config`: other values, or the whole text."""
        folder = self.folder / name
        folder.mkdir()
        keys = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none",
                "target_modules": ["q_proj"]}
        text = config if isinstance(config, str) else json.dumps({**keys, **(config or {})})
        (folder / "adapter_config.json").write_text(text)
        made = {}
        for layer in range(layers):
            for matrix, shape in (("A", [rank, 32]), ("B", [32, rank])):
                made[f"base_model.model.model.layers.{layer}.self_attn.q_proj.lora_{matrix}.weight"
                     ] = ["F32", shape, struct.pack("<f", 0.01) * (32 * rank)]
        if tensors:
            tensors(made)
        write_tensors(folder / "adapter_model.safetensors", made)
        return folder

    def assert_adapter_refused(self, adapter, *patterns):
        with self.subTest(adapter=adapter.name):
            done = refused("shoal", "eval", "--model", self.good, "--adapter", adapter, "--data",
                           self.data)
            self.assert_refused(done, BAD_CONFIG, *patterns)
            self.assertEqual(done.stdout, "")

    def test_adapters(self):
        run("shoal", "eval", "--model", self.good, "--data", self.data, "--adapter",
            self.adapter("works"))

        def spoil(made):
            first = next(iter(made))
            made[first] = with_nan(made[first])
        another = "adapter of another base"
        for name, options, *patterns in (
                ("rank", {"rank": 8}, r"has shape \[8, 32\].*ask for \[4, 32\]", another),
                ("deeper", {"layers": 4}, "no place for tensor .*layers.3", another),
                ("shallower", {"layers": 2}, "has no tensor .*layers.2", another),
                ("modules", {"config": {"target_modules": ["c_attn"]}}, "no module 'c_attn'",
                 another),
                ("unknown", {"config": {"use_magic": 1}}, "'use_magic' is not known", "remove it"),
                ("kind", {"config": {"peft_type": "IA3"}}, "LORA", "not supported"),
                ("twice", {"config": '{"peft_type": "LORA", "r": 8, "r": 4, "target_modules": '
                                     '["q_proj"]}'}, "'r' twice", "remove one"),
                ("cut", {"config": '{"peft_type'}, "not a JSON object", "take the adapter's own"),
                ("nan", {"tensors": spoil}, "not finite, at place 127", "fetch it again")):
            self.assert_adapter_refused(self.adapter(name, **options), *patterns)
        short = self.adapter("short")
        os.truncate(short / "adapter_model.safetensors", 1000)
        self.assert_adapter_refused(short, "damaged", "fetch it again")
        weights = short / "adapter_model.safetensors"
        weights.rename(short / "adapter_model.bin")
        self.assert_adapter_refused(short, "pickle", "safe_serialization=True")
        (short / "adapter_model.bin").unlink()
        self.assert_adapter_refused(short, "no adapter_model.safetensors", "as PEFT saves it")
        self.assert_adapter_refused(self.good, r"adapter_config\.json", "as PEFT saves it")


class MemoryTest(harness.SwarmTest):

    def test_a_run_that_fits_nobody_says_so_before_anything_is_fetched(self):
        """A micro-batch of 5 million tokens."""
        memory = int(re.search(r"MemTotal: +(\d+)", Path("/proc/meminfo").read_text())[1]) * 1024
        if memory > 100e9:
            self.skipTest("this machine has the memory")
        text = self.folder / "text.txt"
        text.write_text("a b c d e f g h\n" * 600_000)
        data = self.folder / "data.shoal"
        run("shoal", "prepare", "--tokenizer", harness.model(), "--text", text, "--row", 128,
            "--out", data)
        with Swarm(self.folder / "s", stages=2, data=data, micro_batches=1, rows=40_000) as swarm:
            swarm.start()
            why = "too little memory: stage 1 needs .* for one micro-batch; 0 of 1 peers"
            wait_for(lambda: re.search(why, swarm.run()["reason"]), 30, "the run says why")
            reason = swarm.run()["reason"]
            self.assertRegex(reason, r"p0 \(\w+\) has .*fewer micro_batch_rows, data with a")
            wait_for(lambda: re.search(why, swarm.peer_status("p0")["swarm"]["reason"]), 30,
                     "the peer says so, too")
            self.assertEqual(list((swarm.peer_folder("p0") / "content/blobs").iterdir()), [])
            size = re.search(r"--memory (\S+) says", reason)[1]
            done = run("shoal-scheduler", "--config", self.folder / "s/run.toml", "--print-size",
                       "--memory", size)
            self.assertIn("no cut into stages fits", done.stdout)
            swarm.stop()


if __name__ == "__main__":
    harness.main()
