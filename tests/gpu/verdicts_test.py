#!/usr/bin/env python3
"""Figures made by hand against their bounds."""

import copy
import unittest

import verdicts


def suites(*cases):
    """(suite, case, outcome) as GoogleTest writes them."""
    made = {}
    for suite, case, outcome in cases:
        told = {"name": case, "result": "SKIPPED" if outcome == "skipped" else "COMPLETED"}
        if outcome == "failed":
            told["failures"] = [{"failure": "not equal"}]
        made.setdefault(suite, []).append(told)
    return {"testsuites": [{"name": name, "testsuite": all_of} for name, all_of in made.items()]}


def good():
    rate = {"encodeOfCopy": 0.7, "decodeOfCopy": 0.9}
    specs = [f"{codec}:bits={bits},bucket=160" for codec in ("direct", "aqsgd")
             for bits in (2, 3, 4, 6, 8)] + ["dithered:step=1", "dithered:rate=2"]
    rows = [{"shape": shape, "rows": rows, "training": training, "tokensPerSecond": 100.0}
            for shape, rows in (("gpt2-xl", 1), ("gpt2-xl", 4), ("llama-3-8b", 1))
            for training in ("full", "lora")]
    clock = {"kernels": 100, "milliseconds": 500.0, "codecKernels": 10, "codecMilliseconds": 10.0}
    return {
        "equality": {"programs": {
            "compression_device_codec_test": suites(
                ("Gpu/DeviceCodecTest", "Equal/0", "passed"),
                ("Lanes/DeviceCodecTest", "Equal/0", "passed"),
                ("DeviceCodec", "SaysWhyThereIsNoDevice", "skipped")),
            "model_families_test": suites(
                ("All/Family", "ComputesWhatTransformersDoes/gpt2", "passed"),
                ("All/Family", "MakesTheStepsOfPyTorch/gpt2", "passed"),
                ("All/Family", "ComputesInBf16/gpt2", "passed"))}},
        "kernels": {"copyBytesPerSecond": 2e12, "rows": [{"codec": s, **rate} for s in specs]},
        "stage": {"rows": rows, "pytorch": {"rows": copy.deepcopy(rows)}},
        "swarm": {"stepSeconds": 1.0, "lineBoundSeconds": 0.96, "kernelClocks": [clock, clock]}}


def unmet(parts, device="cuda"):
    return {(c.part, c.what): c.verdict for c in verdicts.checks(parts, device)
            if c.verdict != verdicts.OK}


class VerdictsTest(unittest.TestCase):

    def test_good_figures_hold(self):
        self.assertEqual(unmet(good()), {})
        report = verdicts.as_report(good(), "cuda", "Card 9", 300)
        self.assertTrue(report["held"])
        self.assertFalse(report["dryRun"])
        # Equality 4, kernels twice 12, stages 6, swarm 2.
        self.assertEqual(len(report["checks"]), 36)
        text = verdicts.table(report)
        self.assertIn("On Card 9, 300 s", text)
        self.assertIn("all 36 hold", text)
        self.assertIn("1400 GB/s", text)

    def test_nothing_measured_is_nothing_held(self):
        for parts in ({}, {name: {"error": "it broke"} for name in good()}):
            made = verdicts.checks(parts, "cuda")
            self.assertEqual({c.verdict for c in made}, {verdicts.NOT_MEASURED})
            self.assertFalse(verdicts.held(made))
        self.assertIn("it broke", made[0].note)

    def test_each_figure_counts(self):
        def tried(change):
            parts = good()
            change(parts)
            return unmet(parts)
        self.assertEqual(tried(lambda p: p["kernels"]["rows"][3].update(encodeOfCopy=0.59)),
                         {("kernels", "encode, direct:bits=6,bucket=160"): "short"})
        self.assertEqual(tried(lambda p: p["kernels"]["rows"][10].update(decodeOfCopy=0.24)),
                         {("kernels", "decode, dithered:step=1"): "short"})
        self.assertEqual(tried(lambda p: p["kernels"]["rows"].pop()),
                         {("kernels", f"{way}, dithered:rate=2"): "not measured"
                          for way in ("encode", "decode")})
        self.assertEqual(tried(lambda p: p["stage"]["rows"][3].update(tokensPerSecond=94)),
                         {("stage", "gpt2-xl, 4 rows, lora"): "short"})
        self.assertEqual(tried(lambda p: p["stage"]["pytorch"]["rows"].pop(0)),
                         {("stage", "gpt2-xl, 1 row, full"): "not measured"})
        self.assertEqual(tried(lambda p: p["swarm"].update(stepSeconds=1.02)),
                         {("swarm", "a step against its bound"): "short"})
        share = ("swarm", "codecs' share of the GPU's time")
        self.assertEqual(tried(lambda p: p["swarm"]["kernelClocks"][0].update(
            codecMilliseconds=20.1)), {share: "short"})
        self.assertEqual(tried(lambda p: p["swarm"].update(kernelClocks=[])),
                         {share: "not measured"})

    def test_codecs_on_the_cpu_take_no_share_of_the_gpu(self):
        parts = good()
        for clock in parts["swarm"]["kernelClocks"]:
            clock.update(codecKernels=0, codecMilliseconds=0.0)
        last = verdicts.checks(parts, "cuda")[-1]
        self.assertEqual(last.verdict, verdicts.NOT_MEASURED)
        self.assertIn("no codec ran on the GPU", last.note)

    def test_a_case_that_failed_or_was_skipped_is_not_equal(self):
        for outcome in ("failed", "skipped"):
            parts = good()
            parts["equality"]["programs"]["compression_device_codec_test"] = suites(
                ("Gpu/DeviceCodecTest", "Equal/0", "passed"),
                ("Gpu/DeviceCodecTest", "Equal/1", outcome))
            found = verdicts.checks(parts, "cuda")[0]
            self.assertEqual((found.verdict, found.value), ("short", 0.5))
            self.assertIn(f"Gpu/DeviceCodecTest.Equal/1 {outcome}", found.note)

    def test_without_gpu_cases_codecs_are_not_compared(self):
        parts = good()
        parts["equality"]["programs"]["compression_device_codec_test"] = suites(
            ("Lanes/DeviceCodecTest", "Equal/0", "passed"))
        codecs = ("equality", "codecs, every width and shape of the unit tests")
        self.assertEqual(unmet(parts), {codecs: "not measured"})

    def test_a_program_that_died_is_not_passed_over(self):
        parts = good()
        parts["equality"]["error"] = "model_segments_test ended with -11: "
        self.assertEqual(unmet(parts), {("equality", "all programs ended"): "not measured"})

    def test_a_dry_run_says_so(self):
        report = verdicts.as_report(good(), "cpu", None, 3)
        self.assertTrue(report["dryRun"])
        self.assertTrue(verdicts.table(report).startswith("DRY RUN"))
        # Its stages are small ones, which are not among these.
        self.assertFalse(report["held"])


if __name__ == "__main__":
    unittest.main()
