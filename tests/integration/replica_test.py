"""Every `[replica] method` in a real swarm of both shapes: with and without boundaries."""

import json
from concurrent.futures import ThreadPoolExecutor

import harness
from harness import run
from swarm import Swarm

# Every third of 12 steps is saved, 0-based 2, 5, 8 and 11. A machine that is late with an upload
# saves the third time later, or not at all, but never more often than four times.
STEPS = 12
SAVED = 3

# The most that methods may send of what exact sums take, by shape: 2 pipelines of 2 stages, 4 of 1.
# It is the arithmetic of docs/algorithms/ and a hundredth for headers and small tensors. The
# model has 940,800 values. With two stages the embedding's 131,072 are summed by 4 members, for
# which each sends half as much again as for the 809,728 others, summed by 2: 0.327 of all bytes.
#   powersgd  2 exact steps, then factors: 0.050 of what is not the embedding. That is exact with
#             two stages, (2 + 10 (0.327 + 0.673 * 0.050)) / 12, and else a matrix as the others,
#             (2 + 10 * 0.048) / 12.
#   qadam     2 exact steps, then 4 bits and 16 per 512 values: (2 + 10 * 4.03 / 32) / 12.
#   onebit    the same with a bit and 16 per 1024: (2 + 10 * 1.02 / 32) / 12.
#   cocktail  a tenth of the values, of these a fifth in 4 bits, and places: 0.17 of 32 bits.
#   topk      0.05 of the values in 2 bits, and places: 0.4 of 32 bits, in every third step. The
#             gradient of the embedding goes from end to end in all, two members' values of four,
#             dithered, in 3 bits at the most: 0.327 * 2 / 3 * 3 / 32.
#   marsit    2 exact steps, then exact where it begins and saves, steps 2, 5, 8 and 11, or where
#             the fifth round is due, which is in time for a third save that comes late: a bit in
#             the 6 others. (6 + 6 / 32) / 12.
#   qsdp      8 bits both ways in 8 steps: 16.1 / 64. In 4 that are saved weights in 32, and the
#             moments, which count as exact sums do: (8 * 0.251 + 4 * (40 + 64) / 64) / (12 + 4).
METHODS = {
    "powersgd:rank=4,start=2": (.475, .21),
    "qadam:bits=4,start=2": (.275, .275),
    "onebit:start=2": (.196, .196),
    "cocktail": (.0055, .0055),
    "average:codec=topk:ratio=0.05/bits=2,local_steps=3": (.026, .0045),
    "marsit:every=5,start=2": (.52, .52),
    "qsdp:weights=8,gradients=8": (.54, .54),
}


class ReplicaTest(harness.SwarmTest):
    def train(self, method, stages, pipelines):
        """The run's status at its end, and what all peers sent and would have sent in fp32."""
        with Swarm(self.folder / method.split(":")[0], stages=stages, pipelines=pipelines,
                   steps=STEPS, checkpoint_every=SAVED) as swarm:
            swarm.sections["replica"] = {"method": method}
            swarm.start()
            swarm.wait_finished()
            sent = [peer["traffic"]["replica"] for peer in swarm.peer_statuses().values()]
            status = swarm.status()
            swarm.stop()
        return status, sum(s["wireSentBytes"] for s in sent), sum(s["rawSentBytes"] for s in sent)

    def check(self, stages, pipelines, shape):
        with ThreadPoolExecutor(2) as pool:  # half of a short run is waiting
            runs = {m: pool.submit(self.train, m, stages, pipelines) for m in METHODS}
        for method, most in METHODS.items():
            with self.subTest(method=method):
                status, wire, raw = runs[method].result()
                self.assertTrue(status["codecs"]["replica"].startswith(method.split(":")[0]))
                (first, before), *_, (last, after) = status["run"]["heldOut"]
                self.assertEqual((first, last), (0, STEPS - 1))
                self.assertLess(after, before)
                self.assertLess(wire / raw, most[shape])
                self.assertGreater(wire / raw, most[shape] / 2)

    def test_two_pipelines_of_two_stages(self):
        self.check(2, 2, 0)

    def test_four_pipelines_of_one_stage(self):
        self.check(1, 4, 1)

    def test_lans_that_are_measured_are_the_same_for_all(self):
        """What a busy machine measures may be no LAN; what the plan says counts everywhere."""
        with Swarm(self.folder / "lans", stages=2, pipelines=2, steps=1000) as swarm:
            swarm.sections["replica"] = {"method": "qsdp:lan=auto"}
            swarm.start()
            swarm.wait_step(2)
            status = swarm.status()
            self.assertLessEqual(status["run"]["generation"], 2, "planned again once at most")
            for name, (stage, pipeline) in swarm.places().items():
                peer = swarm.peer_status(name)
                lans = status["stages"][stage]["lans"]
                self.assertEqual(peer["role"]["lan"],
                                 next((lan for lan in lans if pipeline in lan), []))
                for link in peer["links"]:
                    self.assertGreater(link["rttMinMs"], 0)
            swarm.stop()

    def test_weights_are_alike_after_every_step(self):
        for method in ("qsdp:weights=8,gradients=8", "onebit:start=2"):
            with self.subTest(method=method), \
                    Swarm(self.folder / method[:4], stages=1, pipelines=2, steps=8,
                          weight_check_every=1) as swarm:
                swarm.sections["replica"] = {"method": method}
                swarm.start()
                swarm.wait_finished()
                consistency = swarm.status()["consistency"]
                self.assertGreaterEqual(consistency["weightChecks"], 8)
                self.assertEqual(consistency["weightMismatches"], 0)
                swarm.stop()

    def test_parameters_in_shards(self):
        """What a peer holds shrinks with its group: 16 bytes a value where it holds all."""
        text = harness.text(40_000)
        held = {1: 16 * 940_800, 2: 16 * 940_800 / 2}  # by number of stages
        for stages, pipelines in ((1, 2), (1, 4), (2, 2)):
            with self.subTest(stages=stages, pipelines=pipelines):
                report = json.loads(run(
                    "shoal", "demo", "--dir", self.folder / f"{stages}{pipelines}", "--fresh",
                    "--data", text, "--steps", 4, "--stages", stages, "--pipelines", pipelines,
                    "--replica", "qsdp:shard_parameters=true", "--json", timeout=180).stdout)
                self.assertLess(report["heldOutLossAfter"], report["heldOutLossBefore"])
                self.assertLess(report["peerStateBytes"], held[stages])
                held[stages] = report["peerStateBytes"]
                # 8 bits, and exact state at checkpoints.
                sent = report["wireBytes"]["replica"] / report["rawBytes"]["replica"]
                self.assertLess(sent, .6)


if __name__ == "__main__":
    harness.main()
