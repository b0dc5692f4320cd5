"""Activations, and gradients where a run wants it, as quantised changes: both ends of a boundary
keep the same m, also over a restart, and training loses next to nothing against fp32."""

import signal

import harness
from harness import run, wait_for
from swarm import Swarm, train

STEPS = 165
SAME = {"stages": 2, "pipelines": 2, "steps": STEPS, "micro_batches": 4, "rows": 2,
        "checkpoint_every": 10}

GRADIENTS_WITH_M = ("aqsgd:delta=dithered:step=0.4/channels=on/of=values,"
                    "first_visit=dithered:step=0.4/channels=on")


class AqsgdTest(harness.SwarmTest):

    def setUp(self):
        super().setUp()
        # 126 rows: an epoch is 15 steps of 8 samples.
        self.data = harness.data(row=32, size=10_000)

    def both_ends(self, swarm):
        """(pipeline, boundary) -> {side: (checksum, records)}."""
        found = {}
        for status in swarm.peer_statuses().values():
            for place in status["deltaStore"]["boundaries"]:
                key = (status["role"]["pipeline"], place["boundary"])
                found.setdefault(key, {})[place["side"]] = (place["checksum"], place["records"])
        return found

    def assert_same_m(self, swarm):
        places = wait_for(lambda: swarm.at_rest(lambda: self.both_ends(swarm)), 30,
                          "a moment at which all peers are equally far")
        self.assertEqual(set(places), {(0, 0), (1, 0)})
        for key, sides in places.items():
            self.assertEqual(sides["sender"], sides["receiver"], key)
            self.assertGreater(sides["sender"][1], 0, key)
        self.assertNotEqual(places[0, 0], places[1, 0])  # pipelines have samples of their own

    def assert_consistent(self, swarm, checks_min):
        consistency = swarm.status()["consistency"]
        self.assertGreaterEqual(consistency["mChecks"], checks_min)
        self.assertEqual(consistency["mMismatches"], 0)
        self.assertEqual(consistency["weightMismatches"], 0)
        return consistency["mChecks"]

    def test_m_is_equal_at_both_ends_also_after_a_restart(self):
        with Swarm(self.folder / "aqsgd", forward="aqsgd:bits=4", backward="direct:bits=8",
                   data=self.data, **SAME) as swarm:
            swarm.start()
            step = swarm.wait_step(25)["step"]
            before = self.assert_consistent(swarm, 2 * (step - 1))  # two pipelines, one boundary
            # A peer of the second stage goes away in order and comes back.
            self.assert_same_m(swarm)
            name = swarm.peer_at(stage=1)
            records = swarm.peer_status(name)["deltaStore"]["records"]
            swarm.peers[name].signal(signal.SIGTERM)
            self.assertEqual(swarm.peers[name].wait(20), 0)
            fewer = swarm.wait_run(lambda r: "1 of 2 pipelines train" in r["reason"], 10,
                                   "the others go on", but=[name])
            swarm.start_peer(name)
            swarm.wait_run(
                lambda r: r["state"] == "training" and "pipelines train" not in r["reason"], 30,
                "all pipelines train")
            step = swarm.run()["step"]
            self.assertGreaterEqual(step, fewer["step"])
            swarm.wait_run(lambda r: r["step"] > step + 20, 60, "an epoch after the restart")
            self.assert_same_m(swarm)
            restarted = swarm.peer_status(name)
            # Its store survived: samples that it knew travel as changes, not as first visits.
            self.assertGreater(records, 0)
            self.assertGreater(restarted["deltaStore"]["hits"], 0)
            swarm.wait_finished()
            after = self.assert_consistent(swarm, before + 1)
            self.assertGreater(after, before)
            for status in swarm.peer_statuses().values():
                self.assertEqual(status["deltaStore"]["corrupt"], 0)
                self.assertEqual(status["deltaStore"]["resends"], 0)
            losses = swarm.run()["losses"]
            swarm.stop()
        raw, _ = train(self.folder / "raw", data=self.data, **SAME)
        self.assertEqual(len(losses), STEPS)
        # The mean over the last epoch, since samples differ in difficulty.
        ours, wanted = sum(losses[-15:]), sum(raw[-15:])
        self.assertLessEqual(abs(ours - wanted), 0.01 * wanted, f"{ours / 15} and {wanted / 15}")
        self.assertNotEqual(losses, raw)  # or nothing was quantised

    def test_m_of_gradients_is_equal_at_both_ends_also_after_a_restart(self):
        with Swarm(self.folder / "gradients", forward="aqsgd:bits=4", backward=GRADIENTS_WITH_M,
                   data=self.data, **dict(SAME, steps=75)) as swarm:
            swarm.start()
            swarm.wait_step(20)
            name = swarm.peer_at(stage=0)
            swarm.peers[name].signal(signal.SIGTERM)
            self.assertEqual(swarm.peers[name].wait(20), 0)
            swarm.start_peer(name)
            swarm.wait_run(
                lambda r: r["state"] == "training" and "pipelines train" not in r["reason"], 30,
                "all pipelines train")
            step = swarm.run()["step"]
            swarm.wait_run(lambda r: r["step"] > step + 15, 60, "an epoch after the restart")
            places = wait_for(lambda: swarm.at_rest(lambda: self.both_ends(swarm)), 30,
                              "a moment at which all peers are equally far")
            for key, sides in places.items():
                self.assertEqual(sides["gradient sender"], sides["gradient receiver"], key)
                self.assertGreater(sides["gradient sender"][1], 0, key)
                self.assertNotEqual(sides["gradient sender"][0], sides["sender"][0], key)
            swarm.wait_finished()
            self.assert_consistent(swarm, 75)
            ends = [end for status in swarm.peer_statuses().values()
                    for end in status["boundaries"]]
            self.assertEqual(len(ends), 4)
            for end in ends:
                self.assertGreater(end["gradients"]["deltaHits"], 0)
                self.assertEqual(end["gradients"]["resends"], 0)
                measured = end["gradients"]["relativeDelta"]
                self.assertEqual(measured is not None, end["side"] == "receiver")
            view = run("shoal", "status", "--dir", swarm.peer_folder(swarm.peer_at(stage=1)))
            self.assertIn("gradients change by", view.stdout)
            swarm.stop()

    def test_changes_are_a_fraction_of_fp32(self):
        # A fresh model changes so much that the guard would send in full.
        with Swarm(self.folder / "bytes", forward="aqsgd:bits=4,guard=off",
                   backward="direct:bits=8", data=self.data, stages=2, pipelines=1, steps=45,
                   micro_batches=4, rows=2) as swarm:
            swarm.start()
            swarm.wait_finished()
            sender = swarm.peer_status(swarm.peer_at(stage=0))
            receiver = swarm.peer_status(swarm.peer_at(stage=1))
            forward, backward = (sender["traffic"]["forward"], receiver["traffic"]["backward"])
            # Raw: 45 steps x 8 samples x 32 tokens x 128 values in fp32, both ways.
            raw = 45 * 8 * 32 * 128 * 4
            self.assertEqual(forward["rawSentBytes"], raw)
            self.assertEqual(backward["rawSentBytes"], raw)
            # Two of three epochs at 4 bits, one in full; the gradients at 8 bits.
            self.assertLess(forward["wireSentBytes"], raw * (1 / 3 + 2 / 3 * 0.2))
            self.assertLess(backward["wireSentBytes"], raw * 0.3)
            self.assertEqual(forward["wireSentBytes"],
                             receiver["traffic"]["forward"]["wireReceivedBytes"])
            # Each epoch leaves out a few rows, not always the same.
            rows = int.from_bytes(self.data.read_bytes()[32:40], "little")
            self.assertGreaterEqual(sender["deltaStore"]["firstVisits"], 15 * 8)
            self.assertLessEqual(sender["deltaStore"]["firstVisits"], rows)
            swarm.stop()


if __name__ == "__main__":
    harness.main()
