"""A peer keeps its owner's terms: it pauses by rules and for a time, takes part again by itself,
and finishes."""

import datetime
import json
import subprocess

import harness
from harness import run, wait_for
from swarm import Swarm


class TermsTest(harness.SwarmTest):

    def swarm(self):
        return Swarm(self.folder / "s", stages=2, steps=10_000, micro_batches=2,
                     checkpoint_every=1000)

    def shoal(self, swarm, *words):
        return run("shoal", *words, "--dir", swarm.peer_folder("p1")).stdout

    def wait_reason(self, swarm, reason, state="paused"):
        def there():
            status = swarm.peer_status("p1", check=False)
            fits = status and status["state"] == state and status["terms"]["reason"] == reason
            return status if fits else None
        return wait_for(there, 40, f"p1 is {state}, with the reason {reason}")

    def not_now(self):
        """A schedule whose time is half a day away."""
        hour = (datetime.datetime.now().hour + 12) % 24
        return f"{hour:02}:00-{hour:02}:30"

    def game(self):
        """A process whose name no other has."""
        name = f"shoal-game-{self.folder.name}"
        process = subprocess.Popen([name, "100"], executable="/bin/sleep")
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return name, process

    def test_a_pause_for_a_time_ends_by_itself_and_loses_no_step(self):
        with self.swarm() as swarm:
            swarm.start()
            before = swarm.wait_step(6)["step"]
            self.assertIn("it takes part again at", self.shoal(swarm, "pause", "--for", "10s"))
            status = self.wait_reason(swarm, "user")
            self.assertRegex(status["stateReasons"][0], r"^paused until \d\d:\d\d: by its user; ")
            paused = swarm.wait_state("paused")
            self.assertGreaterEqual(paused["step"], before)
            swarm.peers["p1"].signal(15)
            self.assertEqual(swarm.peers["p1"].wait(30), 0)
            swarm.start_peer("p1")  # it still knows
            self.wait_reason(swarm, "user")
            self.wait_reason(swarm, "none", "training")
            swarm.wait_step(paused["step"] + 2)
            swarm.stop()

    def test_rules_pause_and_their_end_resumes_but_not_what_the_user_paused(self):
        with self.swarm() as swarm:
            swarm.start()
            swarm.wait_step(3)
            name, process = self.game()
            self.assertIn(f"exclusive={name}", self.shoal(swarm, "set", f"exclusive={name}"))
            status = self.wait_reason(swarm, "program")
            self.assertEqual(status["stateReasons"], [f"paused: {name} runs, or ran a moment ago"])
            held = swarm.wait_state("paused")
            self.assertEqual(held["checkpointStep"], held["step"])
            self.assertNotIn(name, str(swarm.status()))  # it is nobody else's business
            process.kill()
            self.shoal(swarm, "set", "exclusive=default")
            self.wait_reason(swarm, "none", "training")
            swarm.wait_step(held["step"] + 2)

            self.assertIn(": schedule", self.shoal(swarm, "set", f"schedule={self.not_now()}"))
            self.wait_reason(swarm, "schedule")
            self.assertIn("for a time", self.shoal(swarm, "resume"))
            swarm.peers["p1"].signal(15)
            self.assertEqual(swarm.peers["p1"].wait(30), 0)
            swarm.start_peer("p1")
            status = self.wait_reason(swarm, "schedule")
            self.assertRegex(status["stateReasons"][0], r"^paused until \d\d:00: schedule$")
            self.assertIn("  paused for ", " " + self.shoal(swarm, "status"))
            self.shoal(swarm, "pause")
            self.shoal(swarm, "set", "schedule=default")
            self.wait_reason(swarm, "user")
            self.shoal(swarm, "resume")
            self.wait_reason(swarm, "none", "training")
            swarm.stop()

    def test_finish_hands_over_and_stays_a_member(self):
        with self.swarm() as swarm:
            swarm.start()
            begun = swarm.wait_step(4)["step"]
            stats = json.loads(self.shoal(swarm, "stats", "--json"))
            self.assertGreater(stats["total"]["microBatches"], 0)
            self.assertGreater(stats["total"]["sentBytes"], 100_000)
            self.assertEqual(stats["days"][-1]["day"], datetime.date.today().isoformat())
            said = self.shoal(swarm, "finish")
            self.assertIn("the run saves a checkpoint first", said)
            self.assertEqual(swarm.peers["p1"].wait(40), 0)
            left = swarm.wait_run(lambda r: r["state"] == "paused", 20, "it is missed", but=["p1"])
            self.assertGreaterEqual(left["checkpointStep"], begun)
            self.assertEqual(left["checkpointStep"], left["step"])
            swarm.start_peer("p1", invite="")
            swarm.wait_step(left["step"] + 2)
            usage = swarm.peer_status("p1")["usage"]  # goes on where it was
            self.assertGreaterEqual(usage["sentBytes"], stats["total"]["sentBytes"])
            swarm.stop()


if __name__ == "__main__":
    harness.main()
