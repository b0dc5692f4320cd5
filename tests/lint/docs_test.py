#!/usr/bin/env python3
"""Checks what the pages say of the tree: files that they name, links, their length in all, the
module graph, and the versions of the changelog."""

import os
import re
import tempfile
import unittest
from pathlib import Path

import lint
import rules

ROOT = Path(__file__).resolve().parents[2]
PAGE = re.compile(r"(README|CONTRIBUTING)\.md$|docs/.*\.md$")
FENCE = re.compile(r"^ {0,3}(```|~~~).*?^ {0,3}\1 *$", re.M | re.S)
CODE = re.compile(r"`([^`\n]+)`")
# "folder/file.cc", or one of its functions: "folder/file.cc: Function".
FILE = re.compile(r"(?P<path>(?P<folder>[\w.-]+)/(?:[\w.-]+/)*[\w.-]+\.[A-Za-z]\w*)"
                  r"(?:: *(?:\w+::)*(?P<function>\w+)(?:\(\))?)?$")
LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
GENERATED = re.compile(r"\.pb\.(h|cc)$")


def pages_of(tree):
    return {path: text for path, text in tree.texts.items() if PAGE.match(path)}


def without_fences(text):
    """Code blocks become empty lines, so that line numbers stay."""
    return FENCE.sub(lambda match: "\n" * match.group(0).count("\n"), text)


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def slugs_of(text):
    """The anchors of a page's headings."""
    titles = re.findall(r"^#+ +(.*?) *#*$", without_fences(text), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def check_files(tree):
    """A path in backticks that begins with a folder of the tree is that of a file in it, and the
    file has the function that is named behind it."""
    folders = {path.split("/", 1)[0] for path in tree.paths if "/" in path}
    files = set(tree.paths)
    for page, text in pages_of(tree).items():
        plain = without_fences(text)
        for match in CODE.finditer(plain):
            named = FILE.match(match.group(1))
            if not named or named["folder"] not in folders or GENERATED.search(named["path"]):
                continue
            path, function = named["path"], named["function"]
            line = line_of(plain, match.start())
            if path not in files:
                tree.report(page, line, f"no such file: {path}")
            elif function and not re.search(rf"\b{function}\(", tree.texts.get(path, "")):
                tree.report(page, line, f"{path} has no function {function}")


def check_links(tree):
    """A relative link leads to a file or folder of the tree, and to a heading if it names one."""
    known = set(tree.paths)
    for path in tree.paths:
        known.update(str(folder) for folder in Path(path).parents)
    for page, text in pages_of(tree).items():
        plain = without_fences(text)
        for match in LINK.finditer(CODE.sub(lambda code: " " * len(code.group(0)), plain)):
            target, _, anchor = match.group(1).partition("#")
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            path = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
            line = line_of(plain, match.start())
            if path not in known:
                tree.report(page, line, f"the link leads to nothing: {match.group(1)}")
            elif anchor and path.endswith(".md") and anchor not in slugs_of(tree.texts[path]):
                tree.report(page, line, f"the page has no such heading: {match.group(1)}")


def check_words(tree, limit):
    words = {page: len(text.split()) for page, text in pages_of(tree).items()}
    if sum(words.values()) > limit:
        longest = sorted(words, key=words.get, reverse=True)[:5]
        tree.report(longest[0], 1, f"all pages together have {sum(words.values())} words, the "
                                   f"limit is {limit}; the longest are " +
                    ", ".join(f"{page} ({words[page]})" for page in longest))


def check_modules(text):
    """The table and the list of "Module graph" say what rules.py enforces. Yields the errors."""
    section = re.search(r"^## Module graph$(.*?)^## ", text, re.M | re.S).group(1)
    rows = [[cell.strip() for cell in line.split("|")]
            for line in section.splitlines() if "|" in line]
    shown = {module: set(filter(None, others.split(", "))) for module, others, *_ in rows[2:]}
    wanted = {module: others - {"common"} for module, others in rules.ARROWS.items()}
    for module in sorted(shown.keys() | wanted.keys()):
        if shown.get(module) != wanted.get(module):
            yield (f"{module}: the page says {shown.get(module)}, rules.py says "
                   f"{wanted.get(module)}")
    rooms = {f"{module}/{room}"
             for module, names in re.findall(r"^- ([\w/]+): (.*(?:\n  .*)*)", section, re.M)
             for room in re.findall(r"`([\w/]+)`", names)}
    for room in sorted(rooms ^ (rules.FOLDER_ARROWS.keys() - rules.ARROWS.keys())):
        yield f"{room}/ is not both on the page and in rules.py"


def check_changelog(text):
    """Unreleased first, then the versions, the newest first, with dates. Yields the errors."""
    heads = re.findall(r"^## (.*)$", text, re.M)
    if heads[:1] != ["[Unreleased]"]:
        yield "the first section is not [Unreleased]"
        return
    found = [re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d\d-\d\d)", head)
             for head in heads[1:]]
    if not all(found):
        yield "a version is not written as: [1.2.3] - 2026-01-31"
    else:
        versions = [(tuple(map(int, match.groups()[:3])), match.group(4)) for match in found]
        if not versions or versions != sorted(set(versions), reverse=True):
            yield "the versions are not in order, the newest first"


