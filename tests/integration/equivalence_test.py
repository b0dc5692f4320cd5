"""Stages and pipelines change where things are computed, not what: with raw fp32 on all links, a
swarm follows one process with all layers, and repeats itself bit for bit."""

import filecmp

import harness
from swarm import describe, train

STEPS = 50
TOLERANCE = 1e-4  # relative; sums of fp32 run in another order with other stages and pipelines


class EquivalenceTest(harness.SwarmTest):

    def assert_follows(self, losses, reference):
        self.assertEqual(len(losses), len(reference))
        for step, (loss, wanted) in enumerate(zip(losses, reference)):
            self.assertLessEqual(abs(loss - wanted), TOLERANCE * abs(wanted), f"step {step}")
        # A run that does not learn would follow any other.
        self.assertLess(sum(reference[-5:]), 0.95 * sum(reference[:5]), describe(reference))

    def test_swarms_follow_one_process_and_repeat_bit_for_bit(self):
        same = {"steps": STEPS, "micro_batches": 4, "rows": 2, "checkpoint_every": STEPS}
        single, _ = train(self.folder / "single", stages=1, pipelines=1,
                          export=self.folder / "out-single", **same)
        self.assertEqual(len(single), STEPS)
        first, status = train(self.folder / "first", stages=2, pipelines=2,
                              export=self.folder / "out-first", **same)
        self.assert_follows(first, single)
        self.assertGreater(status["consistency"]["weightChecks"], 0)
        self.assertEqual(status["consistency"]["weightMismatches"], 0)
        second, _ = train(self.folder / "second", stages=2, pipelines=2,
                          export=self.folder / "out-second", **same)
        self.assertEqual(first, second)
        name = "model.safetensors"
        self.assertTrue(filecmp.cmp(self.folder / "out-first" / name,
                                    self.folder / "out-second" / name, shallow=False))
        self.assertFalse(filecmp.cmp(self.folder / "out-first" / name,
                                     harness.model() / name, shallow=False))

    def test_changes_and_dither_repeat_bit_for_bit(self):
        """Also where the delta guard changes its mode, and whoever hosts what."""
        same = {"steps": 36, "micro_batches": 4, "rows": 2, "checkpoint_every": 36, "stages": 2,
                "pipelines": 2, "data": harness.data(size=6_000),
                "forward": "aqsgd:delta=dithered:step=0.55/klt=64/channels=on,"
                           "first_visit=dithered:step=0.1/klt=64/channels=on",
                "backward": "aqsgd:delta=dithered:step=0.36/channels=on/of=values,"
                            "first_visit=dithered:step=0.4/klt=64/channels=on",
                "optimizer": {"learning_rate": 1e-2}}
        losses = []
        for name in ("first", "second"):
            run, status = train(self.folder / name, **same)
            losses.append(run)
            self.assertGreater(status["consistency"]["mChecks"], 0)
            self.assertEqual(status["consistency"]["mMismatches"], 0)
            logs = [log.read_text() for log in (self.folder / name).glob("p*.log")]
            self.assertTrue(any("delta.mode" in log for log in logs), "the guard never acted")
        self.assertEqual(*losses)

    def test_one_stage_per_layer_follows_one_process(self):
        same = {"steps": 20, "micro_batches": 4, "rows": 2, "checkpoint_every": 20}
        single, _ = train(self.folder / "single", stages=1, pipelines=1, **same)
        deep, _ = train(self.folder / "deep", stages=4, pipelines=1, **same)
        self.assert_follows(deep, single)

    def test_held_out_loss_is_that_of_the_weights(self):
        """On all validation rows, across stages and pipelines, whatever the codecs."""
        data = harness.data()
        wanted = harness.run_json("shoal-run", "eval", "--model", harness.model(), "--data", data,
                                  "--json")
        _, status = train(self.folder / "run", stages=2, pipelines=2, steps=12, micro_batches=4,
                          rows=2, checkpoint_every=12, forward="aqsgd:bits=4",
                          backward="direct:bits=8", evaluate_every=5, evaluate_rows=10_000,
                          export=self.folder / "out")
        run = status["run"]
        steps, losses = zip(*run["heldOut"])
        self.assertEqual(steps, (0, 5, 10, 11))
        self.assertEqual((run["heldOutStep"], run["heldOutLoss"]), (11, losses[-1]))
        self.assertLess(abs(losses[0] - wanted["meanLoss"]), 1e-4 * wanted["meanLoss"])
        self.assertLess(losses[-1], losses[0])
        trained = harness.run_json("shoal-run", "eval", "--model", self.folder / "out", "--data",
                                   data, "--json")["meanLoss"]
        # The last step but one is measured: nearer to the end than to the beginning.
        self.assertLess(abs(losses[-1] - trained), 0.3 * abs(losses[0] - trained))

    def test_schedules_give_the_same_bits(self):
        same = {"steps": 12, "micro_batches": 6, "rows": 2, "checkpoint_every": 12, "stages": 2,
                "forward": "aqsgd:bits=4", "backward": "direct:bits=8"}
        plain, _ = train(self.folder / "plain", schedule={"kind": "1f1b"},
                         export=self.folder / "out-plain", **same)
        usual, _ = train(self.folder / "usual", export=self.folder / "out-usual", **same)
        for run, schedule in (("plain", "1f1b"), ("usual", "zero-bubble")):
            for log in sorted((self.folder / run).glob("p*.log")):
                self.assertIn(f"schedule={schedule}", log.read_text())
        self.assertEqual(usual, plain)
        name = "model.safetensors"
        self.assertTrue(filecmp.cmp(self.folder / "out-usual" / name,
                                    self.folder / "out-plain" / name, shallow=False))


if __name__ == "__main__":
    harness.main()
