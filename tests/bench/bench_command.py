"""What the command lines of all benches have in common; bench_command.h is the same in C++.

--json prints one JSON object on standard output, schemaVersion first, and nothing else there.
--help says what the bench measures, what it needs, how long it takes and what its exit code says:
0 its bounds held (or it has none), 1 a bound was missed or the bench failed, 2 the command line was
wrong, 77 a right is missing, as common/exit_code.h."""

import argparse
import sys

HELD, MISSED, USAGE, PERMISSION = 0, 1, 2, 77


def parser(name, measures, needs, takes, bounds):
    """Of `./x bench NAME`, with --json."""
    made = argparse.ArgumentParser(
        prog=f"./x bench {name}", description=measures,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"Needs: {needs}\nTakes: {takes}\nExit code: 0 {bounds}; 1 otherwise, or where the "
               "bench fails; 2 the command line is wrong.")
    made.add_argument("--json", action="store_true",
                      help="print one JSON object on standard output, and nothing else")
    return made


def needs_root(name):
    print(f"{name}: this bench makes network namespaces and needs root", file=sys.stderr)
    sys.exit(PERMISSION)


def exit_code(held):
    return HELD if held else MISSED
