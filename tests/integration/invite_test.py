"""Invites, members and who is removed: real processes, restarts of the scheduler between."""

import base64
import re
import shutil
import subprocess
import time

import harness
from harness import FAILURE, PERMISSION, run, run_json, wait_for
from swarm import Swarm

ENDS = 30  # seconds in which a peer that is not let in gives up


class InviteTest(harness.SwarmTest):

    def swarm(self, **options):
        # The port stays the same over restarts of the scheduler.
        network = {"listen": f"127.0.0.1:{harness.free_port()}"}
        return Swarm(self.folder / "s", **{"stages": 1, "steps": 100_000, "micro_batches": 2,
                                           "checkpoint_every": 10, "network": network, **options})

    @staticmethod
    def order(swarm, name, *arguments, check=True):
        return run("shoal", "swarm", name, "--dir", swarm.run_folder, *arguments, check=check)

    def invite(self, swarm, *arguments):
        return self.order(swarm, "invite", *arguments).stdout.strip()

    @staticmethod
    def listed(swarm, name):
        return run_json("shoal", "swarm", name, "--dir", swarm.run_folder, "--json")[name]

    def members(self, swarm):
        return {m["name"]: m for m in self.listed(swarm, "members")}

    def assert_not_let_in(self, swarm, name, invite, reason):
        """The peer ends with 77 and a hint; only the scheduler's log says why."""
        peer = swarm.start_peer(name, invite=invite)
        self.assertEqual(peer.wait(ENDS), PERMISSION)
        said = peer.log.read_text()
        self.assertIn("ask the organiser for a new invite", said)
        self.assertIn("shoal join shoal1_", said)
        log = (swarm.folder / "scheduler.log").read_text()
        refused = [line for line in log.splitlines() if "door.refused" in line]
        self.assertTrue(any(re.search(rf'reason="?{reason}', line) for line in refused), refused)
        self.assertNotIn(name, self.members(swarm))
        del swarm.peers[name]

    def restart_scheduler(self, swarm):
        self.assertEqual(swarm.scheduler.stop(), 0)
        swarm.start_scheduler()

    def test_an_invite_of_one_use_lets_one_machine_in_also_after_restarts(self):
        with self.swarm() as swarm:
            swarm.start_scheduler()
            line = self.invite(swarm, "--name", "Ana")
            swarm.start_peer("p0", invite=line)
            swarm.wait_step(2)
            self.assert_not_let_in(swarm, "p1", line, "used up")
            self.restart_scheduler(swarm)
            step = swarm.run()["step"]
            swarm.wait_step(step + 2)  # p0 came back without another use
            self.assert_not_let_in(swarm, "p2", line, "used up")
            invites = {i["name"]: i for i in self.listed(swarm, "invites")}
            self.assertEqual(set(invites), {"Ana", "standing invite"})
            ana = invites["Ana"]
            self.assertEqual((ana["state"], ana["usesLeft"], ana["uses"]), ("used up", 0, 1))
            self.assertEqual([u["name"] for u in ana["usedBy"]], ["p0"])
            days = (ana["expiresUnixMs"] - ana["madeUnixMs"]) / 86_400_000
            self.assertAlmostEqual(days, 7)
            text = self.order(swarm, "invites").stdout
            self.assertIn("0 of 1", text)
            self.assertIn("p0", text)
            member = self.members(swarm)["p0"]
            self.assertEqual((member["invite"], member["state"]), (ana["id"], "training"))
            self.assertIn("Ana", self.order(swarm, "members").stdout)
            swarm.stop()

    def test_the_folder_of_a_scheduler_has_no_secret_of_an_invite(self):
        with self.swarm() as swarm:
            swarm.start_scheduler()
            line = self.invite(swarm)
            swarm.stop()
            body = line.removeprefix("shoal1_")
            secret = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))[32:48]
            for path in swarm.run_folder.rglob("*"):
                if path.is_file():
                    for form in (line.encode(), secret, secret.hex().encode()):
                        self.assertNotIn(form, path.read_bytes(), path)
            secret = (swarm.run_folder / "join_secret")
            self.assertEqual(secret.stat().st_mode & 0o777, 0o600)

    def test_an_invite_expires_and_is_revoked(self):
        with self.swarm() as swarm:
            swarm.start_scheduler()
            brief = self.invite(swarm, "--expires", "2s", "--uses", 5)
            time.sleep(2.5)
            self.assert_not_let_in(swarm, "p1", brief, "expired")
            line = self.invite(swarm, "--name", "Bo", "--uses", 3)
            swarm.start_peer("p0", invite=line)
            swarm.wait_step(2)
            number = next(i["id"] for i in self.listed(swarm, "invites") if i["name"] == "Bo")
            self.assertIn("stay", self.order(swarm, "revoke", number[:6]).stdout)
            self.assert_not_let_in(swarm, "p2", line, "revoked")
            self.restart_scheduler(swarm)
            swarm.wait_step(swarm.run()["step"] + 2)
            self.assert_not_let_in(swarm, "p3", line, "revoked")
            wrong = self.order(swarm, "revoke", "0000000000000000", check=False)
            self.assertEqual(wrong.returncode, FAILURE)
            self.assertIn("shoal swarm invites", wrong.stderr)
            self.order(swarm, "revoke", number, "--members")
            self.assertEqual(swarm.peers["p0"].wait(ENDS), PERMISSION)
            self.assertIn("was revoked", swarm.peers["p0"].log.read_text())
            del swarm.peers["p0"]
            swarm.stop()

    def test_the_standing_invite_can_be_revoked_and_turned_off(self):
        with self.swarm() as swarm:
            swarm.start_scheduler()
            standing = swarm.invite()
            self.assertEqual(self.invite(swarm, "--standing"), standing)
            swarm.start_peer("p0")
            swarm.wait_step(2)
            number = next(i["id"] for i in self.listed(swarm, "invites") if i["standing"])
            self.order(swarm, "revoke", number)
            self.assertFalse((swarm.run_folder / "invite").exists())
            self.assert_not_let_in(swarm, "p1", standing, "revoked")
            none = self.order(swarm, "invite", "--standing", check=False)
            self.assertEqual(none.returncode, FAILURE)
            self.assertIn("shoal swarm invite", none.stderr)
            swarm.stop()
        with Swarm(self.folder / "off", stages=1, steps=10) as swarm:
            swarm.sections["scheduler"] = {"standing_invite": False}
            swarm.start_scheduler()
            self.assertFalse((swarm.run_folder / "invite").exists())
            self.assertIn("shoal swarm invite --dir",
                          (swarm.folder / "scheduler.log").read_text())
            swarm.start_peer("p0", invite=self.invite(swarm))
            swarm.wait_finished()
            swarm.stop()

    def test_a_member_is_kicked_while_it_trains_and_a_spare_takes_its_stage(self):
        with self.swarm(stages=2) as swarm:
            swarm.start(3)
            swarm.wait_step(5)
            wait_for(lambda: len(self.members(swarm)) == 3, 30, "all are members")
            name = swarm.peer_at(1)
            key = self.members(swarm)[name]["peer"]
            told = self.order(swarm, "kick", name, "--reason", "it sends noise").stdout
            self.assertIn(f"shoal swarm kick --dir {swarm.run_folder} --undo {key[:8]}", told)
            kicked = swarm.peers.pop(name)
            self.assertEqual(kicked.wait(ENDS), PERMISSION)
            said = kicked.log.read_text()
            self.assertIn('the organiser of run "test" removed this machine: it sends noise', said)
            swarm.wait_step(swarm.run()["step"] + 10)  # without it
            member = self.members(swarm)[name]
            self.assertEqual((member["state"], member["reason"]), ("kicked", "it sends noise"))
            self.restart_scheduler(swarm)
            again = swarm.start_peer(name)
            self.assertEqual(again.wait(ENDS), PERMISSION)
            swarm.peers.pop(name)
            self.order(swarm, "kick", "--undo", key[:8])
            swarm.start_peer(name)
            wait_for(lambda: self.members(swarm)[name]["connected"], 30, "it is back")
            swarm.wait_step(swarm.run()["step"] + 2)
            swarm.stop()


