"""Checkpoints in an object store: a run goes on when all that its scheduler had is gone."""

import json
import shutil
import sys
import unittest
from pathlib import Path

import harness
from harness import BAD_CONFIG, FAILURE, USAGE, Daemon, run, wait_for
from swarm import Swarm

sys.path.insert(0, str(harness.SOURCE / "tests/support"))
import s3_server  # noqa: E402  (its folder is not on the path of ctest)

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
SMALL = dict(stages=2, pipelines=1, micro_batches=4, rows=2, checkpoint_every=10)


class SignatureTest(unittest.TestCase):
    """The server's own check, against the examples in Amazon's description of the signature."""

    EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

    def sign(self, method, target, headers, payload=EMPTY):
        headers = {"host": "examplebucket.s3.amazonaws.com", "x-amz-content-sha256": payload,
                   "x-amz-date": "20130524T000000Z", **headers}
        request = s3_server.canonical_request(method, target, headers, sorted(headers), payload)
        return s3_server.signature("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "20130524T000000Z",
                                   "us-east-1", request)

    def test_signatures_are_those_of_the_description(self):
        self.assertEqual(self.sign("GET", "/test.txt", {"range": "bytes=0-9"}),
                         "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")
        self.assertEqual(self.sign("GET", "/?max-keys=2&prefix=J", {}),
                         "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")
        self.assertEqual(self.sign("GET", "/?lifecycle", {}),
                         "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")
        text = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"
        self.assertEqual(self.sign("PUT", "/test%24file.text",
                                   {"date": "Fri, 24 May 2013 00:00:00 GMT",
                                    "x-amz-storage-class": "REDUCED_REDUNDANCY"}, text),
                         "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd")


