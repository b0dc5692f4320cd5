"""A peer or the scheduler dies without a word: nobody hangs, everybody says why, the run goes on
from the last checkpoint as soon as it can."""

import json
import signal
import time

import harness
from harness import run, wait_for
from swarm import Swarm, train

PAUSED_WITHIN = 10  # seconds, a promise to users


class FailureTest(harness.SwarmTest):

    def assert_same_steps(self, swarm, steps):
        losses = swarm.run()["losses"]
        self.assertEqual(len(losses), steps)
        self.assertLess(sum(losses[-5:]), sum(losses[:5]))

    def wait_checkpoint(self, swarm):
        """Some steps after one that all peers have on disk, which takes as long as it does."""
        swarm.wait_run(lambda r: r["checkpointStep"] >= 10, 60, "the first checkpoint")
        swarm.wait_step(swarm.run()["checkpointStep"] + 3)

    def test_a_killed_peer_pauses_the_run_and_a_restart_resumes_it(self):
        with Swarm(self.folder / "s", stages=2, pipelines=2, steps=60, micro_batches=4,
                   checkpoint_every=10, forward="aqsgd:bits=4", backward="direct:bits=8") as swarm:
            swarm.start()
            self.wait_checkpoint(swarm)
            victim = swarm.peer_at(stage=1, pipeline=0)
            survivors = [n for n in swarm.peers if n != victim]
            swarm.peers[victim].kill()
            killed = time.monotonic()
            paused = swarm.wait_run(lambda r: r["state"] == "paused", PAUSED_WITHIN, "paused",
                                    but=[victim])
            self.assertLess(time.monotonic() - killed, PAUSED_WITHIN)
            self.assertIn(victim, paused["reason"])
            self.assertRegex(paused["reason"], r"stage 1\b")

            def all_know():
                for name in survivors:
                    status = swarm.peer_status(name)
                    seen = json.dumps([status["stateReasons"], status["swarm"]["reason"]])
                    if status["swarm"]["state"] != "paused" or victim not in seen:
                        return False
                    self.assertIn("stage 1", seen)
                return True
            self.assertIn("stage 1, pipeline 0", run("shoal", "swarm", "status", "--dir",
                                                     swarm.run_folder).stdout)
            wait_for(all_know, PAUSED_WITHIN - (time.monotonic() - killed), "survivors know why")
            checkpoint = paused["checkpointStep"]
            self.assertGreaterEqual(checkpoint, 10)
            swarm.start_peer(victim)
            resumed = swarm.wait_state("training", 40)
            self.assertGreaterEqual(resumed["step"], checkpoint)
            swarm.wait_finished()
            consistency = swarm.status()["consistency"]
            self.assertGreater(consistency["mChecks"], 0)
            self.assertEqual(consistency["mMismatches"], 0)
            self.assert_same_steps(swarm, 60)
            repair = swarm.repairs()[-1]
            self.assertGreaterEqual(repair["step"], checkpoint)
            self.assertGreater(repair["secondsWithoutStep"], 0)
            swarm.stop()
            swarm.audit(60)

    def test_a_spare_takes_the_place_of_a_killed_peer(self):
        with Swarm(self.folder / "s", stages=2, pipelines=1, steps=60, micro_batches=4,
                   checkpoint_every=10) as swarm:
            swarm.start()
            swarm.wait_step(1)
            swarm.start_peer("spare")
            wait_for(lambda: any(m["name"] == "spare" for m in swarm.status()["members"]), 30,
                     "the spare is a member")
            swarm.wait_step(13)
            spare = next(m for m in swarm.status()["members"] if m["name"] == "spare")
            self.assertLess(spare["stage"], 0)
            victim = swarm.peer_at(stage=1)
            swarm.peers[victim].kill()
            swarm.wait_run(lambda r: any(
                m["name"] == "spare" and m["stage"] == 1 for m in swarm.status()["members"]),
                PAUSED_WITHIN + 20, "the spare has stage 1", but=[victim])
            swarm.wait_finished(but=[victim])
            self.assert_same_steps(swarm, 60)
            swarm.audit(60)
            moved = [c for r in swarm.repairs() for c in r["replaced"]]
            self.assertEqual([(c["stage"], c["from"]["name"], c["to"]["name"]) for c in moved],
                             [(1, victim, "spare")])
            swarm.stop()
            ledger = swarm.audit(60, "--sample", "17")
            self.assertEqual({m["name"] for m in ledger["members"]}, {"p0", "p1", "spare"})
            for visit in ledger["sample"]["visits"]:
                self.assertEqual(visit["microBatch"], 17 % 4)
                self.assertEqual(len(visit["members"]), 2)

    def assert_close(self, losses, calm):
        """Fewer pipelines add the same gradients up in another order."""
        self.assertEqual(len(losses), len(calm))
        for step, (loss, expected) in enumerate(zip(losses, calm)):
            self.assertAlmostEqual(loss, expected, delta=1e-6 * expected, msg=f"step {step}")

    def wait_whole(self, swarm, but):
        """Until all pipelines count, by what the scheduler says."""
        return swarm.wait_run(
            lambda r: r["state"] == "training" and "pipelines train" not in r["reason"], 60,
            "all pipelines train", but=but)

    def test_no_step_is_lost_where_every_stage_has_a_peer_left(self):
        """The others go on at once; who comes gets its stage from them while they train."""
        options = {"stages": 2, "pipelines": 2, "steps": 600, "micro_batches": 4,
                   "checkpoint_every": 10000, "optimizer": {"learning_rate": 1e-5}}
        calm, _ = train(self.folder / "calm", export=self.folder / "calm.out", **options)
        with Swarm(self.folder / "s", **options) as swarm:
            swarm.start()
            swarm.start_peer("spare")
            wait_for(lambda: len(swarm.status()["members"]) == 5, 30, "the spare is a member")
            gone, victims = [], []
            for step in (7, 150):
                swarm.wait_step(step, but=gone)
                victim = swarm.peer_at(stage=1 if gone else 0, pipeline=1)
                # A process that is killed, and one that only stands still.
                if gone:
                    swarm.peers[victim].signal(signal.SIGSTOP)
                else:
                    swarm.peers[victim].kill()
                gone.append(victim)
                victims.append(victim)
                fewer = swarm.wait_run(lambda r: "1 of 2 pipelines train" in r["reason"],
                                       PAUSED_WITHIN + 5, "the others go on", but=gone)
                self.assertIn(victim, fewer["reason"])
                self.assertEqual(fewer["checkpointStep"], 0)
                if len(gone) == 2:
                    swarm.start_peer(gone.pop(0))
                whole = self.wait_whole(swarm, gone)
                self.assertGreater(whole["step"], fewer["step"])
                self.assertEqual(whole["checkpointStep"], 0)
            swarm.wait_finished(but=gone)
            status = swarm.status()
            self.assertEqual(status["consistency"]["mMismatches"], 0)
            self.assertEqual(status["consistency"]["weightMismatches"], 0)
            self.assert_close(swarm.run()["losses"], calm)
            for name in gone:
                swarm.peers[name].kill()
            swarm.stop()
            self.assertEqual(swarm.audit(600)["stepsThrownAway"], 0)
            events = swarm.events()
            self.assertEqual(events["stepsLost"], 0)
            ended = [e["reason"] for e in events["events"] if e["kind"] in ("ended", "counting")]
            for name in victims:
                self.assertTrue(any(name in reason for reason in ended), ended)

    def test_who_is_left_of_two_broken_pipelines_makes_one(self):
        """Also long after the first one broke: who was left of it has followed the other."""
        options = {"stages": 2, "pipelines": 2, "steps": 500, "micro_batches": 4,
                   "checkpoint_every": 10000, "optimizer": {"learning_rate": 1e-5}}
        calm, _ = train(self.folder / "calm", export=self.folder / "calm.out", **options)
        with Swarm(self.folder / "s", **options) as swarm:
            swarm.start()
            swarm.wait_step(20)
            first, second = swarm.peer_at(1, pipeline=0), swarm.peer_at(0, pipeline=1)
            left = swarm.peer_at(0, pipeline=0)
            swarm.peers[first].kill()
            follows = swarm.wait_run(lambda r: "follows the others until" in r["reason"], 30,
                                     "who is left follows", but=[first])
            self.assertIn(f"{left} ", follows["reason"])
            swarm.wait_step(follows["step"] + 20, but=[first])
            swarm.peers[second].kill()
            reached = swarm.run()["step"]
            swarm.wait_step(reached + 20, but=[first, second])
            self.assertEqual(swarm.run()["checkpointStep"], 0)
            for name in (first, second):
                swarm.start_peer(name)
            self.wait_whole(swarm, [])
            swarm.wait_finished()
            self.assertEqual(swarm.status()["consistency"]["weightMismatches"], 0)
            self.assert_close(swarm.run()["losses"], calm)
            swarm.stop()
            self.assertEqual(swarm.audit(500)["stepsThrownAway"], 0)
            self.assertEqual(swarm.events()["stepsLost"], 0)

    def test_no_step_is_lost_with_local_steps_where_a_pipeline_is_whole(self):
        """It goes on alone between two syncs; another comes in with a checkpoint."""
        self.a_whole_pipeline_goes_on("average:local_steps=16", 3e-3)

    def test_no_step_is_lost_with_marsit_where_a_pipeline_is_whole(self):
        """One alone makes plain steps, not signs."""
        self.a_whole_pipeline_goes_on("marsit:start=3", 1e-2)

    def a_whole_pipeline_goes_on(self, replica, apart):
        options = {"stages": 2, "pipelines": 2, "steps": 400, "micro_batches": 4,
                   "checkpoint_every": 10000, "optimizer": {"learning_rate": 1e-5},
                   "replica": replica}
        calm, _ = train(self.folder / "calm", **options)
        with Swarm(self.folder / "s", **options) as swarm:
            swarm.start()
            swarm.wait_step(7)
            victim = swarm.peer_at(stage=1, pipeline=1)
            swarm.peers[victim].kill()
            fewer = swarm.wait_run(lambda r: "1 of 2 pipelines train" in r["reason"],
                                   PAUSED_WITHIN + 5, "the other goes on", but=[victim])
            self.assertEqual(fewer["checkpointStep"], 0)
            self.assertGreaterEqual(fewer["step"], 7)
            swarm.wait_step(fewer["step"] + 20, but=[victim])
            self.assertEqual(swarm.run()["checkpointStep"], 0)
            swarm.start_peer("newcomer")
            whole = self.wait_whole(swarm, [victim])
            self.assertGreater(whole["checkpointStep"], fewer["step"])
            swarm.wait_finished(but=[victim])
            self.assertEqual(swarm.status()["consistency"]["weightMismatches"], 0)
            losses = swarm.run()["losses"]
            self.assertEqual(len(losses), len(calm))
            for step, (loss, expected) in enumerate(zip(losses, calm)):
                # Weights of before would do worse; one that steps alone may do better.
                self.assertLess(loss, (1 + apart) * expected, msg=f"step {step}")
            swarm.stop()
            self.assertEqual(swarm.audit(400)["stepsThrownAway"], 0)
            self.assertEqual(swarm.events()["stepsLost"], 0)

    def test_a_step_goes_on_without_the_pipeline_whose_peer_hangs(self):
        self.a_step_goes_on_without_a_pipeline("average")

    def test_a_step_goes_on_with_momenta(self):
        """Exact ones, and without clipping, which goes by the norms of the pipelines that count."""
        self.a_step_goes_on_without_a_pipeline("qadam:bits=32,start=5", clip_norm=0)

    def a_step_goes_on_without_a_pipeline(self, replica, **optimizer):
        """It is noticed after seconds: the others keep what they have of the step, in the same
        generation. The peer gets its stage from them when it moves again."""
        options = {"stages": 2, "pipelines": 3, "steps": 250, "micro_batches": 6,
                   "checkpoint_every": 10000, "replica": replica,
                   "optimizer": {"learning_rate": 1e-5, **optimizer}}
        calm, _ = train(self.folder / "calm", export=self.folder / "calm.out", **options)
        with Swarm(self.folder / "s", **options) as swarm:
            swarm.start()
            swarm.wait_step(20)
            victim = swarm.peer_at(stage=1, pipeline=1)
            left = swarm.peer_at(stage=0, pipeline=1)
            before = swarm.run()["generation"]
            swarm.peers[victim].signal(signal.SIGSTOP)
            fewer = swarm.wait_run(lambda r: "2 of 3 pipelines train" in r["reason"],
                                   PAUSED_WITHIN + 5, "the others go on")
            self.assertIn(victim, fewer["reason"])
            self.assertRegex(fewer["reason"], rf"peer {left} .*follows the others until")
            self.assertEqual(swarm.wait_step(fewer["step"] + 3)["generation"], before)
            for name in swarm.peers:
                if name != victim:
                    self.assertEqual(swarm.peer_status(name)["health"], [])
            swarm.peers[victim].signal(signal.SIGCONT)
            whole = self.wait_whole(swarm, [])
            self.assertEqual(whole["checkpointStep"], 0)
            swarm.wait_finished()
            self.assertEqual(swarm.status()["consistency"]["mMismatches"], 0)
            self.assertEqual(swarm.status()["consistency"]["weightMismatches"], 0)
            self.assert_close(swarm.run()["losses"], calm)
            swarm.stop()
            self.assertEqual(swarm.audit(250)["stepsThrownAway"], 0)
            # In the same generation: who is left of its pipeline follows.
            said = [(e["kind"], e["reason"]) for e in swarm.events()["events"]
                    if e["kind"] in ("counting", "ended")]
            self.assertEqual(said[0][0], "counting")
            self.assertIn(victim, said[0][1])

    def test_a_peer_without_memory_says_what_fills_it_and_stays(self):
        # The backward makes again what the forward did not keep: more than placement counts.
        with Swarm(self.folder / "s", stages=1, steps=4, rows=8, recompute=True,
                   compute="fp32") as swarm:
            swarm.start_scheduler()
            swarm.start_peer("roomy")
            swarm.wait_finished()
            memory = swarm.peer_status("roomy")["memory"]
        counted = memory["stateBytes"] + memory["microBatchBytes"]
        with Swarm(self.folder / "t", stages=1, steps=4, rows=8, recompute=True,
                   compute="fp32") as swarm:
            swarm.start_scheduler()
            swarm.start_peer("tight", "--device-memory", f"{counted - 1}B")
            swarm.wait_run(lambda r: "too little memory" in r["reason"], 60, "it is not placed")
            swarm.peers["tight"].stop()
            swarm.start_peer("tight", "--device-memory", f"{counted + 65536}B")
            held = swarm.wait_run(lambda r: "out of memory" in r["reason"], 60, "it runs out")
            self.assertRegex(held["reason"], r"tight.*out of memory.*limit .*the largest item: "
                                             r"weights, gradients and moments, .*take more stages")
            self.assertIn("out of memory", swarm.peers["tight"].log.read_text())
            # The next plan finds the same peer, which has not stopped.
            swarm.wait_run(lambda r: r["generation"] > held["generation"], 90, "a further plan")
            status = swarm.peer_status("tight")
            self.assertTrue(status["scheduler"]["connected"])
            swarm.peers["tight"].stop()
            swarm.start_peer("tight")
            swarm.wait_finished()
            self.assertEqual(swarm.peer_status("tight")["device"], "cpu, fp32")
            swarm.stop()
            swarm.audit(4)

    def test_a_killed_scheduler_costs_no_step(self):
        """Peers keep their stages and find it again under the same port; the run goes on in place:
        its losses and weights are those of a run that nobody disturbed."""
        options = {"stages": 2, "pipelines": 1, "steps": 60, "micro_batches": 4,
                   "checkpoint_every": 1000}
        calm, _ = train(self.folder / "calm", export=self.folder / "calm.out", **options)
        port = harness.free_port()
        with Swarm(self.folder / "s", network={"listen": f"127.0.0.1:{port}"}, **options) as swarm:
            swarm.start()
            for step in (9, 21, 40):
                swarm.wait_step(step)
                before = swarm.status()
                swarm.scheduler.kill()
                # The peers stay, and say what they wait for.
                def all_wait():
                    statuses = swarm.peer_statuses().values()
                    return all(s["state"] != "training" and s["stateReasons"] for s in statuses)
                wait_for(all_wait, PAUSED_WITHIN + 5, "peers notice")
                held = [s["swarm"]["step"] for s in swarm.peer_statuses().values()]
                swarm.start_scheduler()
                again = swarm.wait_state("training", 40)
                self.assertGreaterEqual(again["step"], max(held))
                self.assertEqual(again["checkpointStep"], 0)
                self.assertEqual(again["id"], before["run"]["id"])
                # It ends where a member was beyond the order to reduce.
                self.assertLessEqual(again["generation"], before["run"]["generation"] + 1)
            swarm.wait_finished()
            self.assertEqual(swarm.run()["losses"], calm)
            swarm.export(self.folder / "out")
            self.assertEqual((self.folder / "out/model.safetensors").read_bytes(),
                             (self.folder / "calm.out/model.safetensors").read_bytes())
            swarm.stop()
            self.assertEqual(swarm.audit(60)["stepsThrownAway"], 0)
            kept = [r["stepsBefore"] for r in swarm.repairs()]
            self.assertEqual(kept + ["kept"] * len(swarm.continued()), ["kept"] * 3)
            starts = [e for e in swarm.events()["events"] if e["kind"] == "scheduler"]
            self.assertEqual(len(starts), 3)

    def test_a_slow_step_goes_on_while_the_scheduler_is_gone(self):
        """Also with a method whose members keep what nobody else has."""
        port = harness.free_port()
        options = {"stages": 2, "pipelines": 2, "steps": 12, "micro_batches": 8,
                   "checkpoint_every": 1000, "replica": "marsit"}
        calm, _ = train(self.folder / "calm", **options)
        with Swarm(self.folder / "s", network={"listen": f"127.0.0.1:{port}"}, **options) as swarm:
            swarm.start()
            swarm.wait_step(3)
            for peer in swarm.peers:
                run("shoal", "set", "upload=10mbit", "--dir", swarm.peer_folder(peer))
            swarm.wait_step(6)
            time.sleep(0.5)
            before = swarm.run()
            swarm.scheduler.kill()
            def all_go_on():
                return all(any("the step at hand goes on" in r for r in s["stateReasons"])
                           for s in swarm.peer_statuses().values())
            wait_for(all_go_on, 10, "the peers go on")
            swarm.start_scheduler()
            again = swarm.wait_state("training", 40)
            self.assertEqual(again["generation"], before["generation"])
            self.assertEqual(again["step"], before["step"])
            swarm.wait_step(before["step"] + 1)
            for peer in swarm.peers:
                run("shoal", "set", "upload=off", "--dir", swarm.peer_folder(peer))
            swarm.wait_finished()
            self.assertEqual(swarm.run()["losses"], calm)
            swarm.stop()
            self.assertEqual(swarm.continued(), [before["step"]])
            self.assertEqual(swarm.repairs(), [])
            self.assertEqual(swarm.audit(12)["stepsThrownAway"], 0)
            said = run("shoal", "swarm", "events", "--dir", swarm.run_folder).stdout
            self.assertIn("the peers had gone on with it", said)

    def test_a_scheduler_and_a_peer_die_and_the_others_go_on_with_what_they_hold(self):
        port = harness.free_port()
        options = {"stages": 1, "pipelines": 2, "steps": 30, "micro_batches": 2,
                   "checkpoint_every": 1000, "optimizer": {"learning_rate": 1e-5}}
        calm, _ = train(self.folder / "calm", **options)
        with Swarm(self.folder / "s", network={"listen": f"127.0.0.1:{port}"}, **options) as swarm:
            swarm.start()
            swarm.wait_step(8)
            victim = swarm.peer_at(stage=0, pipeline=1)
            swarm.scheduler.kill()
            swarm.peers[victim].kill()
            swarm.start_scheduler()
            swarm.start_peer(victim)  # without its memory
            again = swarm.wait_state("training", 60)
            self.assertGreaterEqual(again["step"], 8)
            self.assertEqual(again["checkpointStep"], 0)
            swarm.wait_finished()
            self.assert_close(swarm.run()["losses"], calm)
            swarm.stop()
            self.assertEqual(swarm.audit(30)["stepsThrownAway"], 0)
            self.assertEqual(swarm.repairs()[0]["stepsBefore"], "kept")

    def test_a_scheduler_that_comes_back_with_new_peers_goes_on_from_its_checkpoint(self):
        port = harness.free_port()
        with Swarm(self.folder / "s", stages=2, pipelines=1, steps=60, micro_batches=4,
                   checkpoint_every=10, network={"listen": f"127.0.0.1:{port}"}) as swarm:
            swarm.start()
            self.wait_checkpoint(swarm)
            before = swarm.status()
            swarm.scheduler.kill()
            for name in list(swarm.peers):
                swarm.peers[name].kill()
            swarm.start_scheduler()
            for name in list(swarm.peers):
                swarm.start_peer(name)
            again = swarm.wait_state("training", 40)
            self.assertGreaterEqual(again["checkpointStep"], 10)
            self.assertEqual(again["id"], before["run"]["id"])
            common = again["checkpointStep"]
            self.assertEqual(again["losses"][:common], before["run"]["losses"][:common])
            swarm.wait_finished()
            self.assert_same_steps(swarm, 60)
            swarm.stop()
            swarm.audit(60)


if __name__ == "__main__":
    harness.main()