def check(root, words_max=rules.DOCS_WORDS_MAX):
    tree = lint.Tree(root)
    check_files(tree)
    check_links(tree)
    check_words(tree, words_max)
    return tree.errors


class DocsTest(unittest.TestCase):

    def errors(self, page, words_max=1000, path="docs/page.md"):
        """Of a tree with this page and a few files."""
        files = {"net/link.h": "int Open();\n",
                 "docs/OTHER.md": "# Other page\n\n## Bytes, on `wire`\n",
                 path: page}
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                os.makedirs(Path(folder, name).parent, exist_ok=True)
                Path(folder, name).write_text(text, encoding="utf-8")
            return check(folder, words_max)

    def expect_one(self, page, line, part, **more):
        errors = self.errors(page, **more)
        self.assertEqual(len(errors), 1, errors)
        self.assertIn(f":{line}: ", errors[0])
        self.assertIn(part, errors[0])

    def test_the_tree(self):
        if errors := check(ROOT):
            self.fail("\n" + "\n".join(errors))

    def test_the_module_graph(self):
        page = (ROOT / "docs/ARCHITECTURE.md").read_text()
        self.assertEqual(list(check_modules(page)), [])
        for old, new, part in [("\nclient|proto, net|", "\nclient|proto|", "client: "),
                               ("\noptimizer||\n", "\n", "optimizer: "),
                               (" `boundary`,", "", "pipeline/boundary/ is not")]:
            self.assertEqual(page.count(old), 1, old)
            errors = list(check_modules(page.replace(old, new)))
            self.assertEqual(len(errors), 1, errors)
            self.assertIn(part, errors[0])

    def test_the_changelog(self):
        self.assertEqual(list(check_changelog((ROOT / "CHANGELOG.md").read_text())), [])
        for text in ["## [0.1.0] - 2026-01-31\n", "## [Unreleased]\n",
                     "## [Unreleased]\n## [0.1.0]\n",
                     "## [Unreleased]\n## [0.9.0] - 2026-01-31\n## [0.10.0] - 2026-02-01\n"]:
            self.assertEqual(len(list(check_changelog(text))), 1, text)

    def test_file(self):
        self.assertEqual(self.errors("See `net/link.h`.\n"), [])
        self.expect_one("One.\n\nSee `net/lane.h`.\n", 3, "no such file: net/lane.h")
        self.expect_one("`docs/gone.md`\n", 1, "docs/gone.md", path="README.md")
        self.expect_one("`docs/gone.md`\n", 1, "docs/gone.md", path="docs/deep/page.md")

    def test_function(self):
        self.assertEqual(self.errors("`net/link.h: Open` `net/link.h: Link::Open()`\n"), [])
        self.expect_one("\n`net/lane.h: Open`\n", 2, "no such file: net/lane.h")
        self.expect_one("`net/link.h: Close`\n", 1, "net/link.h has no function Close")
        self.expect_one("`net/link.h: Op`\n", 1, "net/link.h has no function Op")

    def test_no_file_of_the_tree(self):
        for text in ["`net/`", "`net/*.h`", "`link.h`", "`state/log.json`", "`cat net/lane.h`",
                     "`net/control.pb.h`", "net/lane.h", "```\n`net/lane.h`\n```"]:
            self.assertEqual(self.errors(text + "\n"), [], text)

    def test_link(self):
        self.assertEqual(self.errors("[a](OTHER.md) [b](../net/link.h) [c](../net) [d](../net/)\n"
                                     "[e](https://example.com/x.md) `[f](gone.md)` [g](#h)\n\n# H\n"
                                     "[i](OTHER.md#other-page) [j](OTHER.md#bytes-on-wire)\n"), [])
        self.expect_one("\n[a](GONE.md)\n", 2, "leads to nothing: GONE.md")
        self.expect_one("[a](../docs/GONE.md \"title\")\n", 1, "leads to nothing")
        self.expect_one("[![a](gone.svg)](OTHER.md)\n", 1, "leads to nothing: gone.svg")
        self.expect_one("[a](OTHER.md#gone)\n", 1, "no such heading: OTHER.md#gone")

    def test_words(self):
        words = len("# Other page ## Bytes, on `wire`".split())
        self.assertEqual(self.errors("one two three\n", words_max=words + 3), [])
        self.expect_one("one two three\n", 1, f"{words + 3} words, the limit is {words + 2}",
                        words_max=words + 2)


if __name__ == "__main__":
    unittest.main()
