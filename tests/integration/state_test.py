"""What lies on the disk of a peer or of the scheduler: from another run, damaged or gone."""

import shutil
import signal

import harness
from harness import run
from swarm import Swarm

SMALL = dict(stages=2, pipelines=1, micro_batches=4, rows=2, checkpoint_every=10)


def blobs(store):
    return sorted((store / "blobs").iterdir())


def flip(path):
    """One bit in the middle. Written as another file: the source of a hard link stays whole."""
    content = bytearray(path.read_bytes())
    if content:
        content[len(content) // 2] ^= 4
    replace(path, bytes(content))


def halve(path):
    replace(path, path.read_bytes()[:path.stat().st_size // 2])


def empty(path):
    replace(path, b"")


def delete(path):
    path.unlink()


def replace(path, content):
    path.unlink()
    path.write_bytes(content)


HARMS = (flip, halve, empty, delete)


def harm_all(store, turn):
    """Every blob is harmed, neighbours in different ways."""
    for index, blob in enumerate(blobs(store)):
        HARMS[(index + turn) % len(HARMS)](blob)


class StateTest(harness.SwarmTest):

    def test_a_peer_takes_part_in_a_second_run_with_the_same_folder(self):
        runs = []
        for number in (1, 2):
            with Swarm(self.folder / "s", steps=20, forward="aqsgd:bits=4",
                       backward="direct:bits=8", **SMALL) as swarm:
                swarm.run_folder = swarm.folder / f"run{number}"
                swarm.sections["run"]["directory"] = str(swarm.run_folder)
                swarm.start()
                swarm.wait_finished()
                status = swarm.status()["run"]
                self.assertEqual(status["generation"], 1)
                runs.append(status["id"])
                swarm.stop()
        stats = harness.run_json("shoal", "store", "stats", "--dir", self.folder / "s" / "p0",
                                 "--json")
        self.assertEqual([kept["run"] for kept in stats["checkpoints"]], runs[::-1])
        self.assertEqual({place["run"] for place in stats["boundaries"]}, set(runs))
        shown = run("shoal", "store", "stats", "--dir", self.folder / "s" / "p0").stdout
        self.assertIn(f"checkpoints of run {runs[0]}: 2 up to step 20", shown)

    def test_damaged_blobs_of_a_peer_are_fetched_again(self):
        """Harm to all that both peers hold, while the scheduler has the truth."""
        with Swarm(self.folder / "s", steps=400, **SMALL) as swarm:
            swarm.start()
            swarm.wait_run(lambda r: r["checkpointStep"] >= 10, 60, "the first checkpoint")
            for turn in (0, 2):
                self.stop_peers(swarm)
                for name in ("p0", "p1"):
                    harm_all(swarm.peer_folder(name) / "content", turn)
                before = swarm.run()
                for name in ("p0", "p1"):
                    swarm.start_peer(name)
                after = swarm.wait_run(
                    lambda r: r["state"] == "training" and r["step"] > before["checkpointStep"],
                    60, "training goes on")
                # The first plan works: nobody trained on damaged weights, nobody failed.
                self.assertEqual(after["generation"], before["generation"] + 1)
                self.assertEqual(after["losses"][:before["checkpointStep"]],
                                 before["losses"][:before["checkpointStep"]])
            swarm.stop()


    def stop_peers(self, swarm):
        for daemon in swarm.peers.values():
            daemon.signal(signal.SIGTERM)
        for daemon in swarm.peers.values():
            daemon.wait(30)

    def test_the_scheduler_makes_damaged_artefacts_again_or_asks_its_peers(self):
        model = shutil.copytree(harness.model(), self.folder / "model")
        with Swarm(self.folder / "s", steps=400, model=model, **SMALL) as swarm:
            swarm.start()
            swarm.wait_run(lambda r: r["checkpointStep"] >= 10, 60, "the first checkpoint")
            for turn in (0, 2):
                self.stop_peers(swarm)
                self.assertEqual(swarm.scheduler.stop(), 0)
                # Initial parts are made again from the model, those of the checkpoint come from
                # the peers.
                harm_all(swarm.run_folder / "artefacts", turn)
                if turn == 2:  # what the run keeps of the model stands in for it
                    model.rename(self.folder / "moved")
                swarm.start_scheduler()
                before = swarm.run()
                self.assertIn("damaged or gone at the scheduler", before["reason"])
                for name in ("p0", "p1"):
                    swarm.start_peer(name)
                after = swarm.wait_run(
                    lambda r: r["state"] == "training" and r["step"] > before["checkpointStep"],
                    60, "training goes on")
                self.assertEqual(after["generation"], before["generation"] + 1)
                self.assertGreaterEqual(before["checkpointStep"], 10)
            swarm.stop()

    def test_a_missing_history_is_named_and_the_run_starts_anew_when_told(self):
        with Swarm(self.folder / "s", steps=30, **SMALL) as swarm:
            swarm.start()
            swarm.wait_run(lambda r: r["checkpointStep"] >= 10, 60, "the first checkpoint")
            first = swarm.status()["run"]["id"]
            self.stop_peers(swarm)
            self.assertEqual(swarm.scheduler.stop(), 0)
            shutil.rmtree(swarm.run_folder / "events")
            refused = run("shoal-scheduler", "--config", swarm.write_config(), check=False,
                          timeout=60)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("events is empty", refused.stderr)
            self.assertIn("--forget-history", refused.stderr)
            swarm.start_scheduler("--forget-history")
            for name in ("p0", "p1"):
                swarm.start_peer(name)
            swarm.wait_finished()
            self.assertNotEqual(swarm.status()["run"]["id"], first)
            aside = swarm.run_folder / "set-aside-1"
            self.assertTrue(blobs(aside / "artefacts"))
            swarm.stop()
            for name in ("p0", "p1"):
                kept = harness.run_json("shoal", "store", "stats", "--dir",
                                        swarm.peer_folder(name), "--json")["checkpoints"]
                self.assertIn(first, [item["run"] for item in kept])


if __name__ == "__main__":
    harness.main()
