#!/usr/bin/env python3
"""Groups of sources that can be compiled as one.

Headers take most of the time of a source that is compiled alone. Sources of a group are read as one
translation unit, each header once, so no two of them may have a file-local name in common.

usage: unity.py MAX SOURCE...    prints `SOURCE NUMBER` for each that has company
"""

import re
import sys
from pathlib import Path

import cxx

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"\bnamespace\s*\{")
_ANY_BLOCK = re.compile(r"\bnamespace\s*[\w:]*\s*\{")
_ALIAS = re.compile(r"^(?:using|namespace)\s+(\w+)\s*=\s*([^;]*);", re.MULTILINE)
_MACRO = re.compile(r"^[ \t]*#\s*define\s+(\w+)", re.MULTILINE)
_STATIC = re.compile(r"^static\s[^;{=]*?(\w+)\s*[({=;]", re.MULTILINE)
_TYPE = re.compile(r"^(?:enum\s+(?:class|struct)|enum|struct|class)\s+(\w+)")


def _heads(code):
    """The text before each '{' or ';' at the top of a namespace's body."""
    depth, head = 0, ""
    for char in code:
        if depth == 0 and char in "{;":
            yield head.strip()
        if depth == 0:
            head = "" if char in "{;}" else head + char
        depth += (char == "{") - (char == "}")


def _declared(head):
    """The name that such a head declares, if it is one of its namespace."""
    head = cxx.without_angles(head).removeprefix("template").strip()
    if head.startswith(("using", "namespace")):
        return set()
    if found := _TYPE.match(head):
        return {found[1]}
    found = re.search(r"([\w:]+)\s*$", re.split(r"[(=\[]", head)[0])
    return {found[1]} if found and "::" not in found[1] else set()


def local_names(text, block=_BLOCK):
    """Names that another source of the same translation unit must not have for its own."""
    code = cxx.without_comments(text)
    names = set(_MACRO.findall(code))
    code = cxx.without_directives(code)
    for found in block.finditer(code):
        end = cxx.end_of(code, found.end() - 1, "{", "}")
        for head in _heads(code[found.end():end - 1]):
            names |= _declared(head)
    return names | set(_STATIC.findall(code))


def origins(source, root):
    """Local name -> what it is: an alias of that, or of a file (the source or an -inl.h file)."""
    found, left, seen = {}, [source], set()
    while left:
        at = left.pop()
        if at in seen or not (root / at).exists():
            continue
        seen.add(at)
        text = (root / at).read_text(encoding="utf-8")
        found |= dict.fromkeys(local_names(text, _BLOCK if at == source else _ANY_BLOCK), at)
        found |= dict(_ALIAS.findall(cxx.without_comments(text)))
        left += [header for _, header, _ in cxx.includes(text) if header.endswith("-inl.h")]
    return found


def clash(one, other):
    return any(one[name] != other[name] for name in one.keys() & other.keys())


def groups(sources, files_max, root=ROOT):
    """Lists of sources, in their order, such that those of a list have no local name twice."""
    alone, found = [], []
    for source in sources:
        # Such a source includes itself, once for each kind of processor.
        if "hwy/foreach_target.h" in (root / source).read_text(encoding="utf-8"):
            alone.append([source])
            continue
        names = origins(source, root)
        for group, taken in found:
            if len(group) < files_max and not clash(names, taken):
                group.append(source)
                taken |= names
                break
        else:
            found.append(([source], names))
    return [group for group, _ in found] + alone


def main():
    for number, group in enumerate(groups(sys.argv[2:], int(sys.argv[1]))):
        if len(group) > 1:
            print("\n".join(f"{source} {number}" for source in group))


if __name__ == "__main__":
    main()
