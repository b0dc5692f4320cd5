"""`shoal chaos`: faults of every kind on a real swarm, which loses nothing by them."""

import json
import os
from pathlib import Path

import harness
from harness import run, run_json


class ChaosTest(harness.SwarmTest):

    def test_a_run_survives_faults_of_every_kind_to_the_bit(self):
        told = run_json("shoal", "chaos", "--minutes", "0.35", "--stages", "2", "--seed", "3",
                        "--json", "--dir", self.folder / "c", timeout=240)
        self.assertEqual(told["trouble"], "")
        self.assertGreater(len(told["faults"]), 2)
        self.assertGreater(told["steps"], 20)
        self.assertEqual(told["comparedLosses"], told["steps"])
        self.assertEqual(told["equalLosses"], told["steps"])
        self.assertTrue(told["ledgerRight"])
        lost = 0
        for fault in told["faults"]:
            lost += fault["stepsLost"]
            if fault["whole"]:
                self.assertEqual(fault["stepsLost"], 0, json.dumps(fault))
                self.assertEqual(fault["samplesRepeated"], 0, json.dumps(fault))
            self.assertLess(fault["secondsToNextStep"], 60)
        self.assertTrue((self.folder / "c/scheduler.log").exists())
        ledger = run_json("shoal", "swarm", "audit", "--dir", self.folder / "c/run", "--json")
        self.assertTrue(ledger["right"], ledger)
        self.assertEqual(ledger["stepsThrownAway"] > 0, lost > 0)
        # What was made before the scheduler was told to stop may not be stored yet.
        self.assertGreater(ledger["steps"], told["steps"] - 64)
        self.assertEqual(run_json("shoal", "swarm", "events", "--dir", self.folder / "c/run",
                                  "--json")["stepsLost"] > 0, lost > 0)

    def test_a_member_that_is_cut_off_or_has_a_full_disk_costs_no_step(self):
        done = run("shoal", "chaos", "--minutes", "0.7", "--stages", "2", "--seed", "4",
                   "--faults", "cut,disk-full", "--json", check=False, timeout=240)
        if os.geteuid() != 0:
            told = json.loads(done.stdout)
            self.assertEqual(set(told["skipped"]), {"cut", "disk-full"})
            self.skipTest("needs root, to make networks and disks")
        told = json.loads(done.stdout)
        if told["skipped"]:
            self.skipTest(f"needs the right to make networks and disks: {told['skipped']}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual({f["kind"] for f in told["faults"]}, {"cut", "disk-full"}, told["faults"])
        self.assertTrue(told["holdings"], "no member was looked at for long enough")
        for process in told["holdings"]:
            self.assertEqual(process["grows"], "", json.dumps(process))
            self.assertGreater(process["late"]["files"], 0)
        # All of it was this process's own.
        self.assertNotIn("chaos", Path("/proc/self/mounts").read_text())

    def test_wrong_words_are_wrong_usage(self):
        for words, what in ((("--faults", "kill,sing"), "'sing' is no kind of fault"),
                            (("--stages", "5"), "--stages"), (("--minutes", "0"), "--minutes")):
            done = run("shoal", "chaos", *words, check=False)
            self.assert_refused(done, 2, what)


if __name__ == "__main__":
    harness.main()
