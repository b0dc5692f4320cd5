"""`./x bench replica --quick`: every replica method over real links, its bytes, equal results."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE = Path(os.environ["SHOAL_SOURCE_DIR"])
BUILD = Path(os.environ["SHOAL_BIN"]).parent
METHODS = {"average", "average:dtype=bf16", "average:codec=dithered:step=0.3", "qadam:bits=8",
           "qadam:bits=4", "onebit", "qsdp:weights=8,gradients=8", "marsit",
           "powersgd:rank=32"}
STEPS = {"step of " + method for method in (
    "average", "qadam:bits=8", "onebit", "marsit", "qsdp:weights=8,gradients=8")}
EXACT = {"average"}
sys.path.insert(0, str(SOURCE / "tests/bench"))
import replica_dilation  # noqa: E402


def run_bench(*options):
    return subprocess.run(
        [sys.executable, "-B", SOURCE / "tests/bench/replica_bench.py", "--quick", "--build",
         BUILD, *options], capture_output=True, text=True, timeout=200, check=False)


class DilationTest(unittest.TestCase):

    def test_lines_slow_down_and_seconds_shrink_by_the_same_factor(self):
        dilation = replica_dilation.for_members(4, members=8, cores_per_member=2, cores=2)
        self.assertEqual(dilation.real_rate(500_000_000), 125_000_000)
        self.assertEqual(dilation.rate(125_000_000), 500_000_000)
        self.assertEqual(dilation.real_ms(30), 120)
        self.assertEqual(dilation.seconds(8), 2)
        self.assertEqual(dilation.cores_per_member, 1)

    def test_auto_gives_each_member_its_cores_and_never_speeds_up(self):
        for members, cores, wanted, k, each in ((8, 2, 2, 8, 2), (4, 2, 2, 4, 2), (2, 2, 1, 1, 1),
                                                (8, 16, 2, 1, 2), (2, 16, 2, 1, 8),
                                                (3, 4, 2, 1.5, 2)):
            with self.subTest(members=members, cores=cores, wanted=wanted):
                dilation = replica_dilation.for_members(None, members, wanted, cores)
                self.assertEqual((dilation.k, dilation.cores_per_member), (k, each))

    def test_a_factor_is_auto_or_a_number_of_one_or_more(self):
        self.assertIsNone(replica_dilation.factor("auto"))
        self.assertEqual(replica_dilation.factor("2.5"), 2.5)
        for wrong in ("0.5", "-2", "inf", "nan", "", "2x"):
            with self.subTest(wrong), self.assertRaises(ValueError):
                replica_dilation.factor(wrong)
        refused = run_bench("--dilation", "0.5")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--dilation", refused.stderr)


class ReplicaBenchTest(unittest.TestCase):

    def test_a_dilated_run_says_so_and_counts_in_the_members_time(self):
        ran = run_bench("--dilation", "4", "--methods", "average;onebit", "--json")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        rows = json.loads(ran.stdout)["rows"]
        self.assertEqual([row["method"] for row in rows], ["average", "onebit"])
        for row in rows:
            with self.subTest(row["method"]):
                self.assertLess(abs(row["wireBytesPerMember"] / row["theoryBytes"] - 1), .02)
                self.assertEqual((row["linkBps"], row["dilation"]), (500_000_000, 4))
                self.assertEqual(row["coresPerMember"], 4 * replica_dilation.processors() / 2)
                self.assertAlmostEqual(row["realSeconds"] / row["seconds"], 4)
        # The line really had a fourth of its rate: no exchange is faster, but for bursts.
        self.assertLess(rows[0]["linkLimitFraction"], 1.1)
        table = ran.stderr.splitlines()
        self.assertEqual([cell.strip() for cell in table[0].split("|")][1:5],
                         ["D", "Mbit/s", "K", "cores"])
        self.assertEqual([cell.strip() for cell in table[2].split("|")][1:4], ["2", "500", "4"])

    def test_bytes_are_as_theory_says_and_members_agree(self):
        ran = run_bench("--json")
        self.assertEqual(ran.returncode, 0, ran.stderr)  # results that differ end it with an error
        rows = {row["method"]: row for row in json.loads(ran.stdout)["rows"]}
        self.assertEqual(set(rows), METHODS | STEPS)
        self.assertEqual({row["dilation"] for row in rows.values()}, {1})
        for name, row in rows.items():
            with self.subTest(name):
                fixed = 8192 if name in STEPS else 0
                self.assertLess(abs(row["wireBytesPerMember"] - row["theoryBytes"]),
                                .02 * row["theoryBytes"] + fixed)
                self.assertEqual((row["members"], row["values"]), (2, 1_000_000))
                self.assertGreater(row["seconds"], 0)
                self.assertGreater(row["cpuSeconds"], 0)
        # No exchange is faster than its line, but for what one burst may be.
        self.assertLess(rows["average"]["linkLimitFraction"], 1.1)
        for name in EXACT:
            self.assertLess(rows[name]["relativeError"], 1e-6)
        self.assertLess(rows["average:dtype=bf16"]["relativeError"], .01)


if __name__ == "__main__":
    unittest.main()
