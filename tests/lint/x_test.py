#!/usr/bin/env python3
"""What ./x says of itself is true, and a step of ./x check that fails is not lost."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
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

    def test_help_names_exactly_the_steps_of_check(self):
        answer = run_x("check", "no_such_step")
        self.assertNotEqual(answer.returncode, 0)
        steps = re.search(r"there are: (.*)", answer.stderr).group(1).split()
        shown = re.search(r"  check \[STEP\.\.\.\](.*?)\n  demo", run_x("help").stdout, re.DOTALL)
        self.assertEqual(steps, re.findall(r"\b([a-z]+):", shown.group(1)))

    def test_every_fuzzer_has_a_small_corpus(self):
        fuzz = ROOT / "tests/fuzz"
        fuzzers = re.findall(r"^ *shoal_fuzz\((\w+)", (fuzz / "CMakeLists.txt").read_text(),
                             re.MULTILINE)
        self.assertEqual(sorted(fuzzers), sorted(path.name for path in (fuzz / "corpus").iterdir()))
        for name in fuzzers:
            sizes = [path.stat().st_size for path in (fuzz / "corpus" / name).iterdir()]
            self.assertTrue(sizes, name)
            self.assertLess(max(sizes), 8192, name)

    def wheels(self, extras, loader="", nvcc="exit 1"):
        """Names of wheels.lock that ./x setup would fetch on a machine whose loader finds the
        libraries of `loader`, and whose nvcc does this."""
        functions = (ROOT / "x").read_text().rsplit("\nmain ", 1)[0]
        with tempfile.TemporaryDirectory(prefix="x_test.") as folder:
            program = Path(folder) / "nvcc"
            program.write_text(f"#!/bin/sh\n{nvcc}\n")
            program.chmod(0o755)
            script = functions.replace("/usr/local/cuda/bin/nvcc", str(program)) + f"""
                loader_has() {{ case " {loader} " in *" $1 "*) true ;; *) false ;; esac; }}
                CUDACXX= PATH=/usr/bin:/bin
                while read -r name version when sum; do
                  case $name in '' | '#'*) continue ;; esac
                  if wheel_wanted "$when" "{extras}"; then echo "$name"; fi
                done <{ROOT}/deploy/wheels.lock"""
            done = subprocess.run(["bash", "-c", script, str(ROOT / "x")], capture_output=True,
                                  text=True, check=True)
        return done.stdout.split()

    def test_setup_fetches_what_a_machine_lacks(self):
        lines = [line.split() for line in (ROOT / "deploy/wheels.lock").read_text().splitlines()
                 if not line.startswith("#")]
        for line in lines:
            self.assertEqual(len(line), 4, line)
            self.assertRegex(line[3], "^[0-9a-f]{64}$")
        everything = [line[0] for line in lines]
        plain = ["torch", "nvidia-cuda-runtime", "nvidia-cuda-cupti"]
        self.assertEqual(self.wheels(""), plain)
        self.assertEqual(self.wheels("", "libcudart.so.13 libcupti.so.13"), ["torch"])
        self.assertEqual(self.wheels("cuda"), everything)
        new, old = (f"echo Cuda compilation tools, release {n}, V" for n in ("13.0", "12.4"))
        self.assertEqual(self.wheels("cuda", nvcc=old), everything)
        with_toolkit = self.wheels("cuda", "libcudart.so.13 libcupti.so.13 libnccl.so.2", new)
        self.assertEqual(with_toolkit, ["torch", "nvidia-cusparselt-cu13", "nvidia-nvshmem-cu13",
                                        "nvidia-cufile", "nvidia-cudnn-cu13"])

    def test_every_check_of_clang_tidy_is_explained(self):
        text = (ROOT / ".clang-tidy").read_text()
        explained = re.findall(r"^# ((?:bugprone|performance)-\S+) +\S", text, re.MULTILINE)
        self.assertEqual(explained, re.findall(r"^  ([a-z]+-[a-z-]+)", text, re.MULTILINE))


class CheckTest(unittest.TestCase):
    """./x in a tree of its own, with programs that do nothing or fail."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="x_test."))
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("x", "CMakePresets.json", "tests/fuzz/CMakeLists.txt", "tests/lint/cxx.py",
                     "tests/lint/tidy.py", "tests/lint/unity.py"):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.folder / name)
        (self.folder / "deploy").mkdir()
        (self.folder / "deploy/packages.debian").touch()
        (self.folder / "deploy/wheels.lock").touch()
        (self.folder / "a.cc").touch()
        (self.folder / "build/tidy").mkdir(parents=True)
        (self.folder / "build/tidy/compile_commands.json").write_text(json.dumps(
            [{"file": str(self.folder / "a.cc"), "command": "clang++ -c a.cc"}]))
        subprocess.run(["git", "init", "-q", self.folder], check=True)
        for name in ("cmake", "ninja", "promtool", "etcd", "nvcc", "clang-tidy-14"):
            self.program(name, "true")
        self.program("ctest", "echo '100% tests passed'")
        for name in re.findall(r"^ *shoal_fuzz\((\w+)",
                               (ROOT / "tests/fuzz/CMakeLists.txt").read_text(), re.MULTILINE):
            self.program(name, "true", "build/fuzz/fuzz")

    def program(self, name, body, folder=".deps/bin"):
        path = self.folder / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def check(self, *steps, **more):
        env = {name: value for name, value in os.environ.items() if name != "CCACHE_DISABLE"}
        return subprocess.run([str(self.folder / "x"), "check", *steps], capture_output=True,
                              text=True, check=False, env={**env, **more})

    def results(self, answer):
        return re.findall(r"^  (\w+) +(ok|FAILED) +\d+ min", answer.stderr, re.MULTILINE)

    def test_every_step_runs_and_the_summary_names_it(self):
        answer = self.check()
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(self.results(answer), [(step, "ok") for step in
                                                ("clang", "asan", "tsan", "fuzz", "nvcc", "tidy")])

    def test_a_step_that_fails_does_not_stop_the_later_ones(self):
        self.program("ctest", "echo '1 test failed'; exit 8")
        self.program("rans_fuzz", "echo 'SUMMARY: overflow'; exit 77", "build/fuzz/fuzz")
        self.program("clang-tidy-14", "echo 'a.cc:1: error: moved'; exit 1")
        answer = self.check("clang", "asan", "fuzz", "tidy")
        self.assertNotEqual(answer.returncode, 0)
        self.assertEqual(self.results(answer), [("clang", "ok"), ("asan", "FAILED"),
                                                ("fuzz", "FAILED"), ("tidy", "FAILED")])
        for words in ("1 test failed", "rans_fuzz found something", "SUMMARY: overflow",
                      "a.cc:1: error: moved", "check failed: asan fuzz tidy"):
            self.assertIn(words, answer.stderr)

    def test_the_end_says_what_the_compiler_cache_answered(self):
        for log, hits, said in (("a", "12 / 3401 ( 0.35%)", "12 of 3401 compilations"),
                                ("a", "0 / 7 ( 0.00%)", "none of 7 compilations"),
                                ("", "0 / 0", "none, nothing was compiled")):
            self.program("ninja", f"printf '{log}' >>\"$CCACHE_STATSLOG\"")
            self.program("ccache", "echo 'Cacheable calls: 9 / 9'\n"
                                   f"echo '  Hits: {hits}'\necho '    Direct: 5 / 5'\n"
                                   "echo 'Local storage:'\necho '  Hits: 1 / 2'")
            answer = self.check("clang")
            self.assertIn(f"== compiler cache: {said}\n", answer.stderr)
        self.assertRegex(answer.stderr, r"(?s)clang +ok.*compiler cache")
        answer = self.check("clang", CCACHE_DISABLE="1")
        self.assertIn("compiler cache: none, CCACHE_DISABLE is set\n", answer.stderr)


if __name__ == "__main__":
    unittest.main()
