"""`shoal-bench pipeline` on a small shape: bytes as the formats say, and nothing left behind."""

import json
import os
import signal
import subprocess
from pathlib import Path

import harness

SHAPE = ["--stages", "3", "--micro-batches", "4", "--shape", "1x32x128", "--forward-ms", "4",
         "--backward-ms", "8", "--epoch-steps", "2", "--warmup", "2", "--steps", "2",
         "--schedules", "zero-bubble"]
INSTANT = ["--stages", "2", "--micro-batches", "1", "--shape", "1x8x64", "--forward-ms", "15",
           "--backward-ms", "15", "--epoch-steps", "1", "--warmup", "1", "--steps", "1",
           "--schedules", "1f1b"]
VALUES = 32 * 128
HEADER = 16  # of a payload


def processes_in(namespace):
    ran = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True,
                         check=True)
    return ran.stdout.split()


def namespaces_of(bench_pid):
    folder = Path("/run/netns")
    return {p.name for p in folder.iterdir() if p.name.startswith(f"shoal-bench-{bench_pid}-")} \
        if folder.is_dir() else set()


def bench(*arguments, shape=SHAPE):
    return [harness.program("shoal-bench"), "pipeline", *shape, *arguments]


class BenchTest(harness.SwarmTest):

    def run_bench(self, *arguments, shape=SHAPE):
        folder = self.folder / "bench"
        running = subprocess.Popen(bench("--json", "--dir", folder, *arguments, shape=shape),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        printed, said = running.communicate(timeout=120)
        self.assertEqual(running.returncode, 0, said)
        self.assertFalse(namespaces_of(running.pid))
        self.assertFalse(folder.exists())
        return json.loads(printed), said

    def check_rows(self, report, shaped_by):
        self.assertEqual(report["schemaVersion"], 1)
        self.assertTrue(report["complete"])
        raw, small = report["rows"]
        self.assertEqual([r["shapedBy"] for r in (raw, small)], [shaped_by] * 2)
        for row in (raw, small):
            self.assertEqual(row["linkBps"], 50_000_000)
            self.assertGreater(row["sequencesPerSecond"], 0)
            self.assertGreater(row["boundSequencesPerSecond"], 0)
            self.assertLess(row["lineBoundSequencesPerSecond"], row["boundSequencesPerSecond"])
            self.assertEqual(row["mMismatches"], 0)
            self.assertEqual(row["resends"], 0)
        self.assertEqual(raw["wireBytesForward"], 4 * VALUES + HEADER)
        self.assertEqual(raw["wireBytesBackward"], 4 * VALUES + HEADER)
        # Three bits and six bits a value and two bytes per bucket of 128; aqsgd has two headers.
        scales = 2 * VALUES // 128
        self.assertEqual(small["wireBytesForward"], 3 * VALUES // 8 + scales + 2 * HEADER)
        self.assertEqual(small["wireBytesBackward"], 6 * VALUES // 8 + scales + HEADER)

    def kill_one(self):
        """What a bench that was killed leaves for the next one to remove."""
        folder = self.folder / "killed"
        running = subprocess.Popen(
            bench("--links", "1mbit", "--codecs", "raw/raw", "--no-reference", "--dir", folder,
                  "--rtt", "20ms"),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        harness.wait_for((folder / "row-1" / "run" / "invite").exists, 60, "it starts")
        left = namespaces_of(running.pid)
        hub = [name for name in left if name.endswith("-hub")]
        self.assertEqual([len(processes_in(name)) for name in hub], [1] * len(hub))
        running.kill()
        running.wait()
        harness.wait_for(lambda: not harness.processes_naming(str(folder)), 30, "its peers end")
        harness.wait_for(lambda: not any(map(processes_in, left)), 30, "its switch ends")
        return running.pid, left

    def test_rows_of_a_shaped_network(self):
        if not harness.is_root():
            self.skipTest("needs root")
        killed, left = self.kill_one()
        plot, trace = self.folder / "plot.svg", self.folder / "trace.json"
        report, said = self.run_bench(
            "--links", "50mbit", "--codecs", "raw/raw,aqsgd:bits=3,guard=off/direct:bits=6",
            "--no-reference", "--plot", plot, "--trace", trace)
        isolated = "namespace, what leaves" in said
        self.assertEqual(len(left), 5 if isolated else 0)  # hub, scheduler, peers
        self.assertFalse(namespaces_of(killed))
        self.check_rows(report, "tbf" if isolated else "caps")
        self.assertTrue(plot.read_text().startswith("<svg"))
        events = json.loads(trace.read_text())["traceEvents"]
        spans = [e for e in events if e["ph"] == "X" and e["name"] == "mb.forward"]
        self.assertEqual(len(spans), 3 * 4)
        self.assertEqual({e["pid"] for e in spans}, {1, 2, 3})

    def test_caps_where_there_are_no_namespaces(self):
        report, said = self.run_bench(
            "--links", "50mbit", "--codecs", "raw/raw,aqsgd:bits=3,guard=off/direct:bits=6",
            "--no-reference", "--no-namespaces")
        self.assertIn("loopback", said)
        self.check_rows(report, "caps")

    def test_a_round_trip_time_is_added(self):
        if not harness.is_root():
            self.skipTest("needs root")
        report, said = self.run_bench(
            "--links", "10gbit", "--codecs", "raw/raw", "--no-reference", "--rtt", "100ms",
            shape=INSTANT)
        row = report["rows"][0]
        if "namespace, what leaves" not in said:
            self.assertIn("rtt is not emulated", said)
            self.assertEqual(row["rttMs"], 0)
            return
        self.assertEqual(row["rttMs"], 100)
        # Two operations of 15 ms, of which only the last one's half for the weights may be beside
        # others, an activation and a gradient, 50 ms each; then the scheduler hears of the step's
        # end and says that it counts, 50 ms each, too.
        self.assertGreater(row["stepSeconds"], 0.045 + 0.1 + 0.1)
        self.assertGreater(row["delayCpuSeconds"], 0)
        bound = 1 / row["boundSequencesPerSecond"]
        self.assertGreater(bound, 0.045 + 0.1)
        self.assertLess(bound, 0.061 + 0.1)

    def test_slow_motion_is_done_and_converted_back(self):
        folder = self.folder / "kept"
        ran = subprocess.run(
            bench("--json", "--links", "4mbit", "--codecs", "raw/raw", "--no-reference",
                  "--no-namespaces", "--dilation", "3", "--keep", "--dir", folder, shape=INSTANT),
            capture_output=True, text=True, timeout=120, check=True)
        report = json.loads(ran.stdout)
        self.assertEqual(report["dilation"], 3)
        self.assertEqual(report["machine"]["coresPerPeer"], report["machine"]["cpus"] * 3 / 2)
        self.assertEqual(report["shape"]["forwardMs"], 15)
        stage = json.loads((folder / "row-1" / "stage.json").read_text())
        self.assertEqual(stage["forwardMs"], 45)
        self.assertEqual(stage["backwardMs"], 45)
        row = report["rows"][0]
        self.assertEqual(row["linkBps"], 4_000_000)
        # What no machine beats by its own clock: two operations, but for the weights' half of one.
        self.assertGreater(row["stepSeconds"], 0.045)
        bound = 1 / row["boundSequencesPerSecond"]
        wire = 8 * (row["wireBytesForward"] + row["wireBytesBackward"]) / 4e6
        self.assertAlmostEqual(bound, 0.0525 + wire, delta=0.0001)

    def test_steps_shorter_than_a_look_still_count(self):
        """Several steps end between two looks: a row is never made of none of them."""
        report, _ = self.run_bench(
            "--links", "10gbit", "--codecs", "raw/raw", "--no-reference", "--no-namespaces",
            shape=INSTANT)
        row = report["rows"][0]
        self.assertEqual(row["wireBytesForward"], 4 * 8 * 64 + HEADER)
        self.assertEqual(row["wireBytesBackward"], 4 * 8 * 64 + HEADER)

    def test_an_interrupted_bench_leaves_nothing(self):
        folder = self.folder / "bench"
        running = subprocess.Popen(
            bench("--links", "1mbit", "--codecs", "raw/raw", "--no-reference", "--dir", folder,
                  "--rtt", "20ms"),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        harness.wait_for(lambda: (folder / "row-1" / "peer-2.log").exists(), 60, "peers start")
        children = [int(p) for p in
                    Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()]
        self.assertEqual(len(children), 4 + bool(namespaces_of(running.pid)))  # and the switch
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130, said)
        self.assertFalse(namespaces_of(running.pid))
        self.assertFalse(folder.exists())
        for child in children:
            self.assertFalse(Path(f"/proc/{child}").exists())

    def test_a_bench_that_is_stopped_shows_the_rows_that_it_has(self):
        folder, plot = self.folder / "bench", self.folder / "plot.svg"
        running = subprocess.Popen(
            bench("--json", "--links", "10gbit,1kbit", "--codecs", "raw/raw", "--no-reference",
                  "--no-namespaces", "--dir", folder, "--plot", plot, shape=INSTANT),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        harness.wait_for((folder / "row-2" / "run" / "invite").exists, 60, "the second row starts")
        running.send_signal(signal.SIGINT)
        printed, said = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130, said)
        report = json.loads(printed)
        self.assertFalse(report["complete"])
        self.assertEqual([row["linkBps"] for row in report["rows"]], [10_000_000_000])
        self.assertTrue(plot.read_text().startswith("<svg"))

    def test_mistakes_are_one_line(self):
        ran = subprocess.run(bench("--codecs", "raw"), capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 2)
        self.assertEqual(ran.stderr.count("\n"), 1)
        self.assertIn("--codecs", ran.stderr)

    def test_a_codec_that_cannot_be_made_is_found_before_the_first_row(self):
        folder = self.folder / "bench"
        ran = subprocess.run(bench("--codecs", "raw/raw,direct:bits=3/direct:bits=99", "--dir",
                                   folder), capture_output=True, text=True, check=False)
        self.assertEqual(ran.returncode, 2)
        self.assertEqual(ran.stderr.count("\n"), 1, ran.stderr)
        self.assertIn("--codecs: codecs.backward", ran.stderr)
        self.assertIn("bits=99", ran.stderr)
        self.assertFalse(folder.exists())

    def test_a_swarm_that_stands_still_fails_its_row(self):
        folder = self.folder / "bench"
        running = subprocess.Popen(
            bench("--links", "1mbit", "--codecs", "raw/raw", "--no-reference", "--dir", folder,
                  "--step-limit", "4s"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        harness.wait_for((folder / "row-1" / "peer-1" / "shoald.sock").exists, 60, "it starts")
        children = [int(p) for p in
                    Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()]
        frozen = [p for p in harness.processes_naming(str(folder / "row-1" / "peer-1"))
                  if p in children]
        self.assertEqual(len(frozen), 1)
        os.kill(frozen[0], signal.SIGSTOP)
        printed, said = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 1, said)
        self.assertEqual(printed, "")
        last = said.splitlines()[-1]
        self.assertIn("no step ended for 4.0s", last)
        self.assertIn("peer-1 does not answer", last)
        self.assertIn(f"logs in {folder}/row-1", last)
        left = sorted(p.name for p in (folder / "row-1").iterdir())
        self.assertIn("peer-1.log", left)
        self.assertIn("scheduler.status.json", left)
        self.assertNotIn("peer-0", left)
        self.assertFalse(namespaces_of(running.pid))
        for child in children:
            self.assertFalse(Path(f"/proc/{child}").exists())


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    harness.main()
