#!/usr/bin/env python3
"""Proves the linter: a clean tree passes, and each tree with one violation is reported."""

import os
import tempfile
import unittest
from pathlib import Path

import cxx
import lint
import rules

STYLE = "BasedOnStyle: Google\nColumnLimit: 100\n"


def header(path, body="", module=None):
    """A module header in good order, with `body` in its namespace."""
    guard = "SHOAL_" + path.upper().replace("/", "_").replace(".", "_") + "_"
    folder = module or path.split("/")[0]
    space = "shoal" if folder == "common" else f"shoal::{folder}"
    return (f"#ifndef {guard}\n#define {guard}\n\nnamespace {space} {{\n{body}}}  // namespace "
            f"{space}\n\n#endif  // {guard}\n")


def clean_tree():
    return {
        ".clang-format": STYLE,
        "net/CMakeLists.txt": "shoal_library(net SRCS link.cc HDRS link.h)\n",
        "net/links/link.h": header("net/links/link.h", "int Open();\n"),
        "net/links/link.cc": '#include "net/links/link.h"\n\n#include <grpcpp/grpcpp.h>\n\n'
                             '#include <vector>\n',
    }


class LintTest(unittest.TestCase):

    def errors(self, **files):
        """The errors of the clean tree with `files` (path with '/' and '.') changed."""
        return self.errors_of({**clean_tree(), **files})

    def errors_of(self, files, absent=False):
        """`absent`: with those of absent headers; most tests do not write what they include."""
        with tempfile.TemporaryDirectory() as folder:
            for path, text in files.items():
                target = Path(folder, path)
                os.makedirs(target.parent, exist_ok=True)
                target.write_text(text, encoding="utf-8")
            errors = lint.lint(folder).errors
            return errors if absent else [e for e in errors if "does not exist" not in e]

    def expect_one(self, files, path, part):
        errors = self.errors_of({**clean_tree(), **files})
        self.assertEqual(len(errors), 1, errors)
        self.assertTrue(errors[0].startswith(path + ":"), errors)
        self.assertIn(part, errors[0])

    def with_source(self, path, text, more=""):
        folder, name = path.rsplit("/", 1)
        files = {path: text}
        if folder != "net":
            files[f"{folder}/CMakeLists.txt"] = name + "\n"
        else:
            files["net/CMakeLists.txt"] = "link.cc link.h " + name + "\n"
        return files

    def test_clean_tree_passes(self):
        self.assertEqual(self.errors(), [])

    def test_arrow_between_modules(self):
        self.expect_one(self.with_source("net/links/a.cc", '#include "model/stage_model.h"\n'),
                        "net/links/a.cc", "net/ must not include model/")
        self.expect_one(self.with_source("client/a.cc", '#include "storage/delta/delta_store.h"\n'),
                        "client/a.cc", "client/ must not include storage/")
        self.expect_one(self.with_source("common/a.cc", '#include "net/links/link.h"\n'),
                        "common/a.cc", "common/ must not include net/")

    def test_a_name_of_std_needs_its_header(self):
        text = '#include <string>\n\n#include "net/links/link.h"\n\nstd::{} value;\n'
        files = self.with_source("net/links/a.cc", text.format("string_view"))
        self.assertEqual(self.errors(**files), [])  # <string> brings it along
        files = self.with_source("net/links/a.cc", text.format("vector<int>"))
        self.expect_one(files, "net/links/a.cc:5", "std::vector needs <vector>")
        files["net/links/link.h"] = "#include <vector>\n" + clean_tree()["net/links/link.h"]
        self.assertEqual([e for e in self.errors(**files) if "needs" in e], [])
        files = self.with_source("net/links/a.cc", text.format("string a;  // std::vector"))
        self.assertEqual(self.errors(**files), [])

    def test_arrow_of_a_single_file(self):
        text = '#include "dataset/prepared_data.h"\n'
        self.assertEqual(self.errors(**self.with_source("model/run/eval.cc", text)), [])
        self.expect_one(self.with_source("model/gpt2.cc", text), "model/gpt2.cc", "dataset/")

    def test_pipeline_sees_interfaces_only(self):
        text = '#include "storage/delta/delta_store.h"\n'
        self.assertEqual(self.errors(**self.with_source("pipeline/core/a.cc", text)), [])
        text = '#include "storage/delta/rocks_delta_store.h"\n'
        self.expect_one(self.with_source("pipeline/core/a.cc", text), "pipeline/core/a.cc",
                        "interfaces only")

    def test_include_from_nowhere(self):
        self.expect_one(self.with_source("net/links/a.cc", '#include "link.h"\n'), "net/links/a.cc",
                        "lies in no module")

    def test_a_source_includes_its_own_header_first(self):
        text = '// clang-format off\n#include <vector>\n\n#include "net/links/link.h"\n'
        self.expect_one({"net/links/link.cc": text}, "net/links/link.cc",
                        'the first include must be "net/links/link.h"')

    def test_include_of_an_absent_file(self):
        text = '#include "net/links/gone.h"\n#include "proto/bulk.pb.h"\n'
        files = {**clean_tree(), **self.with_source("net/links/a.cc", text),
                 "proto/bulk.proto": ""}
        self.assertEqual(self.errors_of(files, absent=True),
                         ['net/links/a.cc:1: "net/links/gone.h" does not exist'])

    def test_third_party_in_the_wrong_folder(self):
        for path, include in [
                ("pipeline/core/a.cc", "torch/torch.h"), ("daemon/a.cc", "ATen/ATen.h"),
                ("scheduler/server/a.cc", "grpcpp/server.h"), ("model/a.cc", "rocksdb/db.h"),
                ("net/links/a.cc", "boost/asio.hpp"), ("net/links/a.cc", "spdlog/spdlog.h"),
                ("pipeline/core/a.cc", "openssl/evp.h"), ("storage/files/a.cc", "toml++/toml.h")]:
            with self.subTest(include=include):
                self.expect_one(self.with_source(path, f"#include <{include}>\n"), path,
                                "is not allowed in this file")

    def test_generated_service_only_in_net(self):
        text = '#include "proto/control.grpc.pb.h"\n'
        self.assertEqual(self.errors(**self.with_source("net/links/a.cc", text)), [])
        self.expect_one(self.with_source("scheduler/server/a.cc", text),
                        "scheduler/server/a.cc", "gRPC")

    def test_third_party_where_it_belongs(self):
        for path, include in [
                ("model/a.cc", "ATen/ATen.h"), ("storage/files/a.cc", "rocksdb/db.h"),
                ("net/http/beast_http.cc", "boost/beast.hpp"), ("client/a.cc", "nlohmann/json.hpp"),
                ("common/asio_executor.cc", "boost/asio.hpp"), ("net/links/a.cc", "unistd.h"),
                ("compression/device/codecs/a.cu", "cuda_runtime.h")]:
            with self.subTest(include=include):
                files = self.with_source(path, f"#include <{include}>\n")
                self.assertEqual(self.errors(**files), [])

    def test_unknown_header(self):
        self.expect_one(self.with_source("net/links/a.cc", "#include <zmq.h>\n"),
                        "net/links/a.cc", "is unknown")

    def test_module_header_is_std_only(self):
        for include in ("nlohmann/json.hpp", "grpcpp/grpcpp.h", "unistd.h"):
            with self.subTest(include=include):
                body = header("net/links/link.h", "int Open();\n").replace(
                    "\n\nnamespace", f"\n\n#include <{include}>\n\nnamespace", 1)
                self.expect_one({"net/links/link.h": body}, "net/links/link.h", "std only")

    def test_only_its_module_includes_an_inner_room(self):
        body = header("model/blocks/norm.h", "int Open();\n").replace(
            "\n\nnamespace", "\n\n#include <ATen/core/Tensor.h>\n\nnamespace", 1)
        self.assertEqual(self.errors(**{"model/blocks/norm.h": body,
                                        "model/CMakeLists.txt": "blocks/norm.h\n"}), [])
        self.expect_one(self.with_source("daemon/a.cc", '#include "model/blocks/norm.h"\n'),
                        "daemon/a.cc", "only model/ includes model/blocks/")

    def test_generated_messages_in_a_net_header(self):
        body = header("net/links/link.h", "int Open();\n").replace(
            "\n\nnamespace", '\n\n#include "proto/bulk.pb.h"\n\nnamespace', 1)
        self.assertEqual(self.errors(**{"net/links/link.h": body}), [])

    def test_include_against_the_folders_of_a_module(self):
        for path, include in [("compression/api/a.cc", "compression/codecs/b.h"),
                              ("compression/simd/a.cc", "compression/api/b.h"),
                              ("compression/codecs/a.cc", "compression/codecs/aqsgd/b.h"),
                              ("compression/codecs/aqsgd/a.cc", "compression/device/b.h"),
                              ("compression/device/a.cc", "compression/device/codecs/b.h")]:
            with self.subTest(path=path):
                self.expect_one(self.with_source(path, f'#include "{include}"\n'), path,
                                "must not include " + include.rsplit("/", 1)[0])

    def test_include_along_the_folders_of_a_module(self):
        for include in ("compression/api/b.h", "compression/codecs/b.h", "compression/simd/b.h"):
            files = self.with_source("compression/codecs/aqsgd/a.cc", f'#include "{include}"\n')
            self.assertEqual(self.errors(**files), [])

    def test_folders_include_lower_ones_only(self):
        """So that the folders of a module have no cycle."""
        below = set()
        for folder, others in rules.FOLDER_ARROWS.items():
            below.add(folder)
            module = lint.module_of(folder + "/")
            targets = {os.path.normpath(f"{module}/{other}") for other in others}
            self.assertLessEqual(targets, below - {folder}, folder)

    def test_source_beside_the_folders_of_a_module(self):
        for path in ("compression/a.cc", "compression/codecs/unlisted/a.cc"):
            self.expect_one(self.with_source(path, ""), path, "is divided")

    def test_crowded_folder(self):
        # In a folder of a divided module, in a module without folders, and beside the modules.
        for folder in ("compression/api", "client", "tests/unit/daemon"):
            files = {}
            for i in range(rules.FOLDER_FILES_MAX + 1):
                files.update(self.with_source(f"{folder}/a{i}.cc", ""))
            cmake = "".join(f"a{i}.cc " for i in range(rules.FOLDER_FILES_MAX + 1))
            files[f"{folder.split('/')[0]}/CMakeLists.txt"] = f"shoal_library(x SRCS {cmake})\n"
            self.expect_one(files, f"{folder}/a0.cc", "41 sources, the limit is 40")
            del files[f"{folder}/a0.cc"]
            self.assertEqual(self.errors(**files), [])

    def test_guard(self):
        body = clean_tree()["net/links/link.h"].replace("SHOAL_NET_LINKS_LINK_H_", "NET_LINK_H")
        self.expect_one({"net/links/link.h": body}, "net/links/link.h",
                        "SHOAL_NET_LINKS_LINK_H_")

    def test_namespace(self):
        body = header("net/links/link.h", "int Open();\n", module="pipeline")
        self.expect_one({"net/links/link.h": body}, "net/links/link.h", "shoal::net")

    def test_two_types_of_one_name(self):
        other = header("net/links/a.h", "struct Request {\n  int x = 0;\n};\n")
        files = {"net/CMakeLists.txt": "link.cc link.h a.h\n", "net/links/a.h": other,
                 "net/links/link.h": header("net/links/link.h", "struct Request;\n")}
        self.assertEqual(self.errors(**files), [])
        files["net/links/link.h"] = header(
            "net/links/link.h", "class Request final : public Base {\n  int y = 0;\n};\n")
        self.expect_one(files, "net/links/link.h", "shoal::net::Request is in net/links/a.h, too")

    def test_cycle_of_units(self):
        other = header("net/links/a.h", "int A();\n")
        files = {"net/CMakeLists.txt": "link.cc link.h a.cc a.h\n", "net/links/a.h": other,
                 "net/links/a.cc": '#include "net/links/a.h"\n\n#include "net/links/link.h"\n'}
        self.assertEqual(self.errors(**files), [])
        body = header("net/links/link.h", "int Open();\n").replace(
            "namespace", '#include "net/links/a.h"\n\nnamespace', 1)
        self.expect_one({**files, "net/links/link.h": body}, "net/links/a",
                        "include cycle of units: net/links/a, net/links/link")

    def test_long_function(self):
        def function(lines):
            return "int F() {\n" + "  f();\n" * (lines - 2) + "}\n"
        self.assertEqual(self.errors(**self.with_source("net/links/a.cc", function(70))), [])
        self.expect_one(self.with_source("net/links/a.cc", function(71)), "net/links/a.cc",
                        "a function of 71 lines")

    def test_long_file_and_header(self):
        self.expect_one(self.with_source("net/links/a.cc", "int f();\n" * 601),
                        "net/links/a.cc", "601 lines")
        body = header("net/links/link.h", "int Open();\n" * 245)
        self.expect_one({"net/links/link.h": body}, "net/links/link.h", "the limit is 250")

    def test_long_line(self):
        line = "// " + "https://x/" * 10 + "\n"  # clang-format cannot break it
        self.expect_one(self.with_source("net/links/a.cc", line), "net/links/a.cc", "103 columns")

    def test_banned_words(self):
        for words in ("TODO", "FIXME", "XXX", "HACK", "Not implemented", "for now", "placeholder",
                      "see /{}/x".format("work"), "in /{}/x".format("root"), "/home/ann/x"):
            with self.subTest(words=words):
                self.expect_one({"docs/A.md": f"one\n{words}\n"}, "docs/A.md:2", "banned")
        fine = "mktemp tmp.XXXXXX, hacky, ~/home/x, a/home/b, <input placeholder=\"prompt\">\n"
        self.assertEqual(self.errors(**{"docs/A.md": fine, "tests/data/t.txt": "for now\n"}), [])

    def test_json_is_parsed_with_a_bound(self):
        source = "int a = Json::parse(text);\n"
        self.expect_one(self.with_source("net/links/a.cc", source), "net/links/a.cc", "banned")

    def test_what_a_search_for_a_bug_leaves(self):
        path = "net/links/a.cc"
        for source in ("int a;  // DEBUG\n", "auto a = getenv(x);\n", "int a = fprintf(b, c);\n"):
            with self.subTest(source=source):
                self.expect_one(self.with_source(path, source), path, "banned")
        fine = "#include <cstdlib>\nauto a = std::getenv(name);\n"
        self.assertEqual(self.errors(**self.with_source(path, fine)), [])

    def test_dead_file(self):
        self.expect_one({"net/links/a.cc": "int a;\n"}, "net/links/a.cc", "dead file")
        self.expect_one({"net/CMakeLists.txt": "link.cc my_link.h\n"}, "net/links/link.h",
                        "dead file")

    def test_foreach_names_files(self):
        lists = "foreach(name a b)\n  add(${name}_test SRCS ${name}_test.cc)\nendforeach()\n"
        files = {"tests/CMakeLists.txt": lists, "tests/a_test.cc": "int a;\n"}
        self.assertEqual(self.errors(**files), [])
        files["tests/c_test.cc"] = "int c;\n"
        self.expect_one(files, "tests/c_test.cc", "dead file")

    def test_locks_are_those_of_the_page(self):
        lock = "#include \"common/mutex.h\"\n\nmutable Mutex mutex_;\n"
        files = {**self.with_source("net/links/a.cc", lock), "common/mutex.h": header(
            "common/mutex.h", "int Lock();\n"), "common/CMakeLists.txt": "mutex.h\n"}
        page = "| file | lock |\n|---|---|\n| `a.cc` | `mutex_` | all | any |\n"
        self.assertEqual(self.errors(**files, **{"docs/THREADS.md": page}), [])
        self.expect_one({**files, "docs/THREADS.md": "no table\n"}, "docs/THREADS.md:1",
                        "mutex_ of a.cc is not in the table")
        self.expect_one({**files, "docs/THREADS.md": page + "| `b.cc` | `mutex_` | x | any |\n"},
                        "docs/THREADS.md:4", "no lock mutex_ in b.cc")
        files["net/links/a.cc"] += "Mutex mutex_;\n"
        self.expect_one({**files, "docs/THREADS.md": page}, "docs/THREADS.md:1", "not in the table")

    def test_locks_are_ours(self):
        for lock in ("std::mutex", "std::shared_mutex", "pthread_mutex_t"):
            with self.subTest(lock=lock):
                source = f"#include <mutex>\n\n{lock} mutex;\n"
                self.expect_one({**self.with_source("net/links/a.cc", source),
                                 "docs/THREADS.md": "\n"}, "net/links/a.cc:3", "common/mutex.h")

    def threads_of(self, **changes):
        """A class of the control thread in good order, with pieces of it changed."""
        pieces = {
            "doc": "", "inline": "    SHOAL_ASSERT_ON(*control_);\n    return 1;\n",
            "outside": "  SHOAL_ASSERT_ON(*control_);\n", "any": "  // Constant. Thread: any.\n",
            "base": "", "owner": "  Executor* const control_;\n", **changes}
        return self.with_source("net/links/a.cc", (
            "#include <functional>\n\n"
            "class Base {{\n public:\n  virtual void Free() = 0;  // Thread: any.\n"
            "  virtual void Bound() = 0;\n}};\n\n{doc}class A final : public Base {{\n public:\n"
            "  explicit A(Executor* control) : control_(control) {{}}\n  ~A() {{ Close(); }}\n"
            "  A& operator=(const A&) = delete;\n\n{any}  int size() const {{ return 1; }}\n"
            "  int rank() const {{ return size(); }}\n\n  void Free() override {{}}\n"
            "  int Count() {{\n{inline}  }}\n  void Act();\n\n private:\n{base}"
            "  void Own() {{ Act(); }}\n"
            "  std::function<void(int)> done_ = nullptr;\n{owner}}};\n\n"
            "void A::Act() {{\n{outside}  Own();\n  done_();\n}}\n").format(**pieces))

    def test_methods_assert_their_thread(self):
        self.assertEqual(self.errors(**self.threads_of()), [])
        for changes, method in (({"inline": "    Act();\n    return 1;\n"}, "Count"),
                                ({"outside": ""}, "Act"), ({"any": ""}, "size"),
                                ({"base": "  void Bound() override {}\n"}, "Bound")):
            with self.subTest(method=method):
                errors = self.errors(**self.threads_of(**changes))
                self.assertTrue(errors[0].startswith("net/links/a.cc:"), errors)
                self.assertIn(f"A::{method} must begin with SHOAL_ASSERT_ON", errors[0])

    def test_other_classes_assert_no_thread(self):
        silent = {"inline": "    Act();\n    return 1;\n", "outside": ""}
        self.assertIn("A::", self.errors(**self.threads_of(**silent))[0])
        for changes in ({"owner": "  Executor* control_;\n"},
                        {"doc": "// Thread: any, unless noted.\n"}):
            with self.subTest(changes=changes):
                self.assertEqual(self.errors(**self.threads_of(**silent, **changes)), [])

    def test_format(self):
        self.expect_one(self.with_source("net/links/a.cc", "int  a;\n"), "net/links/a.cc",
                        "not formatted")


