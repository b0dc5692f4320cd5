"""Three schedulers on etcd: one leads, and the next goes on when it dies or loses its lease."""

import json
import shutil
import signal
import time
import unittest
from urllib.request import urlopen

import harness
from etcd import Etcd, make_certificates
from harness import BAD_CONFIG, PERMISSION, USAGE, Daemon, run, tail, wait_for
from swarm import Swarm, train

TAKEN_WITHIN = 5.0
OPTIONS = dict(stages=2, pipelines=1, micro_batches=4, rows=2)


class Schedulers(Swarm):
    """A swarm with three schedulers; `run_folder` is that of the leader whom leader() found."""

    def __init__(self, folder, etcd, count=3, **options):
        self.ports = [harness.free_port() for _ in range(count)]
        addresses = [f"127.0.0.1:{port}" for port in self.ports]
        super().__init__(folder, network={"advertise": addresses, "listen": addresses[0]},
                         **options)
        self.sections["scheduler"] = {"etcd": etcd.addresses, "prefix": "tests/one"}
        self.folders = [self.folder / f"run{i}" for i in range(count)]
        self.schedulers = [None] * count

    def start_one(self, index):
        """With the key and secret of the first one."""
        folder = self.folders[index]
        folder.mkdir(mode=0o700, exist_ok=True)
        if index > 0 and not (folder / "identity.key").exists():
            for name in ("identity.key", "join_secret"):
                shutil.copy(self.folders[0] / name, folder / name)
        (folder / "status.addr").unlink(missing_ok=True)
        self.schedulers[index] = Daemon(
            "shoal-scheduler", ["--config", self.write_config(), "--dir", folder,
                                "--listen", f"127.0.0.1:{self.ports[index]}"],
            self.folder / f"scheduler{index}.log")
        self._wait_for_file(self.schedulers[index], folder / "status.addr")

    def start_scheduler(self, *flags):
        for index in range(len(self.folders)):
            self.start_one(index)
        self.leader()

    def look(self, index):
        """What a scheduler's status page says; None where it does not answer."""
        try:
            address = (self.folders[index] / "status.addr").read_text().strip()
            with urlopen(f"http://{address}/api/v1/status", timeout=2) as answer:
                return json.load(answer)
        except (OSError, ValueError):
            return None

    def run(self):
        """Follows the lead, which may go to another at any time."""
        try:
            return super().run()
        except (AssertionError, KeyError):
            self.leader()
            return super().run()

    def check_alive(self, but=()):
        super().check_alive((*but, "scheduler"))  # which one leads may have changed

    def leader(self, but=(), timeout=30):
        """Index of the one that leads."""
        def find():
            for index in range(len(self.folders)):
                if index in but or self.schedulers[index].poll() is not None:
                    continue
                said = self.look(index)
                if said and "run" in said:
                    return index + 1
            return None
        index = wait_for(find, timeout, "one of the schedulers leads") - 1
        self.run_folder = self.folders[index]
        self.scheduler = self.schedulers[index]
        return index

    def wait_files(self, index, timeout=30):
        """Until a standby has all files of the newest checkpoint that it knows of."""
        wait_for(lambda: "0 missing" in self.standby_text(index), timeout,
                 f"scheduler {index} has the checkpoint")

    def standby_text(self, index):
        said = self.look(index) or {}
        if "standby" not in said:
            return ""
        return f"{said['standby']['missingFiles']} missing"

    def __exit__(self, kind, *rest):
        super().__exit__(kind, *rest)
        for daemon in self.schedulers:
            if daemon is not None:
                daemon.signal(signal.SIGCONT)
                daemon.kill()

    def stop(self):
        for index, daemon in enumerate(self.schedulers):
            if daemon is not self.scheduler and daemon.poll() is None:
                code = daemon.stop()
                if code != 0:
                    raise AssertionError(f"scheduler {index} ended with {code}:\n"
                                         f"{tail(daemon.log)}")
        super().stop()


