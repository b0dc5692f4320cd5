#!/usr/bin/env python3
"""The judging and drawing half of the quality bench, on figures made by hand."""

import contextlib
import io
import json
import os
import re
import tempfile
import unittest
import unittest.mock
import xml.dom.minidom
from pathlib import Path

import bench
import report
from checks import LIMITS, Check, Results, bits_per_value, checks, replica_bits, wire_bytes
from kept import kept_rows
from rows import DEFAULTS, EIGHT, FOUR, MICRO, PIPELINES, RAW, ROWS
from svg_plot import plot

# (setup, name) -> training loss in the last epoch; what the calibration found, about.
TRAIN = {"fp32": 1.400, "aqsgd fw4 bw8": 1.401, "aqsgd fw3 bw6": 1.402, "aqsgd fw2 bw4": 1.407,
         "direct fw4 bw8": 1.445, "direct fw3 bw6": 1.526, "direct fw2 bw4": 1.710}
BITS = {"fp32": (32, 32), "fw4 bw8": (4, 8), "fw3 bw6": (3, 6), "fw2 bw4": (2, 4)}


def figures(train, forward_bits, backward_bits, held=1.76, delta=0.05, error=0.01):
    return {"trainLoss": [2.0, train], "heldOutLoss": [1.9, held], "heldOutBefore": 1.95,
            "deltaNorm": [None, delta], "receivedError": [None, error], "values": [1000, 1000],
            "forwardBytes": [4000, 125 * forward_bits], "otherBytes": [16, 0],
            "backwardBytes": [4000, 125 * backward_bits]}


def results(**changes):
    found = Results()
    for row in ROWS:
        if row.setup not in (FOUR, EIGHT) or row.name not in TRAIN:
            continue
        pair = row.name.split(" ", 1)[-1] if " " in row.name else row.name
        for seed in row.seeds:
            made = figures(TRAIN[row.name] + 0.001 * seed, *BITS[pair])
            made.update(changes.get(row.name.replace(" ", "_"), {}))
            found.add(row, seed, made)
    return found


