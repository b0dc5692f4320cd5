"""Swarms of people behind routers: nobody can be dialled, and a relay stands outside."""

import json
import time

import harness
import homes
from harness import run, wait_for
from homes import RELAY_PORT, HomesTest

# From the invite that is pasted to the first micro-batch that counts.
PASTE_TO_COUNT_S = 180
# Of a link that nobody can dial; a wall lets those in whom the machine behind it dials.
NOT_DIRECT = [{"relay"}, {"punched"}]
# Lets nobody in who was not called.
WALL = """table ip wall {
  chain own { type filter hook input priority filter; policy accept;
    iifname "line" ct state new drop; }
}"""


class HomeTest(HomesTest):

    def test_three_homes_train_and_export(self):
        organiser = self.internet.home("o").machines[0]
        first = self.internet.home("a", symmetric=True).machines[0]
        second = self.internet.home("b").machines[0]
        swarm = self.swarm(organiser, self.start_relay(), stages=2, pipelines=1, steps=20,
                           micro_batches=4, rows=4, data=harness.data(row=128, size=60_000))
        pasted = time.monotonic()
        self.join(swarm, "p0", first)
        self.join(swarm, "p1", second)
        swarm.wait_step(1, PASTE_TO_COUNT_S)
        took = time.monotonic() - pasted
        print(f"from paste to the first step: {took:.1f} s")
        self.assertLess(took, PASTE_TO_COUNT_S)
        self.assertEqual(self.paths(swarm, "p0"), {"relay"})
        self.assertEqual(self.paths(swarm, "p1"), {"relay"})
        text = run("shoal", "status", "--dir", swarm.peer_folder("p0")).stdout
        self.assertRegex(text, r"boundary/0/0 +p1 +relay ")
        for name in ("p0", "p1"):
            relays = swarm.peer_status(name)["relays"]
            self.assertEqual([(r["relay"], r["registered"]) for r in relays],
                             [(f"{self.outside.address}:{RELAY_PORT}", True)])
        check = json.loads(run("shoal", "netcheck", "--dir", swarm.peer_folder("p0"),
                               "--json").stdout)
        self.assertEqual((check["verdict"], check["translated"]), ("relay", True), check)
        self.assertGreater(check["paths"]["relay"], 0)
        said = run("shoal", "netcheck", "--dir", swarm.peer_folder("p0")).stdout
        self.assertIn("others reach this peer by a relay", said)
        print(said)
        secret = (self.folder / "relay/relay_secret").read_text().strip()
        for name in ("p0", "p1"):
            self.assertNotIn(secret, json.dumps(swarm.peer_status(name)))
            self.assertNotIn(secret, (self.folder / f"s/{name}.log").read_text())
        self.assertNotIn(secret, json.dumps(swarm.status()))
        swarm.wait_finished(120)
        swarm.export(self.folder / "tuned")
        self.assertTrue((self.folder / "tuned/model.safetensors").exists())
        swarm.stop()

    def test_a_relay_that_dies_is_replaced(self):
        organiser = self.internet.machine("o")
        first = self.internet.home("a").machines[0]
        second = self.internet.home("b", symmetric=True).machines[0]
        swarm = self.swarm(organiser, self.start_relay(), stages=2, pipelines=1, steps=100_000,
                           micro_batches=4, rows=2, checkpoint_every=5)
        self.join(swarm, "p0", first)
        self.join(swarm, "p1", second)
        step = swarm.wait_step(3, 60)["step"]
        self.assertEqual(self.paths(swarm, "p0"), {"relay"})
        self.relay.kill()
        time.sleep(2)
        self.start_relay()
        swarm.wait_step(step + 20, 60)
        swarm.check_alive()

    def test_a_router_reboots_in_the_midst(self):
        organiser = self.internet.machine("o")
        home = self.internet.home("a")
        second = self.internet.home("b").machines[0]
        swarm = self.swarm(organiser, self.start_relay(), stages=2, pipelines=1, steps=100_000,
                           micro_batches=4, rows=2, checkpoint_every=5)
        self.join(swarm, "p0", home.machines[0])
        self.join(swarm, "p1", second)
        step = swarm.wait_step(3, 60)["step"]
        home.reboot()
        swarm.wait_step(step + 20, 90)
        swarm.check_alive()

    def test_two_behind_one_router_are_on_one_lan(self):
        organiser = self.internet.machine("o")
        home = self.internet.home("a", machines=2)
        swarm = self.swarm(organiser, self.start_relay(), stages=2, pipelines=1, steps=100_000,
                           micro_batches=4, rows=2)
        self.join(swarm, "p0", home.machines[0])
        self.join(swarm, "p1", home.machines[1])
        swarm.wait_step(3, 60)
        self.assertEqual(self.paths(swarm, "p0"), {"lan"})
        self.assertEqual(self.paths(swarm, "p1"), {"lan"})

    def test_who_can_be_dialled_is_dialled_from_either_side(self):
        organiser = self.internet.machine("o")
        public = self.internet.machine("p")
        home = self.internet.home("a").machines[0]
        swarm = self.swarm(organiser, self.start_relay(), stages=2, pipelines=1, steps=100_000,
                           micro_batches=4, rows=2)
        # Who comes first has the lower stage, and dials: it can only be dialled here.
        self.join(swarm, "p0", public)
        wait_for(lambda: len(swarm.status()["members"]) == 1, 30, "the first is a member")
        self.join(swarm, "p1", home)
        swarm.wait_step(3, 60)
        self.assertEqual(self.paths(swarm, "p0"), {"direct"})
        self.assertEqual(self.paths(swarm, "p1"), {"direct"})

    def test_a_link_moves_to_a_better_way_in_the_midst(self):
        organiser = self.internet.machine("o")
        public = self.internet.machine("p")
        home = self.internet.home("a").machines[0]
        public.run("nft", WALL)
        swarm = self.swarm(organiser, self.start_relay(), stages=2, pipelines=1, steps=100_000,
                           micro_batches=4, rows=2)
        self.join(swarm, "p0", public)
        self.join(swarm, "p1", home)
        swarm.wait_step(3, 60)
        self.assertIn(self.paths(swarm, "p0"), NOT_DIRECT)
        public.run("nft", "delete", "table", "ip", "wall")
        wait_for(lambda: self.paths(swarm, "p0") == self.paths(swarm, "p1") == {"direct"}, 90,
                 "the link goes directly")
        self.relay.kill()  # and nothing goes through it
        before = swarm.status()["run"]
        after = swarm.wait_step(before["step"] + 50, 60)
        self.assertEqual(after["generation"], before["generation"])
        self.assertEqual(after["generation"], 1)
        swarm.check_alive()

    def test_without_ipv4(self):
        self.outside = self.internet.machine("r", ipv6=True)
        organiser, first, second = (self.internet.machine(label, ipv6=True) for label in "opq")
        for machine in (first, second):
            machine.run("nft", WALL.replace("table ip", "table ip6").replace(
                "    iifname", "    meta l4proto ipv6-icmp accept\n    iifname"))
        swarm = self.swarm(organiser, self.start_relay(), listen="[::]:8781", stages=2,
                           pipelines=1, steps=100_000, micro_batches=4, rows=2)
        self.join(swarm, "p0", first, listen="[::]:0")
        self.join(swarm, "p1", second, listen="[::]:0")
        swarm.wait_step(3, 60)
        self.assertIn(self.paths(swarm, "p0"), NOT_DIRECT)
        first.run("nft", "delete", "table", "ip6", "wall")
        wait_for(lambda: self.paths(swarm, "p0") == self.paths(swarm, "p1") == {"direct"}, 90,
                 "the link goes directly")
        swarm.wait_step(swarm.status()["run"]["step"] + 20, 60)

    def test_a_port_that_a_router_leads_here_is_used(self):
        organiser = self.internet.machine("o")
        first = self.internet.home("a", symmetric=True).machines[0]
        home = self.internet.home("b")
        home.lead_ports()
        swarm = self.swarm(organiser, self.start_relay(), stages=2, pipelines=1, steps=100_000,
                           micro_batches=4, rows=2)
        swarm.start_peer("p1", listen="0.0.0.0:0", advertise=None,
                         prefix=home.machines[0].prefix)
        swarm.address("p1")  # it answers
        mapping = wait_for(lambda: (m := swarm.peer_status("p1")["mapping"])["address"] and m, 20,
                           "the router leads a port to p1")
        self.assertEqual(mapping["how"], "NAT-PMP")
        self.assertTrue(mapping["address"].startswith(f"203.0.113.{home.number}:"))
        time.sleep(3)  # two heartbeats
        self.join(swarm, "p0", first)
        swarm.wait_step(3, 60)
        self.assertEqual(self.paths(swarm, "p0"), {"direct"})
        self.assertEqual(self.paths(swarm, "p1"), {"direct"})
        rules = home.router.run("nft", "list", "chain", "ip", "home", "mapped")
        self.assertIn("dnat to", rules)
        swarm.peers["p1"].stop()  # takes it back
        rules = home.router.run("nft", "list", "chain", "ip", "home", "mapped")
        self.assertNotIn("dnat to", rules)


if __name__ == "__main__":
    homes.main()