class SchedulersTest(harness.SwarmTest):

    def etcd(self, members=1, certificates=None):
        cluster = Etcd(self.folder, members, certificates)
        self.addCleanup(cluster.close)
        return cluster

    def seconds_to_next_step(self, swarm, old, step):
        """From now until another scheduler knows of a step after `step`."""
        began = time.monotonic()
        swarm.leader(but=(old,))
        swarm.wait_run(lambda r: r["step"] > step, 30, f"a step after {step}")
        return time.monotonic() - began

    def test_the_next_goes_on_within_five_seconds_and_no_step_is_lost(self):
        options = {**OPTIONS, "steps": 120, "checkpoint_every": 1000}
        calm, _ = train(self.folder / "calm", export=self.folder / "calm.out", **options)
        with Schedulers(self.folder / "s", self.etcd(3), **options) as swarm:
            swarm.start()
            took = []
            for step in (20, 60):
                swarm.wait_step(step)
                old = swarm.leader()
                swarm.scheduler.kill()
                took.append(self.seconds_to_next_step(swarm, old, swarm_step(swarm)))
                swarm.start_one(old)
                self.assertIn("standby", wait_for(lambda: swarm.look(old), 20, "it is back"))
            print(f"next step after {took} s")
            self.assertLess(max(took), TAKEN_WITHIN)
            swarm.wait_finished()
            self.assertEqual(swarm.run()["losses"], calm)
            swarm.export(self.folder / "out")
            self.assertEqual((self.folder / "out/model.safetensors").read_bytes(),
                             (self.folder / "calm.out/model.safetensors").read_bytes())
            # From the folder of a scheduler that stands by, too.
            swarm.run_folder = swarm.folders[(swarm.leader() + 1) % 3]
            self.assertEqual(swarm.audit(120)["stepsThrownAway"], 0)
            said = run("shoal", "swarm", "status", "--dir", swarm.run_folder).stdout
            self.assertIn("stands by", said)
            refused = run("shoal", "swarm", "pause", "--dir", swarm.run_folder, check=False)
            self.assertIn("the leader is", refused.stderr)
            swarm.leader()
            swarm.stop()
            kept = [r["stepsBefore"] for r in swarm.repairs()]
            self.assertEqual(kept + ["kept"] * len(swarm.continued()), ["kept"] * 2)


    def test_a_leader_that_was_frozen_writes_nothing_and_stands_by(self):
        options = {**OPTIONS, "steps": 150, "checkpoint_every": 1000}
        with Schedulers(self.folder / "s", self.etcd(), **options) as swarm:
            swarm.start()
            swarm.wait_step(20)
            old = swarm.leader()
            frozen = swarm.scheduler
            frozen.signal(signal.SIGSTOP)
            # Nobody hears of it: pings tell the peers, after 3 s at most.
            took = self.seconds_to_next_step(swarm, old, swarm_step(swarm))
            print(f"next step after {took} s")
            self.assertLess(took, TAKEN_WITHIN + 2)
            frozen.signal(signal.SIGCONT)
            wait_for(lambda: "standby" in (swarm.look(old) or {}), 20, "it stands by")
            self.assertIsNone(frozen.poll())
            self.assertIn("lost", frozen.log.read_text())
            swarm.wait_finished()
            # The leader of before leads again, and has all of the history.
            for index in range(3):
                if index != old:
                    self.assertEqual(swarm.schedulers[index].stop(), 0)
            self.assertEqual(swarm.leader(but=[i for i in range(3) if i != old]), old)
            self.assertEqual(swarm.run()["state"], "finished")
            swarm.audit(150)
            swarm.stop()

    def test_the_next_leader_knows_invites_members_and_who_was_kicked(self):
        with Schedulers(self.folder / "s", self.etcd(), count=2, stages=1, steps=100_000,
                        micro_batches=2) as swarm:
            swarm.start_scheduler()

            def order(name, *arguments):
                return run("shoal", "swarm", name, "--dir", swarm.run_folder,
                           *arguments).stdout.strip()
            line = order("invite")
            swarm.start_peer("p0", invite=line)
            swarm.start_peer("p1")
            swarm.wait_step(2)
            wait_for(lambda: "p1" in order("members"), 30, "both are members")
            order("kick", "p1", "--reason", "noise")
            self.assertEqual(swarm.peers.pop("p1").wait(30), PERMISSION)
            old = swarm.leader()
            step = swarm_step(swarm)
            swarm.scheduler.kill()
            self.seconds_to_next_step(swarm, old, step)  # p0 came back
            for name, invite in (("p1", None), ("p2", line)):
                self.assertEqual(swarm.start_peer(name, invite=invite).wait(30), PERMISSION, name)
                del swarm.peers[name]
            self.assertIn("0 of 1", order("invites"))
            self.assertIn("kicked: noise", order("members"))
            swarm.stop()

    def test_a_standby_has_the_checkpoint_and_a_member_of_etcd_may_die(self):
        etcd = self.etcd(3)
        options = {**OPTIONS, "steps": 60, "checkpoint_every": 10}
        with Schedulers(self.folder / "s", etcd, **options) as swarm:
            swarm.start()
            etcd.kill(0)
            swarm.wait_run(lambda r: r["checkpointStep"] >= 10, 60, "a checkpoint")
            before = swarm.run()
            old = swarm.leader()
            next_one = (old + 1) % 3
            swarm.wait_files(next_one)
            # The machine of the leader is gone, and all that the peers held is, too.
            swarm.scheduler.kill()
            for daemon in swarm.peers.values():
                daemon.kill()
            shutil.rmtree(swarm.folders[old])
            swarm.leader(but=(old,))
            for name in list(swarm.peers):
                swarm.start_peer(name)
            again = swarm.wait_state("training", 60)
            self.assertGreaterEqual(again["checkpointStep"], 10)
            self.assertEqual(again["id"], before["id"])
            swarm.wait_finished()
            self.assertEqual(swarm.run()["losses"][:10], before["losses"][:10])
            swarm.audit(60)
            swarm.stop()

    def test_the_run_waits_for_an_etcd_that_is_away(self):
        etcd = self.etcd()
        with Schedulers(self.folder / "s", etcd, **{**OPTIONS, "steps": 60}) as swarm:
            swarm.start()
            swarm.wait_step(10)
            etcd.kill(0)
            for index in range(3):
                wait_for(lambda i=index: "not known" in json.dumps(swarm.look(i)), 20,
                         f"scheduler {index} says that it knows of no leader")
            etcd.start(0)
            etcd.wait()
            swarm.wait_finished()
            swarm.audit(60)
            swarm.stop()

    def test_the_next_leader_knows_who_is_in_quarantine(self):
        etcd = self.etcd()
        with Schedulers(self.folder / "s", etcd, count=1, stages=1, steps=100_000,
                        micro_batches=2) as swarm:
            swarm.start_scheduler()
            swarm.start_peer("p0")
            swarm.wait_step(2)
            key = swarm.peer_status("p0")["peerId"]
            swarm.scheduler.kill()
            etcd.append("tests/one", {
                "type": "fault", "peer": key, "kind": "weights", "cause": "its sums are off",
                "quarantine_ms": 1_200_000, "at": int(time.time() * 1000)})
            swarm.start_one(0)
            swarm.leader()

            def quarantine():
                return (swarm.peer_status("p0", check=False) or {}).get("quarantine")
            told = wait_for(quarantine, 30, "the peer knows that it is in quarantine")
            self.assertEqual((told["kind"], told["faults"]), ("weights", 1))
            folder = swarm.peer_folder("p0")
            self.assertRegex(run("shoal", "status", "--dir", folder).stdout,
                             "in quarantine until .*: its weights differ from those of its group")
            doctor = run("shoal", "doctor", "--dir", folder, check=False)
            self.assertRegex(doctor.stdout, "bad +quarantine")
            members = run("shoal", "swarm", "members", "--dir", swarm.run_folder).stdout
            self.assertRegex(members, "quarantine until .* UTC: its sums are off")
            said = run("shoal", "swarm", "release", "p0", "--dir", swarm.run_folder).stdout
            self.assertIn("may have a stage again", said)
            wait_for(lambda: quarantine() is None, 30, "the peer knows that it is over")
            swarm.wait_state("training", 60)
            # The one after that knows that, too.
            swarm.scheduler.kill()
            swarm.start_one(0)
            swarm.leader()
            swarm.wait_state("training", 60)
            self.assertIsNone(quarantine())
            swarm.stop()

    def test_etcd_behind_tls_and_a_password(self):
        certificates = make_certificates(self.folder / "certificates")
        etcd = self.etcd(certificates=certificates)
        etcd.protect("shoal", "a secret", "tests/one")
        password = self.folder / "password"
        password.write_text("a secret\n")
        password.chmod(0o600)
        with Schedulers(self.folder / "s", etcd, count=2, **{**OPTIONS, "steps": 60}) as swarm:
            swarm.sections["scheduler"].update(
                etcd_ca=str(certificates / "ca.crt"), etcd_cert=str(certificates / "client.crt"),
                etcd_key=str(certificates / "client.key"), etcd_user="shoal",
                etcd_password_file=str(password))
            swarm.start()
            swarm.wait_step(10)
            # Its tokens are gone with it: all log in again.
            etcd.kill(0)
            etcd.start(0)
            etcd.wait()
            swarm.wait_step(swarm_step(swarm) + 5)
            old = swarm.leader()
            swarm.scheduler.kill()
            self.seconds_to_next_step(swarm, old, swarm_step(swarm))
            swarm.wait_finished()
            swarm.audit(60)
            swarm.start_one(old)
            self.check_standby(swarm, old)
            self.check_refused_logins(swarm, password)
            swarm.leader()
            swarm.stop()

    def check_standby(self, swarm, index):
        """What operators alert on."""
        wait_for(lambda: (swarm.look(index) or {}).get("standby", {}).get("leaderSeenSeconds")
                 is not None, 20, "it has seen the leader")
        said = swarm.look(index)
        self.assertEqual((said["role"], said["program"]), ("standby", "shoal-scheduler"))
        self.assertIn(f"port {swarm.ports[1 - index]}", said["standby"]["leader"])
        address = (swarm.folders[index] / "status.addr").read_text().strip()
        with urlopen(f"http://{address}/metrics", timeout=5) as answer:
            metrics = answer.read().decode()
        self.assertIn('shoal_scheduler_role{role="standby"} 1', metrics)
        self.assertIn("shoal_standby_leader_seen_seconds ", metrics)
        self.assertIn("shoal_standby_missing_files ", metrics)
        with urlopen(f"http://{address}/", timeout=5) as answer:
            self.assertIn("standby: the leader is ", answer.read().decode())
        said = run("shoal", "swarm", "status", "--dir", swarm.folders[index]).stdout
        self.assertRegex(said, "stands by; the leader is .*, seen .* ago")

    def check_refused_logins(self, swarm, password):
        good = dict(swarm.sections["scheduler"])
        other = self.folder / "other"
        password.chmod(0o644)
        done = run("shoal-scheduler", "--config", swarm.write_config(), "--dir", other, check=False)
        self.assert_refused(done, PERMISSION, "chmod 600")
        password.chmod(0o600)
        wrong = self.folder / "wrong"
        wrong.write_text("another")
        wrong.chmod(0o600)
        for keys, code, said in (
                ({"etcd_password_file": str(wrong)}, PERMISSION, "invalid user ID or password"),
                ({"etcd_ca": ""}, BAD_CONFIG, "etcd_ca is missing"),
                ({"etcd_cert": ""}, BAD_CONFIG, "belong together"),
                ({"etcd_user": ""}, BAD_CONFIG, "belong together"),
                ({"etcd": ["http://10.0.0.1:2379"]}, BAD_CONFIG, "need https://")):
            swarm.sections["scheduler"].update(keys)
            done = run("shoal-scheduler", "--config", swarm.write_config(), "--dir", other,
                       check=False)
            self.assert_refused(done, code, said)
            swarm.sections["scheduler"] = dict(good)
        swarm.write_config()

    def test_mistakes_are_named(self):
        etcd = self.etcd()
        with Schedulers(self.folder / "s", etcd, count=2, **OPTIONS) as swarm:
            swarm.start_one(0)
            config = swarm.write_config()
            other = self.folder / "other"
            done = run("shoal-scheduler", "--config", config, "--dir", other, check=False)
            self.assert_refused(done, BAD_CONFIG, "identity.key and join_secret")
            done = run("shoal-scheduler", "--config", config, "--forget-history", check=False)
            self.assert_refused(done, USAGE, "prefix")
            (other / "events").mkdir()
            done = run("shoal-scheduler", "--config", config, "--dir", other, check=False)
            self.assert_refused(done, BAD_CONFIG, "one scheduler")
            done = run("shoal-scheduler", "--config", config, "--dir", swarm.folders[0],
                       check=False)
            self.assertIn("scheduler.sock", done.stderr)
            for keys, said in (({"etcd": ["10.0.0.1:2379"]}, "http://HOST:PORT"),
                               ({"prefix": "a b"}, "prefix must be")):
                good = dict(swarm.sections["scheduler"])
                swarm.sections["scheduler"].update(keys)
                done = run("shoal-scheduler", "--config", swarm.write_config(), check=False)
                self.assert_refused(done, BAD_CONFIG, said)
                swarm.sections["scheduler"] = good
            etcd.kill(0)
            done = run("shoal", "swarm", "audit", "--dir", swarm.folders[0], check=False)
            self.assertIn("the history of this run is in etcd", done.stderr)


def swarm_step(swarm):
    """The newest step that a peer knows of."""
    return max(s["swarm"]["step"] for s in swarm.peer_statuses().values())


if __name__ == "__main__":
    harness.main()
