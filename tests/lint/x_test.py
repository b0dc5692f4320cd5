#!/usr/bin/env python3
"""What ./x says of itself is true: the benches that its help names are those it can start."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_x(*arguments):
    return subprocess.run([str(ROOT / "x"), *arguments], capture_output=True, text=True,
                          check=False)


class XTest(unittest.TestCase):

    def test_help_names_exactly_the_benches_there_are(self):
        listed = run_x("bench", "--list")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        benches = listed.stdout.split()
        sources = [path.name for path in (ROOT / "tests/bench").glob("*_bench.*")]
        sources += [path.parent.name + "_bench" for path in (ROOT / "tests").glob("*/bench.py")]
        self.assertEqual(sorted(benches), sorted(name.split("_bench")[0] for name in sources))
        words = re.search(r"build and run a bench: (.*?);", run_x("help").stdout, re.DOTALL)
        named = re.findall(r"[a-z_]+", re.sub(r"\([^)]*\)", "", words.group(1)))
        self.assertEqual(sorted(benches), sorted(named))

    def test_every_bench_has_the_common_command_line(self):
        tests = ROOT / "tests"
        for path in [*tests.glob("bench/*_bench.py"), *tests.glob("*/bench.py")]:
            shown = subprocess.run([sys.executable, "-B", path, "--help"], capture_output=True,
                                   text=True, check=True).stdout
            for words in ("--json  ", "Needs: ", "Takes: ", "Exit code: 0 "):
                self.assertIn(words, shown, path)
        for path in tests.glob("bench/*_bench.c[cu]"):
            self.assertRegex(path.read_text(), "bench_command::(Command|RunGoogleBenchmarks)", path)

    def test_an_unknown_bench_is_answered_with_the_names(self):
        answer = run_x("bench", "no_such_bench")
        self.assertNotEqual(answer.returncode, 0)
        for name in ("codecs", "store", "quality", "link"):
            self.assertIn(name, answer.stderr)


if __name__ == "__main__":
    unittest.main()