def replica_results():
    found = Results()
    for name, held, sent in (("fp32", 1.76, 800_000), ("qadam:bits=4", 1.77, 100_000),
                             ("onebit", 1.78, 100_000)):
        made = figures(1.40 if name == "fp32" else 1.42, 32, 32, held)
        made.update(replicaBytes=[sent // 2, sent // 2], replicaRawBytes=[400_000, 400_000])
        row = next(row for row in ROWS if row.setup == PIPELINES and row.name == name)
        found.add(row, 1, made)
    return found


def shaped_results():
    found = Results()
    for row in ROWS:
        if row.setup != "4 stages, outliers" or row.name not in ("fp32", "defaults of a run"):
            continue
        made = figures(1.5 if row.name == "fp32" else 1.8, 3, 3)
        shape = {"kurtosis": 110.4, "channelRatio": 45.8, "tokenRatio": 2.81,
                 "changeMedian": 0.0091, "changeP90": 0.0178}
        made["boundaries"] = [[], [shape, {**shape, "channelRatio": 63.4}]]
        found.add(row, 1, made)
    return found


def low_rank_results():
    found = Results()
    held = {"epilogue, lazy auto": (1.43, 1.765), "all, not lazy": (1.5, 1.80),
            "epilogue, lazy": (1.44, 1.77)}
    for row in ROWS:
        if row.setup != MICRO:
            continue
        name = row.name.removeprefix("rank 4 ")
        if name in ("fp32", "dithered 0.5") or (name in held and name != row.name):
            train, held_out = held.get(name, (1.42, 1.76))
            made = figures(train, 32, 2, held_out)
            made["gradientError"] = [0.6 if name in held else 0.15]
            for key, value in (("lowRankPart", 0.25), ("correlation", 0.34), ("lazyPart", 0.0)):
                made[key] = [value if name in held else None]
            found.add(row, 1, made)
    return found


def check(found, words):
    matching = [c for c in checks(found) if words in c.text]
    assert len(matching) == 1, (words, [c.text for c in matching])
    return matching[0]


class ChecksTest(unittest.TestCase):
    def test_figures_as_in_the_calibration_hold(self):
        for words in ("aqsgd fw3 bw6, training", "4 stages: direct fw2 bw4", "fw2 bw4, share"):
            one = [c for c in checks(results()) if c.text.startswith("4") and words in c.text]
            self.assertTrue(one and one[0].ok, words)
        self.assertAlmostEqual(check(results(), "4 stages: fw2 bw4, share").value,
                               (1.710 - 1.407) / (1.710 - 1.400), places=6)

    def test_the_worst_seed_decides(self):
        found = results()
        found.seeds(FOUR, "aqsgd fw3 bw6")[2]["trainLoss"] = [2.0, 1.402 * 1.01]
        self.assertFalse(check(found, "4 stages: aqsgd fw3 bw6, training").ok)
        self.assertTrue(check(found, "4 stages: aqsgd fw2 bw4, training").ok)

    def test_a_direct_that_is_as_good_proves_nothing(self):
        found = results(direct_fw3_bw6={"trainLoss": [2.0, 1.403]})
        self.assertFalse(check(found, "4 stages: direct fw3 bw6").ok)

    def test_held_out_loss_counts_both_ways(self):
        found = results(aqsgd_fw2_bw4={"heldOutLoss": [1.9, 1.76 * 0.99]})
        self.assertFalse(check(found, "4 stages: aqsgd fw2 bw4, held-out").ok)

    def test_held_out_loss_is_judged_before_fp32_overfits(self):
        found = results(fp32={"heldOutLoss": [1.7, 1.9]},
                        aqsgd_fw2_bw4={"heldOutLoss": [1.7017, 1.8]})
        self.assertAlmostEqual(check(found, "4 stages: aqsgd fw2 bw4, held-out").value, 0.1)

    def test_one_bad_epoch_of_the_defaults_is_seen(self):
        found = Results()
        for name, losses in (("fp32", [2.0, 1.5]), ("defaults of a run", [2.06, 1.5])):
            row = next(r for r in ROWS if (r.setup, r.name) == ("4 stages, sinks", name))
            found.add(row, 1, {**figures(1.5, 3, 3), "trainLoss": losses})
        lines = [c.line() for c in checks(found) if "worst epoch" in c.text and c.ok is not None]
        self.assertEqual(lines, [("4 stages, sinks: defaults of a run, worst epoch above fp32's",
                                  "at most 2 %", "3 %", "MISSED")])

    def test_what_is_not_measured_neither_holds_nor_fails(self):
        self.assertIsNone(check(Results(), "4 stages: aqsgd fw3 bw6, training").ok)
        one_sided = Results()
        row = next(r for r in ROWS if r.name == "aqsgd fw3 bw6")
        one_sided.add(row, 1, figures(1.4, 3, 6))  # no fp32 beside it
        self.assertIsNone(check(one_sided, "4 stages: aqsgd fw3 bw6, training").ok)
        no_norm = results(aqsgd_fw2_bw4={"deltaNorm": [None, None]})
        self.assertIsNone(check(no_norm, "aqsgd fw2 bw4, delta").ok)

    def test_the_frontier_is_the_cheapest_pair_within_one_percent(self):
        self.assertEqual(bits_per_value(figures(1, 2, 4)), 6)
        self.assertEqual(wire_bytes(figures(1, 2, 4)), 8016 + 750)
        four = check(results(), "4 stages: fewest bits")
        self.assertIn("aqsgd fw2 bw4", four.text)
        self.assertEqual(four.value, 6)
        self.assertFalse(four.ok)
        worse = results(aqsgd_fw2_bw4={"trainLoss": [2.0, 1.43]})
        self.assertEqual(check(worse, "4 stages: fewest bits").value, 9)


    def test_low_rank_is_judged_beside_itself(self):
        found = low_rank_results()
        words = ("epilogue, lazy auto, held-out", "all, not lazy, held-out", "lazy, training loss")
        for text in words:
            self.assertTrue(check(found, f"rank 4 {text}" if text[0] != "l" else text).ok, text)
        found.seeds(MICRO, "rank 4 all, not lazy")[1]["heldOutLoss"] = [1.9, 1.77]
        found.seeds(MICRO, "rank 4 epilogue, lazy")[1]["trainLoss"] = [2.0, 1.42]
        found.seeds(MICRO, "fp32")[1]["heldOutLoss"] = [1.9, 1.745]
        for text in words:
            self.assertFalse(check(found, f"rank 4 {text}" if text[0] != "l" else text).ok, text)


    def test_methods_of_pipelines_are_judged_beside_the_average(self):
        found = replica_results()
        held = f"{PIPELINES}: qadam:bits=4, held-out"
        self.assertFalse(check(found, held).ok)  # 1.77 / 1.76: +0.57 %
        found.seeds(PIPELINES, "qadam:bits=4")[1]["heldOutLoss"] = [1.9, 1.765]
        self.assertTrue(check(found, held).ok)
        self.assertFalse(check(found, f"{PIPELINES}: onebit, held-out").ok)
        self.assertEqual(replica_bits(found.seeds(PIPELINES, "onebit")[1]), 4)


    def test_a_row_that_must_keep_the_loss_has_a_limit_for_either(self):
        texts = [c.text for c in checks(Results())]
        for setup, name, train, held in LIMITS:
            self.assertIn((setup, name), {(row.setup, row.name) for row in ROWS})
            self.assertGreater(min(train, held), 0, name)
            for words in ("training loss above fp32", "held-out loss off fp32"):
                self.assertIn(f"{setup}: {name}, {words}", texts)

    def test_training_loss_is_judged_where_held_out_loss_says_nothing(self):
        found = replica_results()
        found.seeds(PIPELINES, "onebit")[1].update(trainLoss=[2.0, 1.07 * 1.40],
                                                   heldOutLoss=[1.9, 1.76])
        self.assertTrue(check(found, f"{PIPELINES}: onebit, held-out").ok)
        self.assertFalse(check(found, f"{PIPELINES}: onebit, training").ok)


class KeptRowsTest(unittest.TestCase):
    """Rows of results.json beside fresh ones."""

    def kept(self, shown, fresh=None, change=lambda rows: None):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "results.json"
            document = bench.as_json(shown)
            change(document["rows"])
            path.write_text(json.dumps(document))
            return kept_rows(path, fresh or Results())

    def test_rows_of_the_present_rules_are_shown_again(self):
        found, refused = self.kept(results())
        self.assertEqual(refused, [])
        self.assertEqual(report.table(found), report.table(results()))

    def test_rows_of_an_older_version_are_named_and_left_out(self):
        def age(rows):
            for row in rows:
                if row["name"] == "onebit":
                    row["versions"] = {"bench": 2}

        found, refused = self.kept(replica_results(), change=age)
        self.assertEqual(len(refused), 1)
        self.assertIn("2 pipelines: onebit, seed 1: made by version 1 of onebit", refused[0])
        self.assertFalse(found.seeds(PIPELINES, "onebit"))
        self.assertTrue(found.seeds(PIPELINES, "qadam:bits=4"))

    def test_rows_without_versions_are_of_the_first(self):
        _, refused = self.kept(replica_results(),
                               change=lambda rows: [row.pop("versions") for row in rows])
        self.assertEqual([line.split(",")[0] for line in refused],
                         ["2 pipelines: qadam:bits=4", "2 pipelines: onebit"])

    def test_fresh_rows_replace_kept_ones_and_are_not_mixed_with_another_base(self):
        fresh = Results()
        row = next(row for row in ROWS if row.setup == PIPELINES and row.name == "fp32")
        fresh.add(row, 1, {**replica_results().seeds(PIPELINES, "fp32")[1], "heldOutBefore": 1.9})
        found, refused = self.kept(replica_results(), fresh)
        self.assertEqual(found.seeds(PIPELINES, "fp32")[1]["heldOutBefore"], 1.9)
        self.assertEqual(len(refused), 2)
        self.assertIn("another base model", refused[0])

    def test_rows_that_the_bench_has_not_are_named(self):
        def rename(rows):
            rows[0]["name"] = "gone"
            rows[1]["forward"] = "direct:bits=7"

        _, refused = self.kept(results(), change=rename)
        self.assertIn("gone, seed 1: the bench has no such row", refused[0])
        self.assertIn("other options", refused[1])

    def test_docs_say_which_rows_are_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            with contextlib.redirect_stderr(io.StringIO()):
                bench.write_docs(Path(folder), replica_results())
            page = (Path(folder) / "README.md").read_text()
            self.assertIn("## Not measured", page)
            self.assertRegex(page, r"\n- 2 pipelines: \d+ of \d+\n")
            self.assertRegex(page, r"\n- [^:]*4 pipelines[^:]*: all\n")


class DataTest(unittest.TestCase):
    def test_a_tokenizer_stays_whole_while_it_is_written_again(self):
        """A training read merges.txt while another one asked for the same tokenizer."""
        with tempfile.TemporaryDirectory() as folder:
            data = bench.Data.__new__(bench.Data)
            data.cache = data.packed_bpe = Path(folder)
            (Path(folder) / "vocab.bpe").write_text("#version\na b\nc d\n")
            (Path(folder) / "encoder.json").write_text(json.dumps({"a": 0, "ab": 256, "cd": 257}))
            target = Path(data.tokenizer(2))
            with (target / "merges.txt").open() as read:
                data.tokenizer(2)
                self.assertEqual(read.read(), "#version\na b\nc d\n")
                self.assertNotEqual((target / "merges.txt").stat().st_ino,
                                    os.fstat(read.fileno()).st_ino)
            self.assertEqual(sorted(p.name for p in target.iterdir()), ["merges.txt", "vocab.json"])


class ReportTest(unittest.TestCase):
    def test_the_page_names_the_limits_that_are_missed(self):
        found = [Check("a: b, training loss", 0.4, 0.5), Check("c: d, bits", 5.46, 5.3, unit=""),
                 Check("e: d, bits (f)", 5.5, 5.3, unit=""), Check("e: g", 2, 1)]
        with tempfile.TemporaryDirectory() as folder:
            report.write_docs(Path(folder), results(), found, {"cpu": "x", "system": "Linux"})
            page = (Path(folder) / "README.md").read_text()
        self.assertIn("**Limits.** 1 of 4 measured limits hold; 4 are defined.\nMissed:\n\n"
                      "- d, bits, at most 5.3: c 5.46; e 5.5\n- g, at most 1 %: e 2 %\n", page)
        self.assertNotIn("training loss: 0.4", page)

    def test_the_page_says_how_far_boundaries_stand_out_and_the_bits_of_the_run(self):
        with tempfile.TemporaryDirectory() as folder:
            report.write_docs(Path(folder), shaped_results(), [], {"cpu": "x", "system": "Linux"})
            page = (Path(folder) / "README.md").read_text()
        self.assertIn("Over the median, largest channel: 46/63; token: 2.8/2.8.", page)
        self.assertIn("median: 0.009/0.009; 90th percentile: 0.018/0.018.", page)
        self.assertIn("row|train|held out|bits, run|last", page)
        # 8 bits of (4000 + 375 + 4000 + 375 + 16) bytes for 2,000 values; then of 750 for 1,000.
        self.assertIn("defaults of a run|+20.00|+0.00|35.06|6.00", page)

    def test_the_page_names_the_gpu_that_rows_were_computed_on(self):
        found = shaped_results()
        for runs in found.runs.values():
            for run in runs.values():
                run["device"] = "cuda:0 GPU X"
        with tempfile.TemporaryDirectory() as folder:
            report.write_docs(Path(folder), found, [], {"cpu": "x", "system": "Linux"})
            page = (Path(folder) / "README.md").read_text()
        self.assertIn("**Machine.** cuda:0 GPU X; one thread a row. On a GPU: 4 stages, outliers.",
                      page)

    def test_methods_of_pipelines_have_columns_of_their_own(self):
        text = report.table(replica_results())
        self.assertRegex(text, r"method +train .* bits a value +group MB")
        self.assertRegex(text, r"onebit +1\.4200 +\+1\.43 % +1\.7800 +\+1\.14 % +4\.00 +0\.1")

    def test_low_rank_rows_have_a_table_of_their_own(self):
        text = report.table(low_rank_results())
        self.assertRegex(text, r"rank 4 epilogue, lazy auto +2\.00 +0\.600 +25% +0\.34 +0%")
        self.assertRegex(text, r"dithered 0\.5 +2\.00 +0\.150 +- +- +-")

    def test_tables_name_every_finished_row(self):
        text = report.table(results())
        for name in TRAIN:
            self.assertIn(name, text)
        self.assertIn("+0.14 %", text)
        self.assertIn("MISSED", report.check_table(checks(results())))

    def test_docs_are_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            found = results()
            report.write_docs(Path(folder), found, checks(found), {"cpu": "c", "system": "s"})
            page = (Path(folder) / "README.md").read_text()
            for plotted in Path(folder).glob("*.svg"):
                self.assertIn(f"({plotted.name})", page)
                xml.dom.minidom.parse(str(plotted))
            self.assertGreaterEqual(len(list(Path(folder).glob("*.svg"))), 3)

    def test_points_lie_in_order_on_the_page(self):
        svg = plot("t", "x", "y", [("<&>", [(1, 1.0), (10, 2.0), (100, 3.0)])], log_x=True)
        page = xml.dom.minidom.parseString(svg)
        dots = [c for c in page.getElementsByTagName("circle") if c.getAttribute("r") == "3"]
        xs = [float(c.getAttribute("cx")) for c in dots]
        ys = [float(c.getAttribute("cy")) for c in dots]
        self.assertAlmostEqual(xs[1] - xs[0], xs[2] - xs[1], delta=0.2)
        self.assertTrue(ys[0] > ys[1] > ys[2])


class RowsTest(unittest.TestCase):
    def test_the_defaults_are_those_of_runs_demo_and_docs(self):
        for path in ("scheduler/config/run_config.h", "client/demo_options.h", "deploy/run.toml",
                     "docs/algorithms/codec-specs.md"):
            text = re.sub(r'"\n *"', "", (bench.SOURCE / path).read_text())  # one literal
            for spec in DEFAULTS:
                self.assertRegex(text, rf"[`\"]{re.escape(spec)}[`\"]", path)

    def test_every_row_has_a_name_of_its_own_and_fp32_beside_it(self):
        names = [(row.setup, row.name) for row in ROWS]
        self.assertEqual(len(names), len(set(names)))
        for row in ROWS:
            base = next(r for r in ROWS if (r.setup, r.name) == (row.setup, "fp32"))
            self.assertEqual((base.forward, base.backward), (RAW, RAW))
            self.assertTrue(set(row.seeds) <= set(base.seeds), row.name)


class ArgumentsTest(unittest.TestCase):
    def test_a_pattern_that_matches_nothing_is_one_line_and_exit_code_2(self):
        for arguments in (["--only", "nothing"], ["--only", "nothing", "--report-only"],
                          ["--only", "4 stages: fp32", "--seed", "99"]):
            error = io.StringIO()
            with unittest.mock.patch("sys.argv", ["bench.py", *arguments]), \
                    contextlib.redirect_stderr(error):
                self.assertEqual(bench.main(), 2)
            self.assertEqual(error.getvalue().count("\n"), 1)
            self.assertIn("no row matches", error.getvalue())

    def test_a_pattern_selects_rows(self):
        with unittest.mock.patch("sys.argv", ["bench.py", "--only", "4 stages: fp32"]):
            found = list(bench.selected(bench.arguments()))
        self.assertEqual([(row.name, seed) for row, seed in found], [("fp32", 1), ("fp32", 2)])


if __name__ == "__main__":
    unittest.main()
