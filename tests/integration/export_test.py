"""The exported directory: complete, readable by shoal-run, different from the start, and the same
model to Hugging Face transformers (where that is installed)."""

import json
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
            swarm.export(out)
            # A second time to the same place: refused, nothing changed.
            before = {p.name: p.read_bytes() for p in out.iterdir()}
            again = run("shoal", "swarm", "export", "--dir", swarm.run_folder, "--out", out,
                        check=False)
            self.assert_refused(again, harness.FAILURE, "exists", str(out))
            self.assertEqual(before, {p.name: p.read_bytes() for p in out.iterdir()})
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
