#!/usr/bin/env python3
"""Checks what the compiler does not: layering, formatting, lengths, banned words, dead files.

usage: lint.py [ROOT]      prints `file:line: what is wrong`; exit status 1 if anything is.
"""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import cxx
import rules

CXX = (".h", ".cc", ".cu", ".cuh")
HEADERS = (".h", ".cuh")
SKIPPED_FOLDERS = ("build", ".deps", ".git", ".cache")
# Data is not ours to word, and the linter has to name what it bans.
WORDS_FREE = ("tests/lint/", "tests/data/", "examples/")


class Tree:
    """The files of a source tree, read once."""

    def __init__(self, root):
        self.root = Path(root)
        self.paths = sorted(self._listed())
        self.texts = {}
        for path in self.paths:
            try:
                self.texts[path] = (self.root / path).read_text(encoding="utf-8")
            except (UnicodeDecodeError, OSError):
                continue  # binary data, or deleted and not yet committed
        self.errors = []

    def _listed(self):
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=self.root,
            capture_output=True, text=True, check=False) if (self.root / ".git").exists() else None
        if listed is not None and listed.returncode == 0:
            return listed.stdout.splitlines()
        found = []
        for folder, folders, names in os.walk(self.root):
            folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS]
            found += [os.path.relpath(os.path.join(folder, name), self.root) for name in names]
        return found

    def cxx(self):
        return [p for p in self.texts if p.endswith(CXX)]

    def report(self, path, line, message):
        self.errors.append(f"{path}:{line}: {message}")


def line_at(text, offset):
    return text.count("\n", 0, offset) + 1


def longest_prefix(path, folders):
    """The deepest of `folders` that a file lies in; None: in none of them."""
    folder = path.rpartition("/")[0]
    while folder and folder not in folders:
        folder = folder.rpartition("/")[0]
    return folder or None


def module_of(path):
    return longest_prefix(path, rules.ARROWS)


def folder_of(path):
    """The folder that a file lies directly in, if rules.FOLDER_ARROWS has it."""
    folder = path.rpartition("/")[0]
    return folder if folder in rules.FOLDER_ARROWS else None


def check_folder_include(tree, path, line, header):
    """An include between two folders of one module."""
    source, target = folder_of(path), folder_of(header)
    if source is None or target is None or source == target:
        return
    module = module_of(path)
    if target not in {os.path.normpath(f"{module}/{f}") for f in rules.FOLDER_ARROWS[source]}:
        tree.report(path, line, f"layering: {source}/ must not include {target}/ ({header})")


def check_own_include(tree, path, line, header):
    module, target = module_of(path), module_of(header)
    if target == module:
        check_folder_include(tree, path, line, header)
        return
    allowed = set(rules.ARROWS[module])
    for pattern, more in rules.EXTRA_ARROWS:
        if pattern.match(path):
            allowed |= more
    if target is None:
        tree.report(path, line, f'"{header}" lies in no module: include from the root')
    elif target not in allowed:
        tree.report(path, line, f"layering: {module}/ must not include {target}/ ({header})")
    elif module in rules.INTERFACES_ONLY and rules.TECHNOLOGY_HEADER.search(header):
        tree.report(path, line, f"layering: {module}/ sees interfaces only, not {header}")
    elif os.path.dirname(header) in rules.INNER_ROOMS:
        tree.report(path, line, f"layering: only {target}/ includes {os.path.dirname(header)}/")


def third_party_of(header):
    for name, pattern, where in rules.THIRD_PARTY:
        if re.match(pattern, header):
            return name, where
    return None, None


def check_foreign_include(tree, path, line, header):
    if header in rules.STD_HEADERS:
        return
    name, where = third_party_of(header)
    is_header = path.endswith(".h") and not path.endswith("-inl.h")
    if name is not None:
        if is_header and rules.INNER_ROOMS.get(os.path.dirname(path)) == name:
            return
        if is_header:
            tree.report(path, line, f"module headers are std only, not {name} (<{header}>)")
        elif not re.match(where, path):
            tree.report(path, line, f"layering: {name} (<{header}>) is not allowed in this file")
    elif rules.SYSTEM_HEADER.match(header):
        if is_header:
            tree.report(path, line, f"module headers are std only, not <{header}>")
    else:
        tree.report(path, line, f"<{header}> is unknown: add it to tests/lint/rules.py or drop it")


def check_includes(tree):
    for path in tree.cxx():
        if module_of(path) is None:
            continue
        for line, header, quoted in cxx.includes(tree.texts[path]):
            if header.endswith(".grpc.pb.h") or not quoted:
                check_foreign_include(tree, path, line, header)
            else:
                check_own_include(tree, path, line, header)
                check_exists(tree, path, line, header)