class MirrorTest(harness.SwarmTest):

    def swarm(self, store, **options):
        swarm = Swarm(self.folder / "s", **{**SMALL, **options})
        swarm.sections["checkpoint"] = store
        return swarm

    def s3(self):
        server = s3_server.Server(s3_server.Store())
        self.addCleanup(server.close)
        return server, {"store": "s3://bucket/runs/a", "endpoint": server.endpoint}

    def start_scheduler(self, swarm, *flags, env=None):
        """As Swarm's, with keys of the store."""
        (swarm.run_folder / "status.addr").unlink(missing_ok=True)
        swarm.scheduler = Daemon("shoal-scheduler", ["--config", swarm.write_config(), *flags],
                                 swarm.folder / "scheduler.log", env=KEYS if env is None else env)
        wait_for(lambda: swarm.status(check=False), 60, "the scheduler answers")

    def wait_store(self, swarm, check, what):
        def look():
            store = swarm.status()["checkpointStore"]
            return store if check(store) else None
        return wait_for(look, 60, what)

    def restore(self, swarm, store, *flags, check=True):
        """Into a new folder, from which the swarm's scheduler is started next."""
        swarm.run_folder = self.folder / "elsewhere"
        more = ["--endpoint", store["endpoint"]] if "endpoint" in store else []
        return run("shoal", "swarm", "restore", store["store"], "--dir", swarm.run_folder, *more,
                   *flags, env={**harness.os.environ, **KEYS}, check=check)

    def take_over(self, swarm, peers_live=False):
        """The restored run is served, and its peers come with the new invite: processes that are
        started again on the folders that they left, or those that still run."""
        swarm.scheduler = Daemon("shoal-scheduler", ["--config", swarm.run_folder / "run.toml"],
                                 swarm.folder / "scheduler2.log", env=KEYS)
        wait_for(lambda: swarm.status(check=False), 60, "the new scheduler answers")
        for name in ("p0", "p1"):
            if peers_live:
                run("shoal", "join", f"file:{swarm.run_folder}/invite", "--no-start", "--dir",
                    swarm.peer_folder(name))
            else:
                swarm.start_peer(name)

    def lose_the_machine(self, swarm, peers_live):
        """SIGKILL, and its disk is gone; so are model and data, and the peers' processes."""
        swarm.scheduler.kill()
        for daemon in swarm.peers.values() if not peers_live else ():
            daemon.kill()
        shutil.rmtree(swarm.run_folder)
        shutil.rmtree(self.folder / "model")
        (self.folder / "data.shoal").unlink()

    def own_model(self):
        return {"model": shutil.copytree(harness.model(), self.folder / "model"),
                "data": Path(shutil.copy(harness.data(), self.folder / "data.shoal"))}

    def train_and_lose(self, swarm, step, peers_live=False, ready=lambda: True):
        self.start_scheduler(swarm)
        for name in ("p0", "p1"):
            swarm.start_peer(name)
        self.wait_store(swarm, lambda s: (s["step"] or 0) >= step and ready(),
                        f"step {step} is stored")
        before = swarm.run()
        self.lose_the_machine(swarm, peers_live)
        return before

    def finish(self, swarm, before):
        run_id = swarm.run()["id"]
        self.assertEqual(run_id, before["id"])
        swarm.wait_finished()
        losses = swarm.run()["losses"]
        self.assertEqual(len(losses), 60)
        swarm.audit(60)
        kinds = [event["kind"] for event in swarm.events()["events"]]
        self.assertEqual(kinds.count("restored"), 1)
        return losses

    def test_a_run_outlives_its_machines_in_an_s3_store(self):
        server, store = self.s3()
        with self.swarm(store, steps=60, **self.own_model()) as swarm:
            before = self.train_and_lose(swarm, 20)
            sent = server.store.counts()["taken"]
            said = self.restore(swarm, store)
            self.assertIn(f"restored run {before['id']} after step", said.stdout)
            self.assertNotIn("secret", (swarm.run_folder / "run.toml").read_text())
            again = self.restore(swarm, store, check=False)
            self.assert_refused(again, FAILURE, "has a run already")
            self.take_over(swarm)
            losses = self.finish(swarm, before)
            # Up to the checkpoint it is the same run, and the rest is what any restart gives.
            restored = [e for e in swarm.events()["events"] if e["kind"] == "restored"][0]["step"]
            self.assertGreaterEqual(restored, 20)
            self.assertEqual(losses[:restored], before["losses"][:restored])
            shown = self.wait_store(swarm, lambda s: s["step"] == 60, "the last one is stored")
            self.assertEqual(shown["lastFailure"], "")
            self.assertIn("step 60 in s3://bucket/runs/a",
                          run("shoal", "swarm", "status", "--dir", swarm.run_folder).stdout)
            # Model and data were there: the new machine sent checkpoints and history alone.
            data = Path(harness.data()).stat().st_size
            self.assertGreater(sent, data)
            keys = server.store.objects.keys()
            self.assertEqual(len([k for k in keys if "/manifests/" in k]), 2)
            self.assertEqual(len(server.store.puts), len(set(server.store.puts)), "sent once each")
            swarm.stop()

    def test_live_peers_follow_and_damage_costs_one_checkpoint(self):
        store = {"store": f"file://{self.folder}/disk"}
        with self.swarm(store, steps=60, **self.own_model()) as swarm:
            disk = self.folder / "disk"

            def manifests():
                return sorted((disk / "manifests").glob("0*-0*[0-9]"))
            before = self.train_and_lose(swarm, 20, True, lambda: len(manifests()) >= 2)
            old, new = [json.loads(m.read_text().splitlines()[1]) for m in manifests()[-2:]]
            self.assertLess(old["step"], new["step"])
            blob = disk / "blobs" / new["checkpoint"][0]["blake2b"]
            content = bytearray(blob.read_bytes())
            content[len(content) // 2] ^= 1
            blob.write_bytes(content)
            said = self.restore(swarm, store)
            self.assertIn(f"the checkpoint of step {new['step']} cannot be taken", said.stderr)
            self.assertIn(f"after step {old['step']} into", said.stdout)
            self.take_over(swarm, peers_live=True)
            self.finish(swarm, before)
            swarm.stop()

    def test_a_store_that_fails_costs_the_run_nothing_and_is_shown(self):
        server, store = self.s3()
        server.store.fail("503", 40, "PUT")
        with self.swarm(store, steps=60) as swarm:
            self.start_scheduler(swarm)
            for name in ("p0", "p1"):
                swarm.start_peer(name)
            swarm.wait_finished()
            shown = self.wait_store(swarm, lambda s: s["failures"] > 0, "the failure is shown")
            self.assertIn("503", shown["lastFailure"])
            self.assertIn("last failure", run("shoal", "swarm", "status", "--dir",
                                              swarm.run_folder).stdout)
            # Stopped in the midst of it, the scheduler ends at once, and goes on when it is back.
            self.assertEqual(swarm.scheduler.stop(), 0)
            server.store.failures.clear()
            self.start_scheduler(swarm)
            self.wait_store(swarm, lambda s: s["step"] == 60, "the last one is stored")
            swarm.stop()

    def test_two_runs_do_not_share_a_place(self):
        server, store = self.s3()
        with self.swarm(store, steps=10) as swarm:
            self.start_scheduler(swarm)
            for name in ("p0", "p1"):
                swarm.start_peer(name)
            self.wait_store(swarm, lambda s: s["step"] == 10, "it is stored")
            first = dict(server.store.objects)
            for daemon in swarm.peers.values():
                daemon.stop()
            self.assertEqual(swarm.scheduler.stop(), 0)
            self.start_scheduler(swarm, "--forget-history")
            shown = self.wait_store(swarm, lambda s: s["failures"] > 0, "it is refused")
            self.assertIn("a prefix of its own", shown["lastFailure"])
            self.assertEqual(server.store.objects, first)
            swarm.scheduler.stop()

    def test_mistakes_are_named(self):
        _, store = self.s3()
        none = {name: "" for name in KEYS}
        with self.swarm(store, steps=10) as swarm:
            config = swarm.write_config()
            done = run("shoal-scheduler", "--config", config, check=False,
                       env={**harness.os.environ, **none})
            self.assert_refused(done, BAD_CONFIG, "AWS_ACCESS_KEY_ID")
            swarm.sections["checkpoint"] = {"store": "bucket/runs"}
            done = run("shoal-scheduler", "--config", swarm.write_config(), check=False)
            self.assert_refused(done, BAD_CONFIG, "s3://BUCKET/PREFIX")
            swarm.sections["checkpoint"] = {**store, "endpoint": "http://192.0.2.1:9000"}
            done = run("shoal-scheduler", "--config", swarm.write_config(), check=False)
            self.assert_refused(done, BAD_CONFIG, "plain_http = true")
            done = self.restore(swarm, store, check=False)
            self.assert_refused(done, FAILURE, "holds no checkpoint")
            done = self.restore(swarm, {"store": "nowhere"}, check=False)
            self.assert_refused(done, USAGE, "s3://BUCKET/PREFIX")
            self.assert_refused(run("shoal-scheduler", "--restore", store["store"], check=False),
                                USAGE, "--dir")


if __name__ == "__main__":
    harness.main()