class SecondInviteTest(harness.SwarmTest):

    def test_a_further_invite_of_the_same_run(self):
        with Swarm(self.folder / "s", stages=1, steps=100_000) as swarm:
            swarm.start()
            swarm.wait_step(1)
            made = run("shoal", "swarm", "invite", "--dir", swarm.run_folder).stdout
            invite = re.search(r"shoal1_\S+", made)[0]
            self.assertNotEqual(invite, swarm.invite())
            folder = swarm.peer_folder("p0")
            said = run("shoal", "join", invite, "--dir", folder, "--upload", "1mbit").stdout
            self.assertRegex(said, 'already a member of run "test".*1 Mbit/s')
            self.assertEqual(swarm.peer_status("p0")["limits"]["upBps"], 1_000_000)
            with Swarm(self.folder / "t", stages=1) as other:
                other.start_scheduler()
                done = run("shoal", "join", other.invite(), "--dir", folder, check=False)
            self.assert_refused(done, FAILURE, 'already a member of run "test"', "--dir",
                                "for good")

    def test_who_waits_for_a_scheduler_says_so_once(self):
        with Swarm(self.folder / "s", stages=1, steps=100_000,
                   network={"listen": f"127.0.0.1:{harness.free_port()}"}) as swarm:
            swarm.start()
            swarm.wait_step(1)
            swarm.start_peer("p1")
            wait_for(lambda: "the run is training; this peer is a spare" in
                     (swarm.peer_status("p1", check=False) or {}).get("stateReasons", []), 20,
                     "the second is a spare")
            swarm.scheduler.kill()
            wait_for(lambda: not swarm.peer_status("p1")["scheduler"]["connected"], 20, "it knows")
            done = run("shoal", "leave", "--dir", swarm.peer_folder("p1"))
            self.assertIn("its scheduler cannot be reached", done.stdout)
            self.assertEqual(swarm.peers["p1"].wait(20), 0)
            log = swarm.folder / "p0.log"
            wait_for(lambda: "Connection refused" in log.read_text(), 20, "it has tried again")
            tried = log.read_text().count("scheduler.lost")
            time.sleep(4)  # about eight tries
            self.assertEqual(log.read_text().count("scheduler.lost"), tried)
            swarm.start_scheduler()
            swarm.wait_step(swarm.status()["run"]["step"] + 2, but=("p1",))

    def test_who_may_not_look_is_not_told_that_nothing_runs(self):
        nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        if not harness.is_root() or not shutil.which("setpriv"):
            self.skipTest("needs root and setpriv")
        with Swarm(self.folder / "s", stages=1, steps=100_000) as swarm:
            swarm.start()
            if subprocess.run([*nobody, harness.program("shoal"), "version"], check=False,
                              capture_output=True).returncode != 0:
                self.skipTest("another user may not start the programs here")
            peer, organiser = swarm.peer_folder("p0"), swarm.run_folder
            for command in (("status", "--dir", peer), ("pause", "--dir", peer),
                            ("swarm", "status", "--dir", organiser),
                            ("swarm", "audit", "--dir", organiser)):
                done = run("shoal", *command, check=False, prefix=nobody)
                self.assert_refused(done, PERMISSION, "another user's", "sudo")
            swarm.check_alive()


if __name__ == "__main__":
    harness.main()
