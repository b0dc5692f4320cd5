"""Each read of the CLI with --json: one object, schemaVersion first, with the documented fields."""

import json
import re
import unittest

import harness
from swarm import Swarm

# Verbs that change something; what they print with --json has tests of their own.
NO_READS = {"demo", "chaos", "prepare", "convert", "bench churn", "swarm start", "swarm pause",
            "swarm resume", "swarm stop", "swarm export", "swarm revoke", "swarm kick",
            "swarm release",
            "store compact", "store drop"}
# tests/integration/chat_test.py reads these.
OF_MODELS = {"eval", "try", "chat"}

PAGE = (harness.SOURCE / "docs/OPERATIONS.md").read_text()


def section(title):
    return PAGE.split(f"\n{title}\n", 1)[1].split("\n## ", 1)[0].split("\n### ", 1)[0]


def names(cells):
    """Of `a, b{c, d}, e[]`: a, b and e."""
    found = set()
    for cell in re.findall("`([^`]*)`", cells):
        while cell != (cell := re.sub(r"\{[^{}]*\}|\[[^\[\]]*\]", "", cell)):
            pass
        found |= {name.split(".")[0] for name in re.split(r",\s*", cell)}
    return found


def first_cells(text):
    return names(" ".join(re.findall(r"^(?:\| )?([^|\n]*`[^|\n]*)\|", text, re.M)))


def status_fields(title):
    return first_cells(section(title).split("\nfield of", 1)[0])


def audit_fields():
    table = section("### Looking back: `shoal swarm audit`, `shoal swarm events`")
    return first_cells(table.split("---|---\n", 1)[1].split("\n\n", 1)[0]) - {"sample"}


def store_fields(command):
    text = section("### The delta store offline: `shoal store`")
    row = re.search(rf"^`{command}[^|]*\|[^|]*\|(.*)$", text, re.M)
    return names(re.search("beside (.*)", text)[1]) | names(row[1])


class JsonTest(harness.SwarmTest):

    def reads(self):
        """The verbs that take --json, as the program itself lists them."""
        def walk(command, path):
            if any("--json" in option["names"] for option in command["options"]):
                yield " ".join(path)
            for below in command["commands"]:
                yield from walk(below, [*path, below["name"]])
        described = harness.run_json("shoal", "--describe-command-line")
        return set(walk(described, [])) - NO_READS - OF_MODELS

    def check(self, verb, fields, *flags, code=harness.OK):
        done = harness.run("shoal", *verb.split(), *flags, "--json", check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        out = done.stdout
        pairs = json.loads(out, object_pairs_hook=lambda pairs: pairs)
        self.assertEqual(pairs[0][0], "schemaVersion", f"{verb}: {out[:80]}")
        self.assertIs(type(pairs[0][1]), int, verb)
        self.assertEqual(fields - {name for name, _ in pairs}, set(), f"{verb} lacks fields")
        self.assertEqual(out.count("\n"), 1, f"{verb}: one line")
        self.seen.add(verb)

    def test_every_read_has_its_documented_fields(self):
        self.seen = set()
        self.check("version", {"version"})
        self.check("service status", {"installed", "unit", "state"}, code=harness.NOT_RUNNING)
        with Swarm(self.folder / "s", stages=2, steps=6, micro_batches=2,
                   data=harness.data(size=10_000), forward="aqsgd:bits=4") as swarm:
            swarm.start()
            swarm.wait_finished()
            peer = ("--dir", swarm.peer_folder("p0"))
            run = ("--dir", swarm.run_folder)
            status = status_fields("### Status: `GET /api/v1/status`, `shoal status --json`")
            self.assertLess({"peerId", "swarm", "links", "deltaStore", "health"}, status)
            self.check("status", status, *peer)
            self.check("health", {"state"}, *peer)
            self.check("logs", {"lines"}, *peer)
            self.check("netcheck", {"verdict", "translated", "mapping", "relays", "paths"}, *peer)
            self.check("stats", {"days"}, *peer)
            self.check("page", {"url", "settings"}, *peer)
            self.check("doctor", {"findings", "timeouts"}, *peer)
            # Of one that stands by: schedulers_test.py.
            status = status_fields("### Status: `GET /api/v1/status`") - {"standby"}
            self.assertLess({"run", "members", "stages", "traffic"}, status)
            self.check("swarm status", status, *run)
            self.check("swarm invite", {"id", "invite", "expiresUnixMs"}, *run)
            self.check("swarm invites", {"invites"}, *run)
            self.check("swarm members", {"members"}, *run)
            self.assertLess({"right", "members", "skipped"}, audit_fields())
            self.check("swarm audit", audit_fields(), *run)
            self.check("uninstall", {"bytes", "files"}, *peer)
            self.check("swarm events", {"generations", "stepsLost", "secondsWithoutStep",
                                        "entries", "events"}, *run)
            counted = harness.run_json("shoal", "stats", "--json", *peer)["total"]["microBatches"]
            self.assertGreater(counted, 0)
            swarm.stop()
        kept = harness.run_json("shoal", "stats", "--json", *peer)
        self.assertGreaterEqual(kept["total"]["microBatches"], counted)
        self.check("stats", {"days"}, *peer)
        self.assertLess({"directory", "boundaries"}, store_fields("stats"))
        self.check("store stats", store_fields("stats"), *peer)
        self.check("store verify", store_fields("verify"), *peer)
        self.assertEqual(self.seen, self.reads(), "a verb with --json is not checked here")


if __name__ == "__main__":
    unittest.main()
