"""Peers pause and leave: no step is lost, nobody hangs while a checkpoint uploads, and a full disk
keeps nobody."""

import os
import subprocess

import harness
from harness import run, wait_for
from swarm import Swarm

# The checkpoint of a stage has 3 to 4 MB: at this rate its upload takes seconds.
SLOW = ("--upload", "5mbit")
ANSWERS_WITHIN = 10


class LeavingTest(harness.SwarmTest):

    def swarm(self, **options):
        return Swarm(self.folder / "s", **{"stages": 2, "steps": 10_000, "micro_batches": 2,
                                           "checkpoint_every": 5, **options})

    def wait_upload(self, swarm):
        """Until the first checkpoint is on its way, and far from whole."""
        def uploads():
            return swarm.status()["traffic"]["artefactReceivedBytes"] > 100_000
        swarm.wait_step(5)
        wait_for(uploads, 30, "a checkpoint uploads", poll=0.02)
        self.assertEqual(swarm.run()["checkpointStep"], 0)

    def assert_answers(self, swarm, name):
        self.assertIn("state", swarm.peer_status(name))

    def assert_ends(self, swarm, name):
        self.assertEqual(swarm.peers[name].wait(ANSWERS_WITHIN + 10), 0)

    def test_a_peer_leaves_while_its_checkpoint_uploads(self):
        with self.swarm() as swarm:
            swarm.start(None, *SLOW)
            self.wait_upload(swarm)
            run("shoal", "leave", "--now", "--dir", swarm.peer_folder("p0"),
                timeout=ANSWERS_WITHIN)
            self.assert_ends(swarm, "p0")
            swarm.start_peer("p0")  # its folder is free
            swarm.wait_run(lambda r: r["generation"] > 1, 40, "it is back")
            self.wait_upload_again(swarm)
            swarm.peers["p1"].signal(2)  # Ctrl-C
            self.assert_ends(swarm, "p1")
            swarm.stop()

    def wait_upload_again(self, swarm):
        before = swarm.status()["traffic"]["artefactReceivedBytes"]
        wait_for(lambda: swarm.status()["traffic"]["artefactReceivedBytes"] > before + 100_000, 60,
                 "the next checkpoint uploads", poll=0.02)

    def test_the_scheduler_dies_while_checkpoints_upload(self):
        with self.swarm() as swarm:
            swarm.start(None, *SLOW)
            self.wait_upload(swarm)
            swarm.scheduler.kill()

            def all_know():
                return all(s["state"] == "joining" for s in swarm.peer_statuses().values())
            wait_for(all_know, ANSWERS_WITHIN, "both peers answer, and notice")
            for peer in swarm.peers.values():
                peer.signal(15)
            for name in swarm.peers:
                self.assert_ends(swarm, name)

    def test_the_swarm_stops_while_checkpoints_upload(self):
        with self.swarm() as swarm:
            swarm.start(None, *SLOW)
            self.wait_upload(swarm)
            run("shoal", "swarm", "stop", "--dir", swarm.run_folder, timeout=ANSWERS_WITHIN)
            self.assertEqual(swarm.scheduler.wait(ANSWERS_WITHIN), 0)
            for name in swarm.peers:
                self.assert_answers(swarm, name)
                swarm.peers[name].signal(15)
                self.assert_ends(swarm, name)

    def test_pausing_and_leaving_lose_no_step(self):
        with self.swarm(checkpoint_every=1000) as swarm:
            swarm.start()
            swarm.wait_step(8)
            before = swarm.run()["step"]
            said = run("shoal", "pause", "--dir", swarm.peer_folder("p1")).stdout
            self.assertIn("no step is lost", said)
            run("shoal", "pause", "--dir", swarm.peer_folder("p1"))  # impatience changes nothing
            wait_for(lambda: swarm.peer_status("p1")["state"] == "paused", 30, "p1 is paused")
            paused = swarm.wait_state("paused")
            self.assertGreater(paused["checkpointStep"], before)
            self.assertEqual(paused["checkpointStep"], paused["step"])
            run("shoal", "resume", "--dir", swarm.peer_folder("p1"))
            resumed = swarm.wait_state("training", 40)
            self.assertGreaterEqual(resumed["step"], paused["step"])
            swarm.wait_step(paused["step"] + 3)

            run("shoal", "swarm", "pause", "--dir", swarm.run_folder)
            run("shoal", "swarm", "pause", "--dir", swarm.run_folder)
            held = swarm.wait_state("paused")
            self.assertGreaterEqual(held["checkpointStep"], paused["step"] + 3)
            self.assertEqual(held["checkpointStep"], held["step"])
            run("shoal", "swarm", "resume", "--dir", swarm.run_folder)
            swarm.wait_step(held["step"] + 2)

            said = run("shoal", "leave", "--dir", swarm.peer_folder("p0")).stdout
            self.assertIn("no step is lost", said)
            self.assertEqual(swarm.peers["p0"].wait(30), 0)
            left = swarm.wait_run(lambda r: r["state"] == "paused", 20, "it is missed", but=["p0"])
            self.assertGreaterEqual(left["checkpointStep"], held["step"] + 2)
            self.assertEqual(left["checkpointStep"], left["step"])
            swarm.start_peer("p0")
            begun = swarm.wait_step(left["step"] + 1)["step"]

            swarm.peers["p0"].signal(15)
            self.assert_ends(swarm, "p0")
            ended = swarm.wait_run(lambda r: r["state"] == "paused", 20, "it is missed", but=["p0"])
            self.assertGreater(ended["checkpointStep"], begun)
            self.assertEqual(ended["checkpointStep"], ended["step"])
            swarm.stop()

    @staticmethod
    def fill(disk):
        subprocess.run(["dd", "if=/dev/zero", f"of={disk}/filler", "bs=4k"],
                       stderr=subprocess.DEVNULL, check=False)

    def test_a_full_disk_undoes_no_step_and_keeps_nobody(self):
        with self.swarm() as swarm:
            disk = swarm.peer_folder("p1")
            disk.mkdir(mode=0o700)
            if not harness.is_root() or subprocess.run(
                    ["mount", "-t", "tmpfs", "-o", "size=64m,mode=0700", "tmpfs", disk],
                    check=False).returncode != 0:
                self.skipTest("needs root and mount, to make a disk that is full")
            self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
            swarm.start()
            swarm.wait_run(lambda r: r["checkpointStep"] >= 5, 60, "the first checkpoint")
            self.fill(disk)
            named = swarm.wait_run(lambda r: "cannot save" in r["reason"], 60, "it is named")
            self.assertIn("p1", named["reason"])
            self.assertIn("No space left", named["reason"])
            step = named["step"]
            later = swarm.wait_step(step + 12)
            self.assertEqual(later["generation"], named["generation"])
            os.remove(disk / "filler")
            swarm.wait_run(lambda r: r["checkpointStep"] > step and not r["reason"], 60,
                           "it saves again")
            self.fill(disk)
            run("shoal", "leave", "--dir", disk, timeout=ANSWERS_WITHIN)
            self.assertEqual(swarm.peers["p1"].wait(20), 0)
            swarm.stop()


if __name__ == "__main__":
    harness.main()
