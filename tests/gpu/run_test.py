#!/usr/bin/env python3
"""The course of run.sh with programs that print what they are told to."""

import contextlib
import io
import json
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import gpu_run
from verdicts_test import good

EQUALITY = good()["equality"]["programs"]["model_families_test"]


class RunTest(unittest.TestCase):

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="run_test.")))
        self.out, self.build = self.folder / "out", self.folder / "build"
        gpu = 'case "$1" in --gtest_output=json:*) cat <<END >"${1#*:}"\n%s\nEND\nesac'
        for name in gpu_run.CODEC_TESTS:
            told = json.dumps(good()["equality"]["programs"]["compression_device_codec_test"])
            self.program(f"tests/{name}", gpu % told)
        for name in gpu_run.MODEL_TESTS:
            self.program(f"tests/{name}", gpu % json.dumps(EQUALITY))
        self.tells("bench/device_codec_bench", good()["kernels"])
        self.tells("bench/device_stage_bench", good()["stage"])
        self.tells("python", good()["stage"]["pytorch"])

    def program(self, name, body):
        path = self.build / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def tells(self, name, what):
        self.program(name, f"cat <<END\n{json.dumps(what)}\nEND")

    def run_it(self, *flags, gpu=("Card 9", None), swarm=None):
        """Exit code, standard output, standard error, report."""
        output, said = io.StringIO(), io.StringIO()
        swarm = good()["swarm"] if swarm is None else swarm
        with unittest.mock.patch.object(gpu_run, "gpu_name", return_value=gpu), \
                unittest.mock.patch.object(gpu_run.Course, "swarm", lambda *_: swarm), \
                contextlib.redirect_stdout(output), contextlib.redirect_stderr(said):
            code = gpu_run.main(["--build", str(self.build), "--python",
                                 str(self.build / "python"), *flags, str(self.out)])
        report = self.out / "report.json"
        return code, output.getvalue(), said.getvalue(), \
            json.loads(report.read_text()) if report.exists() else None

    def test_good_figures(self):
        code, output, _, report = self.run_it()
        self.assertEqual(code, 0, output)
        self.assertTrue(report["held"])
        self.assertEqual(report["device"], "Card 9")
        self.assertEqual(output, (self.out / "report.txt").read_text())
        self.assertEqual(sorted(p.name for p in self.out.iterdir()), ["report.json", "report.txt"])

    def test_without_a_gpu_there_is_one_line(self):
        code, output, said, report = self.run_it(gpu=(None, "there is no driver"))
        self.assertEqual((code, output, report), (1, "", None))
        self.assertEqual(said.count("\n"), 1)
        self.assertIn("no GPU: there is no driver; --device cpu", said)

    def test_what_breaks_falls_short_and_the_rest_goes_on(self):
        self.program("bench/device_codec_bench", "echo 'out of memory' >&2; exit 1")
        self.program("python", "echo 'No module named torch' >&2; exit 1")
        code, _, _, report = self.run_it()
        self.assertEqual(code, 1)
        notes = {c["part"]: c["note"] for c in report["checks"] if c["verdict"] == "not measured"}
        self.assertEqual(sorted(notes), ["kernels", "stage"])
        self.assertIn("device_codec_bench ended with 1: out of memory", notes["kernels"])
        self.assertIn("No module named torch", notes["stage"])

    def test_a_program_that_is_not_there(self):
        (self.build / "bench/device_stage_bench").unlink()
        code, _, _, report = self.run_it()
        self.assertEqual(code, 1)
        self.assertIn("device_stage_bench does not start",
                      [c["note"] for c in report["checks"] if c["part"] == "stage"][0])

    def test_time_ends(self):
        self.program("bench/device_codec_bench", "sleep 100 & sleep 100")
        with unittest.mock.patch.dict(gpu_run.LIMITS, kernels=1.5):
            code, _, _, report = self.run_it()
        self.assertEqual(code, 1)
        self.assertLess(report["seconds"], 60)
        self.assertIn("took longer", json.dumps(report["checks"]))
        code, _, _, report = self.run_it("--seconds", "0")
        self.assertEqual({c["verdict"] for c in report["checks"] if c["part"] != "swarm"},
                         {"not measured"})

    def test_all_parts_fit_into_nine_minutes(self):
        self.assertLess(sum(gpu_run.LIMITS.values()), 540)

    def test_a_folder_that_cannot_be_made(self):
        self.out.write_text("a file")
        code, _, said, _ = self.run_it()
        self.assertEqual(code, 2)
        self.assertIn("name another folder", said)


if __name__ == "__main__":
    unittest.main()
