"""Peers behind routers that a relay helps to connect to each other, and those that it cannot."""

import json

import homes
from harness import run, wait_for
from homes import HomesTest

RUN = dict(stages=2, pipelines=1, steps=100_000, micro_batches=4, rows=2)


class PunchTest(HomesTest):

    def start(self, first, second):
        swarm = self.swarm(self.internet.machine("o"), self.start_relay(), **RUN)
        self.join(swarm, "p0", first)
        self.join(swarm, "p1", second)
        swarm.wait_step(3, 60)
        return swarm

    def go_on_without_relay(self, swarm):
        self.relay.kill()
        before = swarm.status()["run"]
        after = swarm.wait_step(before["step"] + 20, 60)
        self.assertEqual(after["generation"], before["generation"])
        self.assertEqual(after["generation"], 1)
        swarm.check_alive()

    def test_two_homes_need_the_relay_for_a_moment_only(self):
        swarm = self.start(self.internet.home("a").machines[0],
                           self.internet.home("b").machines[0])
        wait_for(lambda: self.paths(swarm, "p0") == self.paths(swarm, "p1") == {"punched"}, 90,
                 "the link goes through both routers")
        for name in ("p0", "p1"):
            log = (self.folder / f"s/{name}.log").read_text()
            self.assertRegex(log, r"link\.moved.*relay.*punched")
        text = run("shoal", "status", "--dir", swarm.peer_folder("p0")).stdout
        self.assertRegex(text, r"boundary/0/0 +p1 +punched ")
        said = run("shoal", "netcheck", "--dir", swarm.peer_folder("p0")).stdout
        print(said)
        self.assertRegex(said, r"links +\d punched\n")
        check = json.loads(run("shoal", "netcheck", "--dir", swarm.peer_folder("p0"),
                               "--json").stdout)
        self.assertEqual(check["punch"], "likely")
        wait_for(lambda: self.relay_status()["calls"] == 0, 20, "nothing passes the relay")
        passed = self.relay_status()["bytesTotal"]
        swarm.wait_step(swarm.status()["run"]["step"] + 10, 60)
        self.assertEqual(self.relay_status()["bytesTotal"], passed)
        self.go_on_without_relay(swarm)

    def test_a_router_that_changes_ports_leaves_the_relay(self):
        swarm = self.start(self.internet.home("a", symmetric=True).machines[0],
                           self.internet.home("b", symmetric=True).machines[0])
        check = json.loads(run("shoal", "netcheck", "--dir", swarm.peer_folder("p0"),
                               "--json").stdout)
        self.assertEqual(check["punch"], "unlikely")
        # The other end tries where the first one's try has failed.
        links = len(swarm.peer_status("p0")["links"])
        wait_for(lambda: self.relay_status()["punchesTotal"] > links, 90, "both ends have tried")
        step = swarm.status()["run"]["step"]
        self.assertEqual(self.paths(swarm, "p0"), {"relay"})
        self.assertEqual(self.paths(swarm, "p1"), {"relay"})
        self.assertEqual(swarm.wait_step(step + 5, 60)["generation"], 1)

    def test_a_router_that_lets_everybody_in_needs_no_relay(self):
        swarm = self.start(self.internet.home("a", full_cone=True).machines[0],
                           self.internet.home("b", full_cone=True).machines[0])
        self.assertEqual(self.paths(swarm, "p0"), {"direct"})
        self.assertEqual(self.paths(swarm, "p1"), {"direct"})
        self.assertEqual(self.relay_status()["callsTotal"], 0)
        self.go_on_without_relay(swarm)


if __name__ == "__main__":
    homes.main()
