"""Bytes and rates against what the kernel counts, in network namespaces of our own."""

import contextlib
import time

import harness
import namespaces
from swarm import Swarm


class WanTest(harness.SwarmTest):

    def setUp(self):
        super().setUp()
        self.stack = self.enterContext(contextlib.ExitStack())

    def namespace(self, label):
        return self.stack.enter_context(namespaces.Namespace(label))

    def two_machines(self):
        a, b = self.namespace("a"), self.namespace("b")
        namespaces.connect(a, b)
        return a, b

    def swarm_over(self, a, b, *flags, **options):
        """Scheduler and p0 in `a`, p1 in `b`."""
        swarm = self.stack.enter_context(Swarm(
            self.folder / "s", stages=2, pipelines=1, prefix=a.prefix,
            network={"listen": "10.77.0.1:0", "advertise": ["10.77.0.1"]}, **options))
        self.explained.append(swarm)
        swarm.start_scheduler()
        swarm.start_peer("p0", *flags, listen="10.77.0.1:0", advertise="10.77.0.1")
        swarm.start_peer("p1", *flags, listen="10.77.0.2:0", advertise="10.77.0.2",
                         prefix=b.prefix)
        return swarm

    def rates(self, machines, seconds):
        """Bit/s that each machine put on its line."""
        start, before = time.monotonic(), [m.sent("line") for m in machines]
        time.sleep(seconds)
        elapsed = time.monotonic() - start
        return [8 * (m.sent("line") - b) / elapsed for m, b in zip(machines, before)]

    def assert_counted(self, who, said, kernel):
        print(f"{who}: kernel {kernel}, status {said}, {said / kernel - 1:+.2%}")
        self.assertLessEqual(abs(said - kernel), 0.02 * kernel)

    def test_status_counts_what_the_kernel_counts(self):
        alone = self.namespace("lo")
        swarm = self.stack.enter_context(Swarm(
            self.folder / "s", stages=2, pipelines=2, steps=12, micro_batches=4, rows=8,
            data=harness.data(row=128, size=100_000), prefix=alone.prefix))
        self.explained.append(swarm)
        swarm.start()
        swarm.wait_finished()
        said = swarm.status()["traffic"]["sentWireBytes"]
        said += sum(s["traffic"]["sentWireBytes"] for s in swarm.peer_statuses().values())
        self.assert_counted("all", said, alone.sent("lo"))
        self.assertGreater(said, 50_000_000)
        swarm.stop()

    def test_caps_hold_on_the_line(self):
        cap = 8_000_000
        machines = self.two_machines()
        swarm = self.swarm_over(*machines, "--upload", "8mbit", "--download", "8mbit",
                                steps=100_000, micro_batches=4, rows=4,
                                data=harness.data(row=128, size=100_000))
        swarm.wait_step(2)
        for name, rate in zip(("p0", "p1"), self.rates(machines, 8)):
            print(f"{name}: {rate / 1e6:.2f} Mbit/s on the line, cap 8")
            # Headers of packets and acknowledgements of the other direction come on top.
            self.assertLessEqual(rate, 1.1 * cap)
            self.assertGreater(rate, 0.3 * cap)  # the line is the bottleneck here, so it is used
            status = swarm.peer_status(name)
            self.assertEqual(status["limits"],
                             {"upBps": cap, "downBps": cap, "peerTimeoutMs": 6000})
            self.assertLessEqual(sum(link["upBps"] for link in status["links"]), 1.05 * cap)
        for name in ("p0", "p1"):  # a new cap holds at once
            harness.run("shoal", "set", "upload=2mbit", "--dir", swarm.peer_folder(name))
        time.sleep(2)
        for name, rate in zip(("p0", "p1"), self.rates(machines, 6)):
            print(f"{name}: {rate / 1e6:.2f} Mbit/s on the line, cap 2")
            self.assertLessEqual(rate, 1.15 * 2_000_000)
        swarm.check_alive()

    def test_training_over_a_long_line_with_a_deep_queue(self):
        a, b = self.namespace("a"), self.namespace("b")
        line = self.stack.enter_context(namespaces.DelayedLine(
            a, b, rate=20_000_000, rtt_ms=40, queue_ms=200,
            bench=harness.program("shoal-bench")))
        swarm = self.swarm_over(a, b, steps=12, micro_batches=4, rows=4,
                                data=harness.data(row=128, size=60_000),
                                forward="direct:bits=8", backward="direct:bits=8")
        swarm.wait_finished(120)
        self.assertEqual(len(swarm.run()["losses"]), 12)
        status = swarm.peer_status("p1")
        self.assertEqual(status["pacing"]["mode"], "auto")
        # All of it crossed the line, in order, or the checksums of the frames had ended the run.
        self.assertGreater(line.to("a")["bytes"], status["traffic"]["sentWireBytes"])
        swarm.stop()

    def test_training_over_a_slow_line(self):
        machines = self.two_machines()
        for machine in machines:
            namespaces.slow_down(machine, "20mbit")
        # What p0 uploads to the scheduler beside it tells nothing of its line.
        swarm = self.swarm_over(*machines, steps=30, micro_batches=4, rows=4, checkpoint_every=5,
                                data=harness.data(row=128, size=60_000),
                                forward="aqsgd:bits=4", backward="direct:bits=8")
        swarm.wait_finished(120)
        self.assertEqual(len(swarm.run()["losses"]), 30)
        consistency = swarm.status()["consistency"]
        self.assertGreater(consistency["mChecks"], 0)
        self.assertEqual(consistency["mMismatches"], 0)
        for name in ("p0", "p1"):
            status = swarm.peer_status(name)
            self.assertGreater(status["traffic"]["linkSentWireBytes"], 1_000_000)
            # Short bursts pass the bucket of 32 kB at any pace; the line takes no more for that.
            self.assertLess(status["pacing"]["lineBps"], 1.15 * 20_000_000, name)
            print(f"{name}: {status['pacing']}")
        # All that p1 sends goes over the line. The slow line cuts it into packets of 1,500 bytes,
        # whose headers (4 %) status does not know of: it counts what leaves for the device.
        self.assert_counted("p1", swarm.peer_status("p1")["traffic"]["sentWireBytes"],
                            machines[1].sent("line", headers=namespaces.HEADERS))
        swarm.stop()


if __name__ == "__main__":
    if not harness.is_root() or not namespaces.possible():
        harness.skip_file("needs root")
    harness.main()
