"""The exported directory: complete, readable by shoal-run, different from the start, and the same
model to Hugging Face transformers (where that is installed)."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import harness
from harness import run, run_json
from swarm import Swarm

PROMPT = "ROMEO: it is"


class ExportTest(harness.SwarmTest):

    def test_export_is_a_model_directory(self):
        out = self.folder / "tuned"
        with Swarm(self.folder / "s", stages=2, pipelines=1, steps=30,
                   forward="aqsgd:bits=4", backward="direct:bits=8") as swarm:
            swarm.start()
            swarm.wait_finished()
            told = run("shoal", "swarm", "export", "--dir", swarm.run_folder, "--out", out).stdout
            self.assertIn(f"try it with: shoal try --model {out} TEXT\n", told)
            take = f"shoal swarm export --dir {swarm.run_folder} --out ./tuned"
            log = swarm.scheduler.log.read_text()
            self.assertRegex(log, f'run.finished.*next="?{take}')
            self.assertIn("next: on each of 2 machines", log)
            # A second time to the same place: refused, nothing changed.
            before = {p.name: p.read_bytes() for p in out.iterdir()}
            again = run("shoal", "swarm", "export", "--dir", swarm.run_folder, "--out", out,
                        check=False)
            self.assert_refused(again, harness.FAILURE, "exists", str(out))
            self.assertEqual(before, {p.name: p.read_bytes() for p in out.iterdir()})
            said = run("shoal", "swarm", "stop", "--dir", swarm.run_folder).stdout
            self.assertRegex(said, "the run is finished")
            swarm.scheduler.wait(30)
            swarm.start_scheduler()
            harness.wait_for(
                lambda: f"the run is finished; take the model with\n\n  {take}\n"
                in swarm.scheduler.log.read_text(), 10, "the scheduler says how to take the model")
            self.assertEqual(swarm.scheduler.log.read_text().count("shoal join"), 1)
            swarm.stop()
        start = harness.model()
        self.assertEqual(json.loads((out / "config.json").read_text())["model_type"], "gpt2")
        for name in ("tokenizer.json", "vocab.json", "merges.txt"):
            self.assertEqual((out / name).read_bytes(), (start / name).read_bytes(), name)
        data = harness.data()
        loss = {path: run_json("shoal-run", "eval", "--model", path, "--data", data,
                               "--json")["meanLoss"] for path in (start, out)}
        self.assertLess(loss[out], loss[start] - 0.3)
        self.compare_with_transformers(out)

    def test_init_says_that_a_model_has_no_tokenizer(self):
        bare = self.folder / "bare"
        shutil.copytree(harness.model(), bare)
        for name in ("tokenizer.json", "vocab.json", "merges.txt"):
            (bare / name).unlink()
        for model, warned in ((bare, True), (harness.model(), False)):
            done = run("shoal", "swarm", "init", "--model", model, "--data", harness.data(),
                       "--dir", self.folder / f"run-{warned}")
            self.assertEqual(done.stderr.count("has no tokenizer: "), int(warned), done.stderr)

    def formats(self, folder):
        """The number formats in model.safetensors, and what config.json says."""
        with open(folder / "model.safetensors", "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        config = json.loads((folder / "config.json").read_text())
        return {tensor["dtype"] for name, tensor in header.items() if name != "__metadata__"}, \
            config.get("dtype", config.get("torch_dtype"))

    def test_exports_have_the_format_that_the_run_began_with(self):
        source = self.folder / "bf16"
        run("shoal", "convert", "--model", harness.model(), "--out", source, "--dtype", "bf16")
        (source / "generation_config.json").write_text('{"eos_token_id": 0}')
        (source / "chat_template.jinja").write_text("{{ messages[0].content }}")
        self.assertEqual(self.formats(source), ({"BF16"}, "bfloat16"))
        out = {name: self.folder / name for name in ("own", "fp32", "gguf")}
        with Swarm(self.folder / "s", stages=2, pipelines=1, steps=3, model=source) as swarm:
            swarm.start()
            swarm.wait_finished()
            export = ["shoal", "swarm", "export", "--dir", swarm.run_folder, "--out"]
            told = run(*export, out["own"]).stdout
            self.assertIn(f"try it with: shoal chat --model {out['own']}\n", told)
            run(*export, out["fp32"], "--dtype", "fp32")
            said = run(*export, out["gguf"], "--as", "gguf", "--type", "q8_0").stdout
            refused = run(*export, self.folder / "no", "--as", "gguf", "--dtype", "bf16",
                          check=False)
            self.assert_refused(refused, harness.BAD_CONFIG, "--type")
            swarm.stop()
        self.assertFalse((self.folder / "no").exists())
        self.assertEqual(self.formats(out["own"]), ({"BF16"}, "bfloat16"))
        self.assertEqual(self.formats(out["fp32"]), ({"F32"}, "float32"))
        self.assertTrue((out["own"] / "generation_config.json").exists())
        # Rounding fp32 weights by hand gives the same file.
        again = self.folder / "again"
        run("shoal", "convert", "--model", out["fp32"], "--out", again, "--dtype", "bf16")
        self.assertEqual((again / "model.safetensors").read_bytes(),
                         (out["own"] / "model.safetensors").read_bytes())
        self.assertIn("llama-cli -m", said)
        self.assertEqual((out["gguf"] / "model.gguf").read_bytes()[:8], b"GGUF\3\0\0\0")
        self.assertTrue((out["gguf"] / "Modelfile").read_text().startswith("FROM ./model.gguf"))

    def compare_with_transformers(self, out):
        logits = self.folder / "logits.json"
        logits.write_text(run("shoal-run", "logits", "--model", out, "--text", PROMPT,
                              "--json").stdout)
        script = Path(__file__).with_name("hf_logits.py")
        done = subprocess.run([sys.executable, script, out, logits, "--text", PROMPT],
                              capture_output=True, text=True, timeout=120, check=False)
        print(done.stdout.strip())
        self.assertIn(done.returncode, (0, 77), done.stdout + done.stderr)


if __name__ == "__main__":
    harness.main()
