"""Micro-batches computed again by real peers: honest ones agree, with the default codecs, and
cheats go into quarantine."""

import collections
import re
import urllib.request

import harness
from swarm import Swarm

# A cheat is found within some 30 steps; then the run is stopped.
STEPS_MAX = 100_000
FOUND_TIMEOUT = 240
GONE_ON = 10  # steps


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


class CheatTest(harness.SwarmTest):
    """Three pipelines of two stages; one member is tests/support/cheating_shoald.cc."""

    def start(self, swarm, cheat, stage):
        """Its cheat gets this stage: who joins first get the last one."""
        swarm.sections["scheduler"] = {"spot_checks": 1.0}
        del swarm.sections["codecs"]
        swarm.start_scheduler()
        honest = [f"p{index}" for index in range(5)]
        programs = {"cheat": "cheating_shoald"}
        for wave in ([["cheat"], honest] if stage == 1 else [honest, ["cheat"]]):
            for name in wave:
                swarm.start_peer(name, program=programs.get(name, "shoald"),
                                 env={"SHOAL_CHEAT": cheat})
            harness.wait_for(lambda names=wave: set(names) <= set(self.members(swarm)), 120,
                             f"{wave} join")

    def members(self, swarm):
        return {member["name"]: member for member in swarm.status()["members"]}

    def find(self, cheat, stage, kind, reason):
        """The cheat goes into quarantine for `reason`, nobody else does, and the run goes on. What
        spot checks found."""
        with Swarm(self.folder / "swarm", stages=2, pipelines=3, micro_batches=6,
                   steps=STEPS_MAX) as swarm:
            self.start(swarm, cheat, stage)
            swarm.wait_run(lambda _: self.members(swarm)["cheat"]["quarantine"], FOUND_TIMEOUT,
                           "the cheat is found")
            swarm.wait_step(swarm.run()["step"] + GONE_ON)
            members = self.members(swarm)
            self.assertRegex(members["cheat"]["quarantine"], reason)
            self.assertEqual([n for n, m in members.items() if m["quarantine"]], ["cheat"])
            places = swarm.places()
            self.assertNotIn("cheat", places)
            # Two whole ones, and who is left of its pipeline follows.
            sizes = collections.Counter(pipeline for _, pipeline in places.values())
            self.assertEqual(sorted(sizes.values()), [1, 2, 2])
            ends = [e["reason"] for e in swarm.events()["events"] if e["kind"] == "ended"]
            self.assertTrue(any(re.search(reason, end) for end in ends), ends)
            own = swarm.peer_status("cheat")
            self.assertEqual((own["quarantine"]["kind"], own["quarantine"]["faults"]), (kind, 3))
            self.assertIn("in quarantine until", own["stateReasons"][0])
            checks = swarm.status()["spotChecks"]
            swarm.stop()
        return checks

    def test_outputs_that_are_a_fifth_too_large(self):
        checks = self.find("scale", 0, "outputs",
                           r"the output of peer cheat \(\w+\) of stage 0, pipeline \d differs by "
                           r"[12]\d(\.\d)? % from what was computed again")
        self.assertEqual((checks["failed"], checks["undecided"]), (3, 0), checks)

    def test_half_the_loss(self):
        checks = self.find("loss", 1, "outputs",
                           r"the loss of peer cheat \(\w+\) of stage 1, pipeline \d differs by "
                           r"50 % from what was computed again")
        self.assertEqual((checks["failed"], checks["undecided"]), (3, 0), checks)

    def test_outputs_that_are_not_finite(self):
        checks = self.find("nan", 0, "failures",
                           r"peer cheat \(\w+\) of stage 0, pipeline \d cannot do its part: .*"
                           r"a value (that )?is not finite")
        self.assertEqual(checks["failed"], 0, checks)

    def test_gradients_a_million_times_too_large(self):
        """From the first step on, when nobody knows what is usual."""
        checks = self.find("gradients", 1, "values",
                           r"refuses what peer cheat \(\w+\) of stage 1, pipeline \d sent: .*the "
                           r"norm of its gradient is \d(\.\d)?e\+0\d times that of usual "
                           r"gradients here")
        self.assertEqual(checks["failed"], 0, checks)


if __name__ == "__main__":
    harness.main()
