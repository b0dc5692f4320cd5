"""Every `[replica] method` in a real swarm of both shapes: with and without boundaries."""

import json

import harness
from harness import run

# Behind a warm-up of two exact steps; the most of what exact sums send that six steps may take.
# The checkpoint of qsdp gathers weights and moments; of marsit all rounds may be exact ones.
METHODS = {"powersgd:rank=4,start=2": .95, "qadam:bits=4,start=2": .6, "onebit:start=2": .55,
           "cocktail": .1, "average:codec=topk:ratio=0.05/bits=2,local_steps=3": .3,
           "marsit:every=4,start=2": 1.1, "qsdp:weights=8,gradients=8": .85}


class ReplicaTest(harness.SwarmTest):
    def check(self, stages, pipelines):
        text = harness.text(40_000)
        for method, part in METHODS.items():
            with self.subTest(method=method):
                done = run("shoal", "demo", "--dir", self.folder / method.split(":")[0],
                           "--data", text, "--steps", "6", "--stages", stages, "--pipelines",
                           pipelines, "--replica", method, "--json", timeout=180)
                report = json.loads(done.stdout)
                self.assertEqual(report["replica"], method)
                self.assertLess(report["heldOutLossAfter"], report["heldOutLossBefore"])
                sent = report["wireBytes"]["replica"] / report["rawBytes"]["replica"]
                self.assertLess(sent, part)

    def test_two_pipelines_of_two_stages(self):
        self.check("2", "2")

    def test_four_pipelines_of_one_stage(self):
        self.check("1", "4")


if __name__ == "__main__":
    harness.main()
