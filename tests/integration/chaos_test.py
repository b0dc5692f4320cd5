"""`shoal chaos`: faults of every kind on a real swarm, which loses nothing by them."""

import json

import harness
from harness import run, run_json


class ChaosTest(harness.SwarmTest):

    def test_a_run_survives_faults_of_every_kind_to_the_bit(self):
        told = run_json("shoal", "chaos", "--minutes", "0.35", "--stages", "2", "--seed", "3",
                        "--json", "--dir", self.folder / "c", timeout=240)
        self.assertEqual(told["trouble"], "")
        self.assertGreater(len(told["faults"]), 2)
        self.assertGreater(told["steps"], 20)
        self.assertEqual(told["equalLosses"], told["steps"])
        self.assertTrue(told["ledgerRight"])
        for fault in told["faults"]:
            self.assertEqual(fault["stepsLost"], 0, json.dumps(fault))
            self.assertLess(fault["secondsToNextStep"], 60)
        self.assertTrue((self.folder / "c/scheduler.log").exists())
        ledger = run_json("shoal", "swarm", "audit", "--dir", self.folder / "c/run", "--json")
        self.assertTrue(ledger["right"], ledger)
        self.assertEqual(ledger["stepsThrownAway"], 0)
        # What was made before the scheduler was told to stop may not be stored yet.
        self.assertGreater(ledger["steps"], told["steps"] - 64)
        self.assertEqual(run_json("shoal", "swarm", "events", "--dir", self.folder / "c/run",
                                  "--json")["stepsLost"], 0)

    def test_wrong_words_are_wrong_usage(self):
        for words, what in ((("--faults", "kill,sing"), "'sing' is no kind of fault"),
                            (("--stages", "5"), "--stages"), (("--minutes", "0"), "--minutes")):
            done = run("shoal", "chaos", *words, check=False)
            self.assert_refused(done, 2, what)


if __name__ == "__main__":
    harness.main()
