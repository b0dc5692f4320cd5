"""What lies on the disk of a peer or of the scheduler: from another run, damaged or gone."""

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
        self.assertEqual({place["run"] for place in stats["places"]}, set(runs))
        shown = run("shoal", "store", "stats", "--dir", self.folder / "s" / "p0").stdout
        self.assertIn(f"checkpoints of run {runs[0]}: 2 up to step 20", shown)

    def test_damaged_blobs_of_a_peer_are_fetched_again(self):
        """Each kind of harm to all that both peers hold, while the scheduler has the truth."""
        with Swarm(self.folder / "s", steps=400, **SMALL) as swarm:
            swarm.start()
            swarm.wait_run(lambda r: r["checkpointStep"] >= 10, 60, "the first checkpoint")
            for harm in HARMS:
                for name in ("p0", "p1"):
                    swarm.peers[name].signal(signal.SIGTERM)
                    swarm.peers[name].wait(30)
                for name in ("p0", "p1"):
                    for blob in blobs(swarm.peer_folder(name) / "content"):
                        harm(blob)
                before = swarm.run()
                for name in ("p0", "p1"):
                    swarm.start_peer(name)
                after = swarm.wait_run(
                    lambda r: r["state"] == "training" and r["step"] > before["checkpointStep"],
                    60, f"training goes on after {harm.__name__}")
                # The first plan works: nobody trained on damaged weights, nobody failed.
                self.assertEqual(after["generation"], before["generation"] + 1, harm.__name__)
                self.assertEqual(after["losses"][:before["checkpointStep"]],
                                 before["losses"][:before["checkpointStep"]])
            swarm.stop()


if __name__ == "__main__":
    harness.main()
