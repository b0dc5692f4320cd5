#!/usr/bin/env python3
"""Sources are grouped where that cannot change them, and clang-tidy over groups misses nothing."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import unity

TIDY = Path(__file__).resolve().parent / "tidy.py"


class TreeTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, **files):
        for name, text in files.items():
            path = self.root / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)


class GroupsTest(TreeTest):

    def groups(self, files_max=8, **files):
        self.write(**files)
        return unity.groups([name.replace("_", ".") for name in files], files_max, self.root)

    def test_sources_without_local_names_go_together_up_to_the_limit(self):
        files = {f"{name}_cc": "namespace shoal { int F() { return 1; } }\n" for name in "abcde"}
        self.assertEqual(self.groups(**files), [[f"{name}.cc" for name in "abcde"]])
        self.assertEqual(self.groups(2, **files), [["a.cc", "b.cc"], ["c.cc", "d.cc"], ["e.cc"]])

    def test_a_local_name_twice_parts_two_sources(self):
        kinds = ["constexpr int Name = 1;", "int Name(int x) {\n  return x;\n}", "struct Name {};",
                 "template <class T, int N>\nT Name() { return T(N); }", "const int Name[] = {1};",
                 "enum class Name : int { kOne };", "Name<int, 2> Name(int y);"]
        for kind in kinds:
            text = f"namespace shoal {{\nnamespace {{\n{kind}\n}}  // namespace\n}}\n"
            other = "namespace shoal {\nnamespace {\nint Name = 2;\n}\n}\n"
            self.assertEqual(self.groups(a_cc=text, b_cc=other), [["a.cc"], ["b.cc"]], kind)
        self.assertEqual(self.groups(a_cc="#define Name 1\n", b_cc=other), [["a.cc"], ["b.cc"]])
        self.assertEqual(self.groups(a_cc="static int Name();\n", b_cc=other), [["a.cc"], ["b.cc"]])

    def test_what_lies_deeper_or_in_a_comment_is_no_local_name(self):
        text = "namespace {{\nint {}() {{\n  int same = 1;\n  return same;\n}}\n// int same;\n}}\n"
        self.assertEqual(self.groups(a_cc=text.format("A"), b_cc=text.format("B")),
                         [["a.cc", "b.cc"]])

    def test_equal_aliases_may_meet_and_others_may_not(self):
        text = "namespace shoal {\nnamespace fs = std::filesystem;\n}\n"
        other = "namespace shoal {\nnamespace fs = std::files;\n}\n"
        self.assertEqual(self.groups(a_cc=text, b_cc=text, c_cc=other), [["a.cc", "b.cc"],
                                                                        ["c.cc"]])

    def test_names_of_a_shared_part_clash_with_other_sources_only(self):
        part = "namespace shoal::client {\nint At(int x);\n}\n"
        user = '#include "x-inl.h"\n'
        other = "namespace {\nint At(int y) { return y; }\n}\n"
        self.write(**{"x-inl_h": part})
        self.assertEqual(self.groups(a_cc=user, b_cc=user, c_cc=other), [["a.cc", "b.cc"],
                                                                        ["c.cc"]])

    def test_a_source_that_includes_itself_stays_alone(self):
        self.assertEqual(self.groups(a_cc='#include "hwy/foreach_target.h"\n', b_cc="", c_cc=""),
                         [["b.cc", "c.cc"], ["a.cc"]])


class TidyTest(TreeTest):

    CLEAN = "int {}() {{ return 1; }}\n"
    MOVED = ("#include <string>\n#include <utility>\nstd::string {}(std::string a) {{\n"
             "  std::string b = std::move(a);\n  return a + b;\n}}\n")

    def tidy(self, absent=(), **files):
        self.write(**files)
        (self.root / ".clang-tidy").write_text(
            "Checks: '-*,bugprone-use-after-move'\nWarningsAsErrors: '*'\n")
        sources = [name.replace("__", "/").replace("_", ".") for name in files]
        (self.root / "compile_commands.json").write_text(json.dumps([
            {"file": str(self.root / source), "directory": str(self.root),
             "command": f"env X=1 /usr/bin/clang++ -O2 -std=c++20 -o x.o -c {source}"}
            for source in sources]))
        return subprocess.run([sys.executable, "-B", TIDY, "--build", self.root, *sources, *absent],
                              cwd=self.root, capture_output=True, text=True, check=False)

    def test_clean_sources_are_read_together_and_silently(self):
        answer = self.tidy(m__a_cc=self.CLEAN.format("A"), m__b_cc=self.CLEAN.format("B"))
        self.assertEqual((answer.returncode, answer.stdout), (0, ""), answer.stderr)
        self.assertEqual([path.name for path in (self.root / "unity").iterdir()], ["0.cc"])

    def test_a_finding_in_a_group_is_reported_with_its_source(self):
        answer = self.tidy(m__a_cc=self.CLEAN.format("A"), m__b_cc=self.MOVED.format("B"))
        self.assertEqual(answer.returncode, 1)
        self.assertRegex(answer.stdout, r"m/b\.cc:5:10: error: .*bugprone-use-after-move")

    def test_a_clash_costs_time_but_is_no_finding(self):
        answer = self.tidy(m__a_cc=self.CLEAN.format("A"), m__b_cc=self.CLEAN.format("A"))
        self.assertEqual(answer.returncode, 0)
        self.assertEqual(answer.stdout, "read one by one: m/a.cc m/b.cc\n")

    def test_a_source_that_no_target_compiles_is_an_error(self):
        answer = self.tidy(("c.cc",), m__a_cc=self.CLEAN.format("A"))
        self.assertEqual(answer.returncode, 1)
        self.assertIn("c.cc: error: no target compiles it", answer.stdout)


if __name__ == "__main__":
    unittest.main()
