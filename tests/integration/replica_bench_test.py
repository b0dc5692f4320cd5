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
           "qadam:bits=4", "onebit", "qsdp:weights=8,gradients=8", "ring", "marsit",
           "powersgd:rank=32"}
EXACT = {"average", "ring"}


class ReplicaBenchTest(unittest.TestCase):

    def test_bytes_are_as_theory_says_and_members_agree(self):
        ran = subprocess.run(
            [sys.executable, "-B", SOURCE / "tests/bench/replica_bench.py", "--quick", "--json",
             "--build", BUILD], capture_output=True, text=True, timeout=200, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)  # results that differ end it with an error
        rows = {row["method"]: row for row in json.loads(ran.stdout)["rows"]}
        self.assertEqual(set(rows), METHODS)
        for name, row in rows.items():
            with self.subTest(name):
                self.assertLess(abs(row["wireBytesPerMember"] / row["theoryBytes"] - 1), .02)
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