def check_first_include(tree):
    """A source includes its own header first, so that compiling it shows what the header lacks."""
    for path in tree.cxx():
        own = re.sub(r"\.cc$", ".h", path)
        if own == path or own not in tree.texts or module_of(path) is None:
            continue
        first = next(iter(cxx.includes(tree.texts[path])), (1, "", False))
        if first[1] != own:
            tree.report(path, first[0], f'the first include must be "{own}"')


def check_exists(tree, path, line, header):
    """Compilers do not see the includes of a file that no target of theirs builds."""
    generated = re.sub(r"\.pb\.h$", ".proto", header)
    if header not in tree.texts and generated not in tree.texts and module_of(header):
        tree.report(path, line, f'"{header}" does not exist')


class StdIncludes:
    """The standard headers that a file has of its own and through headers of ours."""

    def __init__(self, tree):
        self.includes = {path: cxx.includes(tree.texts[path]) for path in tree.cxx()}

    def of(self, path):
        found, seen, left = set(), {path}, [path]
        while left:
            at = left.pop()
            for _, header, quoted in self.includes[at]:
                if not quoted:
                    found.add(header)
                    continue
                for folder in ("", "tests", os.path.dirname(at)):
                    own = os.path.join(folder, header)
                    if own in self.includes and own not in seen:
                        seen.add(own)
                        left.append(own)
        return found


def check_std_names(tree):
    """A file gets what it names of std from headers that it includes, not from precompiled ones."""
    home = {name: header for header, names in rules.STD_NAMES.items() for name in names.split()}
    includes = StdIncludes(tree)
    for path in tree.cxx():
        if not path.endswith((".h", ".cc")):
            continue
        code = cxx.without_comments(tree.texts[path])
        have, missing = includes.of(path), {}
        for found in re.finditer(r"\bstd::((?:ranges::)?\w+)", code):
            header = home.get(found[1])
            if header and not have & {header, *rules.STD_WITHIN.get(header, ())}:
                missing.setdefault(header, found)
        for header, found in missing.items():
            tree.report(path, line_at(code, found.start()), f"{found[0]} needs <{header}>")


def check_guards(tree):
    for path in tree.cxx():
        if not path.endswith(HEADERS) or path.endswith("-inl.h"):
            continue
        name = "SHOAL_" + re.sub(r"\W", "_", path).upper() + "_"
        text = tree.texts[path]
        if not re.search(rf"^#ifndef {name}\n#define {name}\n", text, re.M):
            tree.report(path, 1, f"the include guard must be {name}")


def check_namespaces(tree):
    for path in tree.cxx():
        module = module_of(path)
        if module is None or not path.endswith(".h") or path.endswith("-inl.h"):
            continue
        name = rules.NAMESPACES.get(module, module.rpartition("/")[2])
        own = "shoal" if module == "common" else f"shoal::{name}"
        if not re.search(rf"^namespace {own} {{", tree.texts[path], re.M):
            tree.report(path, 1, f"nothing here is in namespace {own}")


TYPE = re.compile(r"^(?:class|struct|enum class) (\w+)\b(?!<)[^;{]*\{", re.M)


def check_type_names(tree):
    """Inline members of two types of one name are one to the linker: a destructor may be the
    other's."""
    first = {}
    for path in tree.cxx():
        if module_of(path) is None or not path.endswith(".h"):
            continue
        text = tree.texts[path]
        for match in TYPE.finditer(text):
            space = re.findall(r"^namespace ([\w:]+) \{", text[:match.start()], re.M)
            name = f"{space[-1] if space else ''}::{match[1]}"
            if first.setdefault(name, path) != path:
                tree.report(path, line_at(text, match.start()),
                            f"{name} is in {first[name]}, too: no two types have one name")


def check_folders(tree):
    """Modules with folders have all sources in them; no folder, of tests neither, is crowded."""
    divided = {module_of(folder + "/") for folder in rules.FOLDER_ARROWS}
    counts = {}
    for path in tree.cxx():
        folder = path.rsplit("/", 1)[0]
        counts.setdefault(folder, []).append(path)
        if module_of(path) in divided and folder_of(path) is None:
            tree.report(path, 1, f"{module_of(path)}/ is divided: name this file's folder in "
                                 "FOLDER_ARROWS of tests/lint/rules.py")
    for folder, paths in counts.items():
        if len(paths) > rules.FOLDER_FILES_MAX:
            tree.report(paths[0], 1, f"{folder}/ has {len(paths)} sources, the limit is "
                                     f"{rules.FOLDER_FILES_MAX}: divide it")


