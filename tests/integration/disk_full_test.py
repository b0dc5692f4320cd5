"""Disks that fill up: what failed says so, nothing half-written stays, and no step is lost."""

import contextlib
import json
import os
import subprocess

import harness
from harness import FAILURE, run, wait_for
from swarm import Swarm


def refused(name, *arguments, **options):
    return run(name, *arguments, check=False, timeout=40, **options)


@harness.unittest.skipUnless(harness.is_root(), "needs root")
class DiskFullTest(harness.SwarmTest):

    def small_disk(self, size):
        disk = self.folder / "disk"
        disk.mkdir()
        # shoald refuses a folder that every user may write into, as a tmpfs allows by default.
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "tmpfs", disk],
                       check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        return disk

    def test_prepare(self):
        disk = self.small_disk("16k")
        done = refused("shoal-run", "prepare", "--tokenizer", harness.model(), "--text",
                       harness.text(40_000), "--row", 32, "--out", disk / "data.shoal")
        self.assert_refused(done, FAILURE, "No space left", r"data\.shoal")
        self.assertEqual(list(disk.iterdir()), [])

    def test_init_model(self):
        disk = self.small_disk("1m")
        done = refused("shoal-run", "init-model", "--config",
                       harness.EXAMPLES / "tiny-gpt2/config.json", "--out", disk / "model")
        self.assert_refused(done, FAILURE, "a disk with 1.00 MiB free", "another disk")
        self.assertFalse((disk / "model/model.safetensors").exists())

    def test_convert(self):
        disk = self.small_disk("1m")
        done = refused("shoal", "convert", "--model", harness.model(), "--out", disk / "out")
        self.assert_refused(done, FAILURE, "No space left|free")
        self.assertEqual(list(disk.iterdir()), [])

    def test_swarm_init(self):
        disk = self.small_disk("4k")
        (disk / "filler").write_bytes(bytes(4096))
        done = refused("shoal", "swarm", "init", "--dir", disk / "run", "--stages", 2, "--model",
                       harness.model(), "--data", harness.data())
        self.assert_refused(done, FAILURE, "No space left")
        self.assertEqual([path.name for path in disk.iterdir()], ["filler"])

    def test_export(self):
        disk = self.small_disk("1m")
        with Swarm(self.folder / "s", stages=1, steps=2) as swarm:
            swarm.start()
            swarm.wait_finished()
            done = refused("shoal", "swarm", "export", "--dir", swarm.run_folder, "--out",
                           disk / "tuned")
            self.assert_refused(done, FAILURE, "No space left")
            self.assertFalse((disk / "tuned/model.safetensors").exists())
            self.assertEqual(swarm.run()["state"], "finished")
            swarm.export(self.folder / "tuned")
            swarm.stop()

    def test_scheduler(self):
        disk = self.small_disk("1m")
        swarm = Swarm(self.folder / "s", directory=str(disk / "run"))
        done = refused("shoal-scheduler", "--config", swarm.write_config())
        self.assert_refused(done, FAILURE, "No space left")

    def test_scheduler_while_it_runs(self):
        """What its disk does not take its peers keep, and send when there is space again."""
        disk = self.small_disk("64m")
        swarm = self.enterContext(Swarm(self.folder / "s", directory=str(disk / "run"), stages=1,
                                        steps=4, checkpoint_every=2))
        swarm.run_folder = disk / "run"
        swarm.start()
        wait_for(lambda: swarm.run()["state"] == "training", 60, "the run trains")
        filler = disk / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        # For the run's history, which needs little.
        os.truncate(filler, filler.stat().st_size - (256 << 10))
        wait_for(lambda: "the scheduler's disk takes no checkpoint" in swarm.run()["reason"], 60,
                 lambda: swarm.run())
        self.assertEqual(swarm.run()["checkpointStep"], 0)
        filler.unlink()
        swarm.wait_finished()
        self.assertEqual(swarm.run()["checkpointStep"], 4)
        events = harness.run_json("shoal", "swarm", "events", "--json", "--dir", swarm.run_folder)
        self.assertEqual((events["generations"], events["stepsLost"]), (1, 0))
        swarm.stop()

    def test_peer(self):
        # Too small for the stage's weights: the run cannot start, and says why.
        disk = self.small_disk("2m")
        with Swarm(self.folder / "s", stages=1, steps=5) as swarm:
            swarm.start_scheduler()
            swarm.peer_folder("p0").symlink_to(disk)
            swarm.start_peer("p0")

            def told():
                status = swarm.status()
                seen = str([status["run"]["reason"], status["members"]])
                return "No space left" in seen
            wait_for(told, 60, "the scheduler knows that the disk is full")
            self.assert_set_keeps_what_was(disk)

    def assert_set_keeps_what_was(self, disk):
        filler = disk / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        done = refused("shoal", "set", "upload=5mbit", "--dir", disk)
        self.assert_refused(done, FAILURE, "No space left", "nothing was changed", "unlimited")
        status = json.loads(run("shoal", "status", "--json", "--dir", disk).stdout)
        self.assertEqual(status["limits"]["upBps"], 0)
        doctor = run("shoal", "doctor", "--dir", disk, check=False)
        self.assertRegex(doctor.stdout, "bad +disk .* free below .*checkpoint may find no room")
        filler.unlink()
        run("shoal", "set", "upload=5mbit", "--dir", disk)
        status = json.loads(run("shoal", "status", "--json", "--dir", disk).stdout)
        self.assertEqual(status["limits"]["upBps"], 5_000_000)


if __name__ == "__main__":
    harness.main()
