"""A peer keeps its owner's terms: it pauses by rules and for a time, takes part again by itself,
and finishes."""

import datetime
import json
import os
import shutil
import subprocess

import harness
from harness import run, wait_for
from swarm import Swarm


class TermsTest(harness.SwarmTest):

    def swarm(self, **run):
        return Swarm(self.folder / "s", stages=2, steps=10_000, micro_batches=2,
                     checkpoint_every=1000, **run)

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

    def card(self, *lines):
        """What the fake driver of tests/support/fake_nvml.cc says of its card from now on."""
        path = self.folder / "card"
        text = ["power 120000", "limit 350000 100000 400000 320000", "memory 1073741824 4294967296",
                *lines]
        path.with_suffix(".new").write_text("\n".join(text) + "\n")
        path.with_suffix(".new").rename(path)
        return {"SHOAL_FAKE_NVML": str(path),
                "LD_LIBRARY_PATH": str(harness.BIN.parent / "tests/fake_nvml")}

    def test_who_uses_the_gpu_pauses_the_peer_and_its_watts_are_shown(self):
        with self.swarm() as swarm:
            env = self.card("compute %d 4096" % os.getpid(), "sample %d 5 0" % os.getpid())
            config = self.folder / "card.toml"
            config.write_text('[compute]\ncard = "0"\n')
            swarm.start_scheduler()
            swarm.start_peer("p0")
            swarm.start_peer("p1", "--config", config, env=env)
            swarm.wait_step(2)
            self.assertIsNone(swarm.peer_status("p0")["gpu"])
            gpu = wait_for(lambda: swarm.peer_status("p1")["gpu"], 20, "the card is seen")
            self.assertEqual(gpu["name"], "Fake RTX")
            self.assertEqual((gpu["powerWatts"], gpu["powerLimitWatts"]), (120, 350))
            self.assertIn("120 W of at most 350 W", self.shoal(swarm, "status"))

            self.shoal(swarm, "set", "gpu_free=2s", "gpu_power=200W")
            self.assertRegex(self.shoal(swarm, "set"), r"\ngpu_power +200W +Most power")
            limit = self.folder / "card.limit"
            wait_for(limit.exists, 20, "the limit is set")
            self.assertEqual(limit.read_text(), "200000")
            self.assertIn("GPU power 200 W at most", self.shoal(swarm, "status"))
            name = f"game-{os.getpid()}"
            shutil.copy("/bin/sleep", self.folder / name)
            process = subprocess.Popen([str(self.folder / name), "100"])
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            self.card(f"graphics {process.pid} 4096", f"sample {process.pid} 80 0")
            status = self.wait_reason(swarm, "gpu")
            self.assertEqual(status["stateReasons"],
                             [f"paused: the GPU is used by {name}, or was a moment ago"])
            self.assertNotIn(name, str(swarm.status()))  # it is nobody else's business
            held = swarm.wait_state("paused")
            self.card()
            self.wait_reason(swarm, "none", "training")
            swarm.wait_step(held["step"] + 2)

            stats = json.loads(self.shoal(swarm, "stats", "--json"))
            self.assertGreater(stats["total"]["energyJoules"], 0)
            self.assertIn("energy", self.shoal(swarm, "stats"))
            swarm.stop()
            self.assertEqual(limit.read_text(), "350000")  # as it was before

    def test_a_disk_quota_is_kept_and_said(self):
        with self.swarm() as swarm:
            swarm.start()
            swarm.wait_step(3)
            self.shoal(swarm, "set", "disk=1MiB")
            rules = wait_for(lambda: [rule for rule in swarm.peer_status("p1")["terms"]["rules"]
                                      if rule.startswith("disk ")], 20, "the quota is looked at")
            self.assertRegex(rules[0], r"^disk .* of 1.00 MiB")
            before = swarm.status()["run"]["step"]
            swarm.wait_step(before + 3)  # whatever becomes of m
            self.assertLess(swarm.peer_status("p1")["deltaStore"]["limit"], 1 << 20)
            self.shoal(swarm, "set", "disk=off")
            wait_for(lambda: swarm.peer_status("p1")["deltaStore"]["limit"] > 1 << 30, 20,
                     "m has its own quota again")
            swarm.stop()

    def test_a_disk_quota_shrinks_m_of_a_paused_peer(self):
        with self.swarm(forward="aqsgd:bits=4") as swarm:
            swarm.start()
            swarm.wait_step(3)
            self.shoal(swarm, "pause")
            self.wait_reason(swarm, "user")
            self.assertGreater(swarm.peer_status("p1")["deltaStore"]["records"], 0)
            held = swarm.status()["run"]["step"]
            self.shoal(swarm, "set", "disk=1MiB")  # less than the weights alone
            wait_for(lambda: swarm.peer_status("p1")["deltaStore"]["records"] == 0, 20, "m is gone")
            self.shoal(swarm, "set", "disk=off")
            self.shoal(swarm, "resume")
            swarm.wait_step(held + 3)
            self.assertEqual(swarm.status()["consistency"]["mMismatches"], 0)
            swarm.stop()

    def test_less_device_memory_holds_at_once_or_after_a_handover(self):
        with self.swarm() as swarm:
            swarm.start()
            before = swarm.wait_step(4)
            self.shoal(swarm, "set", "device_memory=1GiB")
            wait_for(lambda: "device_memory 1.00 GiB" in swarm.peer_status("p1")["terms"]["rules"],
                     20, "the bound is said")
            after = swarm.wait_step(before["step"] + 3)
            self.assertEqual(after["generation"], before["generation"])
            wrong = run("shoal", "set", "device_memory=1000TiB", "--dir",
                        swarm.peer_folder("p1"), check=False)
            self.assertIn("but the machine has", wrong.stderr)

            self.assertGreater(swarm.peer_status("p1")["memory"]["stateBytes"], 100_000)
            self.assertIn("handed over", self.shoal(swarm, "set", "device_memory=100000B"))
            held = swarm.wait_run(lambda r: r["state"] == "paused" and "97.7 KiB" in r["reason"],
                                  40, "p1 offers less")
            self.assertEqual(held["checkpointStep"], held["step"])
            self.assertGreaterEqual(held["step"], after["step"])
            self.wait_reason(swarm, "none", "waiting")
            swarm.peers["p1"].signal(15)
            self.assertEqual(swarm.peers["p1"].wait(30), 0)
            swarm.start_peer("p1")  # it still knows
            wait_for(lambda: (swarm.peer_status("p1", check=False) or {}).get("state") == "waiting",
                     30, "p1 is back")
            self.assertIn("device_memory 97.7 KiB", swarm.peer_status("p1")["terms"]["rules"])
            self.shoal(swarm, "set", "device_memory=default")
            self.wait_reason(swarm, "none", "training")
            swarm.wait_step(held["step"] + 2)
            swarm.stop()

    def test_a_budget_is_not_overshot_by_the_handover(self):
        with self.swarm() as swarm:
            swarm.start()
            swarm.wait_step(6)

            def counted():
                usage = swarm.peer_status("p1")["usage"]
                used = usage["sentBytes"] + usage["receivedBytes"]
                return used if used > 200_000 else None
            used = wait_for(counted, 20, "bytes are counted")
            stage = swarm.peer_status("p1")["memory"]["stateBytes"]
            self.shoal(swarm, "set", f"budget={(2 * stage + 4 * used) // 1000}kB/month")
            status = self.wait_reason(swarm, "budget")
            self.assertIn("but for handing the stage over", status["stateReasons"][0])
            held = swarm.wait_state("paused")
            self.assertEqual(held["checkpointStep"], held["step"])
            budget = swarm.peer_status("p1")["budget"]
            self.assertLessEqual(budget["usedBytes"], budget["limitBytes"])
            self.shoal(swarm, "set", "budget=off")
            self.wait_reason(swarm, "none", "training")
            swarm.wait_step(held["step"] + 2)
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
