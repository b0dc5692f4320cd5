"""Micro-batches computed again by real peers: honest ones agree, with the default codecs."""

import urllib.request

import harness
from swarm import Swarm


class SpotCheckTest(harness.SwarmTest):
    def train(self, **shape):
        with Swarm(self.folder / "swarm", steps=12, checkpoint_every=12, **shape) as swarm:
            swarm.sections["scheduler"] = {"spot_checks": 1.0}
            del swarm.sections["codecs"]
            swarm.start()
            swarm.wait_finished()
            found = swarm.status()["spotChecks"]
            with urllib.request.urlopen(f"http://{swarm.address()}/metrics", timeout=10) as page:
                metrics = page.read().decode()
            swarm.stop()
        return found, metrics

    def test_honest_peers_agree(self):
        found, metrics = self.train(stages=2, pipelines=2)
        self.assertGreater(found["done"], 0, found)
        self.assertEqual((found["failed"], found["undecided"], found["last"]), (0, 0, ""))
        self.assertLessEqual(found["done"] + found["missed"], 12)
        self.assertIn(f"shoal_spot_checks_total {found['done']}", metrics)


if __name__ == "__main__":
    harness.main()
