"""Adapters in real swarms: a Llama whose base stays as it is, over stages and pipelines."""

import json
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path

import harness
from families_test import LLAMA, TEMPLATE, make_model
from harness import run, run_json
from swarm import Swarm, describe, train

TOLERANCE = 1e-4  # relative; sums of fp32 run in another order with other stages


def tensors_of(path):
    """Names, formats and shapes of a safetensors file."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"]) for name, entry in header.items()}


class AdapterTest(harness.SwarmTest):

    def chats(self, model, answer):
        path = self.folder / f"{len(answer)}.jsonl"
        with open(path, "w", encoding="utf-8") as file:
            for i in range(200):
                who = ["king", "lord", "man", "queen"][i % 4]
                turns = [{"role": "user", "content": f"who? {who}"},
                         {"role": "assistant", "content": answer.replace("WHO", who)}]
                file.write(json.dumps({"messages": turns}) + "\n")
        out = self.folder / f"{len(answer)}.shoal"
        run("shoal", "prepare", "--tokenizer", model, "--text", path, "--out", out, "--row", 40)
        return out

    def base(self):
        """A model that has learned some conversations, all of it."""
        fresh = make_model(self.folder, LLAMA, "qwen", TEMPLATE)
        train(self.folder / "base-run", stages=1, model=fresh, data=self.chats(fresh, "the WHO"),
              steps=60, micro_batches=1, rows=16, optimizer={"learning_rate": 6e-3},
              export=self.folder / "base")
        return self.folder / "base"

    def test_an_adapter_learns_and_leaves_in_every_form(self):
        model = self.base()
        data = self.chats(model, "the WHO the WHO")
        same = {"model": model, "data": data, "steps": 60, "micro_batches": 4, "rows": 4,
                "checkpoint_every": 30, "optimizer": {"learning_rate": 2e-2},
                "adapter": {"kind": "lora", "rank": 8, "alpha": 16}}
        single, _ = train(self.folder / "single", stages=1, **same)
        out = self.folder / "out"
        losses, status = train(self.folder / "deep", stages=3, pipelines=2, forward="aqsgd:bits=4",
                               backward="direct:bits=8", export=out / "merged", **same)
        self.assertLess(sum(losses[-5:]), 0.75 * sum(losses[:5]), describe(losses))
        self.assertEqual(status["consistency"]["mMismatches"], 0)
        exact, _ = train(self.folder / "exact", stages=2, cuts=[1], recompute=True,
                         export={"adapter": out / "adapter", "directory": out / "full"}, **same)
        for step, (loss, wanted) in enumerate(zip(exact, single)):
            self.assertLessEqual(abs(loss - wanted), TOLERANCE * abs(wanted), f"step {step}")
        # Only adapters were trained; the model lost nothing and nobody saved it again.
        names = tensors_of(out / "adapter/adapter_model.safetensors")
        self.assertEqual(len(names), 2 * 7 * LLAMA["num_hidden_layers"])
        self.assertIn("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", names)
        # The adapter beside its base, and the model with its sums, say the same.
        judged = [run_json("shoal", "eval", "--data", data, "--json", "--model", *where)["meanLoss"]
                  for where in ((model, "--adapter", out / "adapter"), (out / "full",), (model,))]
        self.assertAlmostEqual(judged[0], judged[1], delta=1e-4 * judged[1])
        self.assertLess(judged[0], 0.75 * judged[2])
        self.compare_with_peft(model, out / "adapter")
        done = run("shoal", "eval", "--data", data, "--model", out / "merged", "--json")
        self.assertLess(json.loads(done.stdout)["meanLoss"], 0.75 * judged[2])

    def compare_with_peft(self, model, adapter):
        logits = self.folder / "logits.json"
        logits.write_text(run("shoal-run", "logits", "--model", model, "--adapter", adapter,
                              "--text", "the king who", "--json").stdout)
        script = Path(__file__).with_name("hf_logits.py")
        done = subprocess.run([sys.executable, script, model, logits, "--adapter", adapter],
                              capture_output=True, text=True, timeout=120, check=False)
        print(done.stdout.strip())
        self.assertIn(done.returncode, (0, 77), done.stdout + done.stderr)

    def test_a_base_of_four_bits(self):
        """QLoRA: peers get and hold the base in nf4; what leaves is in the model's own format."""
        model = self.base()
        data = self.chats(model, "the WHO the WHO")
        out = self.folder / "out"
        losses, status = train(self.folder / "coded", stages=2, pipelines=2, model=model, data=data,
                               steps=60, micro_batches=4, rows=4, checkpoint_every=30,
                               optimizer={"learning_rate": 2e-2}, base={"base": "nf4"},
                               adapter={"kind": "lora", "rank": 8, "alpha": 16},
                               export={"adapter": out / "adapter", "merged": out / "merged"})
        self.assertLess(sum(losses[-5:]), 0.8 * sum(losses[:5]), describe(losses))
        self.assertEqual(status["consistency"]["weightMismatches"], 0)
        judged = [run_json("shoal", "eval", "--data", data, "--json", "--model", *where)["meanLoss"]
                  for where in ((model, "--adapter", out / "adapter"), (out / "merged",), (model,))]
        # The sums went into the model's own files, not into what four bits left of them.
        self.assertAlmostEqual(judged[0], judged[1], delta=1e-4 * judged[1])
        self.assertLess(judged[0], 0.8 * judged[2])
        self.assertEqual(tensors_of(out / "merged/model.safetensors"),
                         tensors_of(model / "model.safetensors"))

    def test_methods_of_pipelines_take_adapters(self):
        """Moments, or all that is trained, in shards; factors; compressed momenta."""
        model = make_model(self.folder, LLAMA, "qwen", TEMPLATE)
        data = self.chats(model, "the WHO")
        same = {"stages": 2, "pipelines": 2, "model": model, "data": data, "steps": 12,
                "micro_batches": 4, "rows": 4, "checkpoint_every": 6, "base": {"base": "bf16"},
                "optimizer": {"learning_rate": 2e-2, "warmup_steps": 4},
                "adapter": {"kind": "lora", "rank": 4}}
        exact, _ = train(self.folder / "average", **same)
        for number, (method, most) in enumerate((("qsdp:shard_parameters=true", 0.02),
                                                 ("powersgd:rank=4,stages=0", 0.02),
                                                 ("qadam:bits=4", 0.05))):
            losses, status = train(self.folder / f"method{number}", replica=method, **same)
            self.assertEqual(status["consistency"]["weightMismatches"], 0, method)
            self.assertLess(abs(losses[-1] / exact[-1] - 1), most, f"{method}: {losses} {exact}")

    def test_a_newcomer_gets_the_base_from_the_scheduler_and_adapters_from_its_group(self):
        model = make_model(self.folder, LLAMA, "qwen", TEMPLATE)
        with Swarm(self.folder / "swarm", stages=2, pipelines=2, model=model,
                   data=self.chats(model, "the WHO"), steps=200, rows=4, micro_batches=4,
                   checkpoint_every=1000, base={"base": "nf4"},
                   adapter={"kind": "lora", "rank": 4}) as swarm:
            swarm.start()
            swarm.wait_step(10)
            victim = swarm.peer_at(stage=1, pipeline=0)
            swarm.peers[victim].signal(signal.SIGKILL)
            swarm.start_peer("new")
            swarm.wait_run(lambda r: "1 of 2 pipelines train" in r["reason"], 20,
                           "the others go on", but=[victim])
            whole = swarm.wait_run(
                lambda r: r["state"] == "training" and "pipelines train" not in r["reason"], 60,
                "all pipelines train", but=[victim])
            self.assertEqual(whole["checkpointStep"], 0)
            # The base alone: weights that are trained come from the group.
            log = (swarm.folder / "new.log").read_text(encoding="utf-8")
            self.assertIn("stage.caught_up", log)
            swarm.wait_finished(but=[victim])
            consistency = swarm.status()["consistency"]
            self.assertGreater(consistency["weightChecks"], 0)
            self.assertEqual(consistency["weightMismatches"], 0)
            swarm.stop()

    def test_a_peer_dies_and_the_model_goes_away(self):
        """The peer comes back with its base; exports take what the run keeps of the model."""
        model = make_model(self.folder, LLAMA, "qwen", TEMPLATE)
        data = self.chats(model, "the WHO")
        out = self.folder / "out"
        with Swarm(self.folder / "swarm", model=model, data=data, steps=40, rows=4,
                   checkpoint_every=10, base={"base": "int8"}, optimizer={"learning_rate": 2e-2},
                   adapter={"kind": "lora", "rank": 4, "dropout": 0.1}) as swarm:
            swarm.start()
            swarm.wait_step(15)
            swarm.peers["p1"].signal(signal.SIGKILL)
            swarm.peers["p1"].wait(10)
            swarm.start_peer("p1")
            losses = swarm.wait_finished(120)["losses"]
            self.assertLess(losses[-1], losses[0])
            swarm.export(out / "adapter", "adapter")
            model.rename(self.folder / "gone")
            done = run("shoal", "swarm", "export", "--dir", swarm.run_folder, "--as", "merged",
                       "--out", out / "merged")
            self.assertIn("as the run keeps it, in int8", done.stdout)
            swarm.stop()
        judged = [run_json("shoal", "eval", "--data", data, "--json", "--model", *where)["meanLoss"]
                  for where in ((self.folder / "gone", "--adapter", out / "adapter"),
                                (out / "merged",))]
        self.assertAlmostEqual(judged[0], judged[1], delta=0.02 * judged[0])

    def test_what_does_not_fit_is_refused(self):
        model = make_model(self.folder, LLAMA, "qwen", TEMPLATE)
        data = self.chats(model, "the WHO")
        for section, words in (({"kind": "lora", "targets": ["c_attn"]}, "no module 'c_attn'"),
                               ({"kind": "lora", "targets": []}, "targets names no modules"),
                               ({"kind": "dora"}, "none|lora"),
                               ({"kind": "lora", "rank": 0}, "rank")):
            with self.subTest(section=section):
                swarm = Swarm(self.folder / "run", stages=1, model=model, data=data,
                              adapter=section)
                done = run("shoal-scheduler", "--config", swarm.write_config(), check=False)
                self.assert_refused(done, harness.BAD_CONFIG, re.escape(words))
        done = run("shoal", "try", "--model", model, "--adapter", model, "hello", check=False)
        self.assert_refused(done, harness.BAD_CONFIG, "an adapter is a folder")


if __name__ == "__main__":
    harness.main()