def include_cycles(edges):
    """Strongly connected parts of more than one node, by Tarjan's algorithm without recursion."""
    index, low, on_stack, stack, found = {}, {}, set(), [], []
    for root in sorted(edges):
        work = [(root, iter(sorted(edges[root])))] if root not in index else []
        while work:
            node, targets = work[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
            for target in targets:
                if target not in index:
                    work.append((target, iter(sorted(edges.get(target, ())))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    found += [sorted(stack[at:])] if len(stack) - at > 1 else []
                    on_stack -= set(stack[at:])
                    del stack[at:]
    return found


def check_unit_cycles(tree):
    """A unit is a header with its source. What includes one another, directly or not, is one unit
    too few or a factory that belongs in a file of its own."""
    def unit(path):
        return re.sub(r"(-inl)?\.\w+$", "", path)
    edges = {}
    for path in tree.cxx():
        if module_of(path) is None:
            continue
        targets = edges.setdefault(unit(path), set())
        targets |= {unit(header) for _, header, quoted in cxx.includes(tree.texts[path])
                    if quoted and header in tree.texts and unit(header) != unit(path)}
    for units in include_cycles(edges):
        tree.report(units[0], 1, "include cycle of units: " + ", ".join(units))


def check_lengths(tree):
    for path in tree.cxx() + [p for p in tree.texts if p.endswith(".py")]:
        lines = tree.texts[path].count("\n")
        limit = rules.HEADER_LINES_MAX if path.endswith(HEADERS) else rules.FILE_LINES_MAX
        if lines > limit:
            tree.report(path, lines, f"{lines} lines, the limit is {limit}: split the file")
        for number, line in enumerate(tree.texts[path].split("\n"), 1):
            if len(line) > rules.COLUMNS_MAX:
                tree.report(path, number, f"{len(line)} columns, the limit is {rules.COLUMNS_MAX}")
    for path in tree.cxx():
        for first, last in cxx.functions(tree.texts[path]):
            if last - first + 1 > rules.FUNCTION_LINES_MAX:
                tree.report(path, first, f"a function of {last - first + 1} lines, the limit is "
                                         f"{rules.FUNCTION_LINES_MAX}: give a part of it a name")


def check_words(tree):
    for path, text in tree.texts.items():
        if path.startswith(WORDS_FREE):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            banned = list(rules.BANNED_WORDS)
            if not path.startswith("tests/"):
                banned += rules.BANNED_IN_PROGRAMS
            for pattern, advice in banned:
                match = pattern.search(line)
                if match:
                    tree.report(path, number, f"banned: '{match.group(0)}'; {advice}")


def expand_foreach(text):
    """CMake text with `foreach(x a b)` bodies repeated for a and b."""
    def repeat(match):
        items = [i for i in match.group(2).split() if i not in ("IN", "ITEMS", "LISTS")]
        return "\n".join(match.group(3).replace("${" + match.group(1) + "}", i) for i in items)
    return re.sub(r"foreach\((\w+)\s+([^)]*)\)(.*?)endforeach\(", repeat, text, flags=re.S)


def check_dead_files(tree):
    """Each source, and each header of a module, is named by a CMakeLists.txt on its way up."""
    lists = {p: expand_foreach(t) for p, t in tree.texts.items() if p.endswith("CMakeLists.txt")}
    for path in tree.cxx():
        if path.endswith(HEADERS) and module_of(path) is None:
            continue
        name = re.compile(rf"(?<![\w.-]){re.escape(path.split('/')[-1])}(?![\w.-])")
        above = [str(folder / "CMakeLists.txt") for folder in Path(path).parents]
        if not any(name.search(lists.get(l, "")) for l in above):
            tree.report(path, 1, "dead file: no CMakeLists.txt names it")


LOCKS_PAGE = "docs/THREADS.md"
LOCK = re.compile(r"^\s*(?:mutable\s+|static\s+)*Mutex\s+(\w+)[^;()]*;", re.M)
FOREIGN_LOCK = re.compile(r"\bstd::(?:\w+_)?mutex\b|\bpthread_mutex_t\b|\babsl::Mutex\b")
LOCK_ROW = re.compile(r"^(?:\| )?`([\w.]+)` \| `(\w+)` \|", re.M)


def check_locks(tree):
    """Each lock of the programs is in the table of the page on threads, and nothing else is."""
    page = tree.texts.get(LOCKS_PAGE)
    if page is None:
        return
    unlisted = Counter()
    for path in tree.cxx():
        if module_of(path) is None or path == "common/mutex.h":
            continue
        code = cxx.without_comments(tree.texts[path])
        for found in FOREIGN_LOCK.finditer(code):
            tree.report(path, line_at(code, found.start()), "locks are Mutex of common/mutex.h")
        for found in LOCK.finditer(code):
            unlisted[(path.rpartition("/")[2], found[1])] += 1
    for row in LOCK_ROW.finditer(page):
        if unlisted[row.groups()] > 0:
            unlisted[row.groups()] -= 1
        else:
            tree.report(LOCKS_PAGE, line_at(page, row.start()),
                        f"there is no lock {row[2]} in {row[1]}")
    for (name, lock), count in sorted(unlisted.items()):
        if count > 0:
            tree.report(LOCKS_PAGE, 1, f"the lock {lock} of {name} is not in the table")


OTHER_THREAD = re.compile(r"Thread: (?:any|main)\b")
THREAD_ASSERT = "SHOAL_ASSERT_ON("


def is_of_other_threads(text, code, offset):
    """Whether the comment above a declaration, or above the ones before it in its block, or the one
    on its line says so."""
    above = list(zip(text[:offset].split("\n"), code[:offset].split("\n")))[:-1]
    while above and above[-1][1].rstrip().endswith((";", "}")):
        above.pop()
    said = [text[text.rfind("\n", 0, offset) + 1:].split("\n", 1)[0]]
    while above and above[-1][0].lstrip().startswith("//"):
        said.append(above.pop()[0])
    return any(OTHER_THREAD.search(line) for line in said)


class ThreadsOfClasses:
    """Which classes belong to a thread, and which of their methods do not assert it."""

    def __init__(self, tree):
        self.codes = {p: cxx.without_directives(cxx.without_comments(tree.texts[p]))
                      for p in tree.cxx() if module_of(p) is not None}
        self.tree = tree
        self.classes, self.bodies, self.free = [], {}, set()
        for path, code in self.codes.items():
            folder = path.rpartition("/")[0]
            for name, method, body in cxx.definitions(code):
                self.bodies.setdefault((folder, name, method), []).append(body)
            for one in cxx.classes(code):
                self.classes.append((path, one))
                self.free |= {(one.name, m.method) for m in one.members
                              if m.method and self.said_free(path, m.offset)}

    def said_free(self, path, offset):
        return is_of_other_threads(self.tree.texts[path], self.codes[path], offset)

    def bodies_of(self, path, one, method):
        return ([m.body for m in one.members if m.method == method and m.body] +
                self.bodies.get((path.rpartition("/")[0], one.name, method), []))

    def belongs(self, path, one):
        if self.said_free(path, one.offset):
            return False
        return any(rules.THREAD_OWNER.search(m.head) if m.method is None else
                   any(THREAD_ASSERT in body for body in self.bodies_of(path, one, m.method))
                   for m in one.members)

    def silent(self, path, one):
        """The first declaration of each method that ought to assert and does not."""
        methods = {}
        for member in one.members:
            name = member.method
            if name is None or name.lstrip("~") == one.name or member.head.startswith("static "):
                continue
            free = any((base, name) in self.free for base in [one.name, *one.bases])
            if not free and (member.public or re.search(r"\boverride$", member.head)):
                methods.setdefault(name, []).append(member)
        for name, declared in methods.items():
            bodies = self.bodies_of(path, one, name)
            if sum(THREAD_ASSERT in b for b in bodies) < min(len(declared), len(bodies)):
                yield declared[0]


def check_threads(tree):
    """A class that knows its executor asserts it in each method that others call."""
    threads = ThreadsOfClasses(tree)
    for path, one in threads.classes:
        for member in threads.silent(path, one) if threads.belongs(path, one) else ():
            tree.report(path, line_at(tree.texts[path], member.offset),
                        f"{one.name}::{member.method} must begin with SHOAL_ASSERT_ON, as its "
                        "class belongs to a thread, or say `Thread: any` or `Thread: main`")


def check_format(tree):
    paths = tree.cxx()
    if not paths:
        return
    run = subprocess.run(["clang-format-14", "--dry-run", "-Werror", *paths], cwd=tree.root,
                         capture_output=True, text=True, check=False)
    bad = sorted({m.groups() for m in re.finditer(r"^(.+?):(\d+):\d+: error", run.stderr, re.M)})
    for path in sorted({path for path, _ in bad}):
        line = min(int(l) for p, l in bad if p == path)
        tree.report(path, line, "not formatted: run ./x format")
    if run.returncode != 0 and not bad:
        tree.report(".clang-format", 1, f"clang-format-14 failed: {run.stderr.strip()[:300]}")


CHECKS = [check_includes, check_first_include, check_std_names, check_guards, check_namespaces,
          check_folders, check_unit_cycles, check_lengths, check_words, check_dead_files,
          check_locks, check_threads, check_format, check_type_names]


def lint(root):
    tree = Tree(root)
    for check in CHECKS:
        check(tree)
    return tree


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    tree = lint(root)
    for error in tree.errors:
        print(error)
    count = len(tree.errors)
    print(f"lint: {len(tree.paths)} files, " + (f"{count} violations" if count else "all clean"))
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
