"""`./x bench model --quick`: our side of every row, and PyTorch's where a Python has it."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ["SHOAL_SOURCE_DIR"])
BUILD = Path(os.environ["SHOAL_BIN"]).parent


def run_bench(*options):
    return subprocess.run(
        [sys.executable, "-B", SOURCE / "tests/bench/model_bench.py", "--build", BUILD, "--quick",
         "--rounds", "1", "--steps", "1", "--tokens", "24", *options],
        capture_output=True, text=True, timeout=250, check=False)


class ModelBenchTest(unittest.TestCase):

    def test_every_row_has_our_figures_and_the_losses_of_pytorch_where_it_is(self):
        ran = run_bench("--json")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        rows = json.loads(ran.stdout)["rows"]
        self.assertEqual([(row["family"], row["mode"]) for row in rows],
                         [(family, mode) for family in ("gpt2", "llama")
                          for mode in ("full", "recompute", "lora", "lora-dropout")])
        for row in rows:
            self.assertGreater(row["tokensPerSecond"], 0)
            self.assertGreater(row["peakBytes"], 0)
            self.assertEqual(row["pytorchTokensPerSecond"] is None, "our side alone" in ran.stderr)

    def test_without_pytorch_it_says_so_and_measures_our_side(self):
        ran = run_bench("--python", "/bin/false", "--only", "gpt2 full")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stderr, "model: /bin/false has no torch, transformers and peft: our "
                                     "side alone; see --python\n")
        self.assertRegex(ran.stdout.splitlines()[2], r"^\| gpt2 \| full \| [\d.]+ \| - \| - \| "
                                                     r".* \| not compared \|$")

    def test_a_program_or_a_row_that_is_none_is_wrong_usage(self):
        for option, value, words in (("--python", "/nonexistent/python", "there is no program"),
                                     ("--only", "gpt5", "no row has 'gpt5'")):
            ran = run_bench(option, value)
            self.assertEqual(ran.returncode, 2)
            self.assertIn(words, ran.stderr)
            self.assertEqual(ran.stdout, "")

    def test_numbers_out_of_range_are_wrong_usage(self):
        for option in ("--tokens", "--rounds", "--steps"):
            ran = run_bench(option, "0")
            self.assertEqual(ran.returncode, 2)
            self.assertIn(option, ran.stderr)


if __name__ == "__main__":
    unittest.main()