class FunctionsTest(unittest.TestCase):

    def lines(self, text):
        return cxx.functions(text)

    def test_methods_in_classes_and_namespaces(self):
        text = ("namespace a {\nclass B : public C {\n public:\n  B(int x) : x_{x}, y_(1) {\n"
                "    if (x) {\n    }\n  }\n  int f() const override { return 1; }\n"
                "  int x_ = 0;\n};\n}\n")
        self.assertEqual(self.lines(text), [(4, 7), (8, 8)])

    def test_templates_attributes_and_macros(self):
        text = ("template <class T>\nT F(T x) {\n  return x;\n}\n"
                "class MACRO(\"x\") G {\n  int g() { return 1; }\n};\n"
                "#define H(x) \\\n  do {       \\\n  } while (0)\nTEST(A, B) {\n}\n")
        self.assertEqual(self.lines(text), [(1, 4), (6, 6), (11, 12)])

    def test_braces_in_literals_and_comments(self):
        text = ("int F() {\n  // }\n  const char* s = \"}\";\n  auto r = R\"x(}})x\";\n"
                "  char c = '}'; int n = 1'000'000;\n  return 0; /* } */\n}\nint z = 3;\n")
        self.assertEqual(self.lines(text), [(1, 7)])

    def test_tables_are_no_functions(self):
        text = "constexpr int kTable[] = {\n  1,\n  2,\n};\nconst X kX = {{1, f(2)}, {3, f(4)}};\n"
        self.assertEqual(self.lines(text), [])

    def test_extern_c(self):
        self.assertEqual(self.lines("extern \"C\" int F(int x) {\n  if (x) {\n  }\n}\n"), [(1, 4)])


if __name__ == "__main__":
    unittest.main()
