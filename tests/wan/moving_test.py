"""A volunteer's machine that gets into another network while it trains."""

import time

import homes
from harness import wait_for
from homes import HomesTest


class MovingTest(HomesTest):

    def move(self, relays):
        """A volunteer's machine trains, moves to another home, and trains on."""
        organiser, other = self.internet.machine("o"), self.internet.machine("p")
        old, new = self.internet.home("a"), self.internet.home("b", machines=0)
        moved = old.machines[0]
        swarm = self.swarm(organiser, *relays, stages=2, pipelines=1, steps=100_000,
                           micro_batches=4, rows=2, checkpoint_every=5)
        self.join(swarm, "p0", other)
        swarm.start_peer("p1", listen="0.0.0.0:0", advertise=None, prefix=moved.prefix)
        before = swarm.wait_step(3, 60)
        at, pid = time.monotonic(), swarm.peers["p1"].process.pid
        new.take_in(moved, old)
        wait_for(lambda: swarm.run()["generation"] > before["generation"], 120, "the peer is back")
        print(f"back after {time.monotonic() - at:.1f} s")
        swarm.wait_step(swarm.run()["step"] + 20, 120)
        print(f"20 steps on after {time.monotonic() - at:.1f} s")
        seen = {member["address"] for member in swarm.status()["members"]}
        self.assertNotIn(f"203.0.113.{old.number}", seen)
        self.assertEqual(pid, swarm.peers["p1"].process.pid)
        self.assertIn("network.changed", (self.folder / "s/p1.log").read_text())
        swarm.check_alive()

    def test_a_machine_moves_to_another_home_in_the_midst(self):
        self.move(relays=[])

    def test_a_machine_that_has_a_relay_moves(self):
        self.move(relays=[self.start_relay()])

    def test_the_new_homes_router_is_asked_for_a_port(self):
        organiser = self.internet.machine("o")
        old, new = self.internet.home("a"), self.internet.home("b", machines=0)
        for home in (old, new):
            home.lead_ports()
        moved = old.machines[0]
        swarm = self.swarm(organiser)
        swarm.start_peer("p0", listen="0.0.0.0:0", advertise=None, prefix=moved.prefix)
        swarm.address("p0")  # it answers

        def leads(home):
            address = swarm.peer_status("p0")["mapping"]["address"]
            return address.startswith(f"203.0.113.{home.number}:")

        wait_for(lambda: leads(old), 20, "the first router leads a port")
        new.take_in(moved, old)
        wait_for(lambda: leads(new), 30, "the next router leads a port")  # renewal takes 30 min
        self.assertIn("dnat to", new.router.run("nft", "list", "chain", "ip", "home", "mapped"))

    def test_neighbours_hear_of_an_address_that_comes_in_the_midst(self):
        organiser, first, second = (self.internet.machine(label) for label in "opq")
        swarm = self.swarm(organiser, stages=2, pipelines=1, steps=100_000, micro_batches=4, rows=2)
        self.join(swarm, "p0", first)
        swarm.start_peer("p1", listen="0.0.0.0:0", advertise=None, prefix=second.prefix)
        swarm.wait_step(3, 60)
        second.run("ip", "address", "add", "203.0.113.200/24", "dev", "line")
        log = self.folder / "s/p0.log"
        wait_for(lambda: "addresses.new" in log.read_text(), 60, "p0 hears of it")
        run = swarm.wait_step(swarm.run()["step"] + 5, 60)
        self.assertEqual(run["generation"], 1)
        swarm.check_alive()


if __name__ == "__main__":
    homes.main()
