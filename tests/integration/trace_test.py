"""The table 'Follow one micro-batch' of docs/ARCHITECTURE.md is true: a traced micro-batch visits
exactly those events, on those threads, in that order."""

import collections
import json
import re

import harness
from swarm import Swarm

STEPS = 6
MICRO_BATCHES = 4
Row = collections.namedtuple("Row", "number event stages thread")


def table():
    """One Row per event of the table, in its order."""
    text = (harness.SOURCE / "docs/ARCHITECTURE.md").read_text()
    section = re.search(r"^## Follow one micro-batch$(.*?)^## ", text, re.M | re.S).group(1)
    lines = [line.strip().strip("|").split("|") for line in section.splitlines()
             if line.count("|") >= 5]
    header = [cell.strip() for cell in lines[0]]
    rows = []
    for cells in lines[2:]:
        cell = dict(zip(header, (c.strip() for c in cells)))
        events = re.findall(r"`([\w.]+)`", cell["event"])
        threads = [t.strip() for t in cell["thread"].split(",")]
        if len(threads) == 1:
            threads *= len(events)
        assert len(events) == len(threads) > 0, cells
        where = cell["where"]
        stages = {"low": (0,), "upp": (1,), "bot": (0, 1)}[where[:3]]
        rows += [Row(int(cell["#"]), event, stages, thread)
                 for event, thread in zip(events, threads)]
    return rows


def wanted(rows, micro_batch, keeps_m):
    """Counts of (stage, event, thread) for this micro-batch."""
    counts = collections.Counter()
    for row in rows:
        if row.event.startswith("delta.") and not keeps_m:
            continue
        if row.event == "delta.committed" and micro_batch != 0:
            continue
        counts.update((stage, row.event, row.thread) for stage in row.stages)
    return counts


class TraceTest(harness.SwarmTest):

    def trace(self, forward):
        """(step, micro-batch) -> [(end in microseconds, stage, event, thread)]."""
        with Swarm(self.folder / "s", stages=2, pipelines=1, steps=STEPS,
                   micro_batches=MICRO_BATCHES, forward=forward,
                   backward="direct:bits=8") as swarm:
            swarm.start_scheduler()
            for name in ("p0", "p1"):
                swarm.start_peer(name, "--trace", self.folder / f"{name}.json")
            swarm.wait_finished()
            stages = {name: stage for name, (stage, _) in swarm.places().items()}
            swarm.stop()
        self.assertEqual(sorted(stages.values()), [0, 1])
        found, evaluated = collections.defaultdict(list), set()
        for name, stage in stages.items():
            events = json.loads((self.folder / f"{name}.json").read_text())["traceEvents"]
            threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
            for event in events:
                if event["ph"] == "M":
                    continue
                thread = re.sub(r"-\d+$", "", threads[event["tid"]])
                key = (event["args"]["step"], event["args"]["mb"])
                if event["name"] == "mb.evaluation":  # of validation rows, no micro-batch
                    evaluated.add((key[0], stage, thread))
                    continue
                found[key].append((event["ts"] + event["dur"], stage, event["name"], thread))
        self.assertEqual(evaluated, {(step, stage, "compute") for step in (0, STEPS - 1)
                                     for stage in (0, 1)})
        return found

    def check(self, forward, keeps_m):
        rows, found = table(), self.trace(forward)
        self.assertGreaterEqual(len(rows), 14)
        self.assertEqual(set(found), {(step, mb) for step in range(STEPS)
                                      for mb in range(MICRO_BATCHES)})
        for (step, micro_batch), events in found.items():
            visited = collections.Counter((stage, event, thread)
                                          for _, stage, event, thread in events)
            for place in ((stage, "mb.weights", "compute") for stage in (0, 1)):
                self.assertGreater(visited[place], 1)  # a part per layer
                visited[place] = 1
            self.assertEqual(visited, wanted(rows, micro_batch, keeps_m), (step, micro_batch))
            self.check_order(rows, events)

    def check_order(self, rows, events):
        # What the table calls "while another is under way" has no place in the chain.
        ends = {(stage, event): end for end, stage, event, _ in events}
        chain = [(stage, row.event) for row in rows for stage in row.stages
                 if row.event not in ("mb.weights", "delta.prefetched", "delta.committed")]
        times = [ends[key] for key in chain]
        self.assertEqual(times, sorted(times), chain)
        for stage, user in ((0, "act.encoded"), (1, "act.decoded")):
            if (stage, "delta.prefetched") in ends:
                self.assertLess(ends[stage, "delta.prefetched"], ends[stage, user])
            if (stage, "delta.committed") in ends:
                self.assertGreater(ends[stage, "delta.committed"], max(times))

    def test_with_m(self):
        self.check("aqsgd:bits=4", keeps_m=True)

    def test_without_m(self):
        self.check("raw:dtype=fp32", keeps_m=False)


if __name__ == "__main__":
    harness.main()
