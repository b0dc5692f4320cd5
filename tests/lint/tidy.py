#!/usr/bin/env python3
"""clang-tidy over sources, several in one translation unit.

Sources with the same flags are read in groups (unity.py), each header once for all of them. A group
in which clang-tidy finds anything is read again source by source, and that reading is what counts:
grouping can cost time, never a finding.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import unity

GROUP_FILES_MAX = 16


def flags_of(entry):
    """The command of a source without the source, what it writes, and the optimisation level."""
    words = shlex.split(entry["command"])
    while "clang++" not in words[0]:
        words = words[1:]
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in ("-o", "-c", "-MT", "-MF"):
            skip = True
        elif word != "-MD" and not re.fullmatch(r"-O\d|-D\w+_EXPORTS", word):
            kept.append(word)
    return tuple(kept[1:])


def plan(build, root, wanted):
    """(flags, sources) of each group, those that take longest first."""
    by_flags = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = os.path.relpath(entry["file"], root)
        if source in wanted:
            module = source.partition("/")[0]
            by_flags.setdefault((module, flags_of(entry)), []).append(source)
    groups = []
    for (_, flags), sources in sorted(by_flags.items()):
        groups += [(flags, group)
                   for group in unity.groups(sorted(set(sources)), GROUP_FILES_MAX, root)]
    return sorted(groups, key=lambda group: -len(group[1]))


class Reader:

    def __init__(self, build, root, program):
        self.build, self.root, self.program = build, root, program

    def tidy(self, arguments, flags):
        answer = subprocess.run(
            [self.program, "--quiet", r"--header-filter=\.cc$", *map(str, arguments), "--", *flags],
            cwd=self.root, capture_output=True, text=True, check=False)
        return answer.returncode, answer.stdout + answer.stderr

    def read(self, number, flags, sources):
        """(findings, sources that were read alone because their group was not clean)."""
        if len(sources) > 1:
            unit = self.build / "unity" / f"{number}.cc"
            unit.write_text("".join(f'#include "{self.root / source}"\n' for source in sources))
            if self.tidy([unit], flags)[0] == 0:
                return [], []
        found = [text for status, text in (self.tidy([source], flags) for source in sources)
                 if status != 0]
        return found, sources if len(sources) > 1 else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=Path, required=True,
                        help="a build folder of clang with compile_commands.json")
    parser.add_argument("--program", default="clang-tidy-14")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("sources", nargs="*", help="from the folder that ./x is in")
    arguments = parser.parse_args()
    root, build = Path.cwd(), arguments.build.resolve()
    groups = plan(build, root, set(arguments.sources))
    missing = set(arguments.sources) - {source for _, group in groups for source in group}
    (build / "unity").mkdir(exist_ok=True)
    reader = Reader(build, root, arguments.program)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(lambda item: reader.read(item[0], *item[1]), enumerate(groups)))
    for source in sorted(missing):
        print(f"{source}: error: no target compiles it")
    for _, sources in results:
        if sources:
            print(f"read one by one: {' '.join(sources)}")
    errors = [text for found, _ in results for text in found]
    print("\n".join(errors), end="")
    return 1 if errors or missing else 0


if __name__ == "__main__":
    sys.exit(main())
