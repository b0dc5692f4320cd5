"""What trackers get of a run: TensorBoard's event files and lines of JSON, over a restart and a
return to a checkpoint."""

import contextlib
import json
import struct
import subprocess

import harness
from harness import run, wait_for
from swarm import Swarm

CRC32C = 0x82F63B78  # reversed


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (CRC32C if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """The records of a TFRecord file, which must be whole."""
    at = 0
    while at < len(data):
        head = data[at:at + 8]
        size, = struct.unpack("<Q", head)
        body = data[at + 12:at + 12 + size]
        sums = struct.unpack("<I", data[at + 8:at + 12]) + struct.unpack(
            "<I", data[at + 12 + size:at + 16 + size])
        if sums != (masked(head), masked(body)):
            raise AssertionError(f"wrong checksum of the record at {at}")
        yield body
        at += 16 + size


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """(number, value) of a protobuf message; values as their bytes, or as an int."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = varint(data, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def event(record):
    """An event as a dict: wall_time, step, version, session, and values by tag."""
    found = {"step": 0, "version": None, "session": None, "values": {}}
    for number, value in fields(record):
        if number == 1:
            found["wall_time"], = struct.unpack("<d", value)
        elif number == 2:
            found["step"] = value
        elif number == 3:
            found["version"] = value.decode()
        elif number == 5:
            for _, one in fields(value):
                parts = dict(fields(one))
                found["values"][parts[1].decode()], = struct.unpack("<f", parts[2])
        elif number == 7:
            found["session"] = dict(fields(value))[1]
        else:
            raise AssertionError(f"field {number} of an event")
    return found


class TrackerTest(harness.SwarmTest):

    def events_of(self, folder):
        """By file, in the order of their names, which is that of their starts."""
        return [[event(record) for record in records(path.read_bytes())]
                for path in sorted(folder.iterdir())]

    def lines(self, path):
        return [json.loads(line) for line in path.read_text().splitlines()]

    def test_both_logs_tell_the_run(self):
        board, file = self.folder / "board", self.folder / "logs/run.jsonl"
        with Swarm(self.folder / "s", stages=2, pipelines=1, steps=30, evaluate_every=10,
                   checkpoint_every=5, log_to=[f"tensorboard:{board}"],
                   network={"listen": f"127.0.0.1:{harness.free_port()}"}) as swarm:
            # The flag is instead of the setting.
            flags = ["--log-to", f"tensorboard:{board}", "--log-to", f"jsonl:{file}"]
            swarm.start_scheduler(*flags)
            for name in ("p0", "p1"):
                swarm.start_peer(name)
            swarm.wait_step(12)
            self.assertEqual(swarm.status()["logs"],
                             {"targets": [flags[1], flags[3]], "failures": 0, "lastFailure": ""})
            swarm.scheduler.stop()
            swarm.start_scheduler(*flags)
            status = swarm.wait_finished()
            swarm.stop()

        lines = self.lines(file)
        opened = [line for line in lines if line["kind"] == "opened"]
        self.assertEqual([o["run"] for o in opened], [status["id"]] * 2)
        self.assertEqual(lines[0]["kind"], "opened")
        times = [line["time"] for line in lines]
        self.assertEqual(times, sorted(times))
        losses = {line["step"]: line["loss"] for line in lines if line["kind"] == "step"}
        self.assertEqual(sorted(losses), list(range(1, 31)))
        self.assertEqual([losses[step] for step in range(1, 31)], status["losses"])
        held_out = [[line["step"], line["heldOutLoss"]] for line in lines
                    if line["kind"] == "held_out"]
        self.assertEqual(held_out, status["heldOut"])
        kinds = {line["kind"] for line in lines}
        self.assertLessEqual({"opened", "joined", "generation", "step", "traffic", "checkpoint",
                              "scheduler", "finished"}, kinds)
        full = next(line for line in lines if line["kind"] == "step")
        self.assertEqual(set(full), {"kind", "time", "step", "loss", "stepSeconds",
                                     "controlSeconds", "samplesPerSecond", "learningRate",
                                     "gradientNorm", "pipelines"})
        bits = [line["forwardBitsPerValue"] for line in lines if "forwardBitsPerValue" in line]
        self.assertTrue(all(32 <= value < 40 for value in bits), bits)  # fp32 and headers

        files = self.events_of(board)
        self.assertEqual(len(files), 2)
        # Steps that the first scheduler had not stored come again, and are void before.
        again = files[1][1]
        self.assertEqual(again["session"], 1)
        self.assertEqual(again["step"], opened[1]["step"] + 1)
        seen = {}
        for events in files:
            self.assertEqual(events[0]["version"], "brain.Event:2")
            for one in events[1:]:
                if one["session"] is not None:
                    continue
                self.assertGreater(one["wall_time"], 1e9)
                for tag, value in one["values"].items():
                    seen.setdefault(tag, {})[one["step"]] = value
        self.assertEqual(sorted(seen["loss/train"]), list(range(1, 31)))
        for step, value in seen["loss/train"].items():
            self.assertAlmostEqual(value, losses[step], places=5)
        self.assertEqual(sorted(seen["loss/held_out"]), [step for step, _ in held_out])
        self.assertLessEqual({"time/step_s", "rate/samples_per_s", "optimizer/learning_rate",
                              "swarm/pipelines", "swarm/peers", "wire/sent_bytes"}, set(seen))

    def test_steps_that_are_lost_are_void(self):
        board, file = self.folder / "board", self.folder / "run.jsonl"
        with Swarm(self.folder / "s", stages=2, pipelines=1, steps=100_000, checkpoint_every=5,
                   log_to=[f"tensorboard:{board}", f"jsonl:{file}"]) as swarm:
            swarm.start()
            swarm.wait_step(8)
            for name in ("p0", "p1"):  # nobody holds what no checkpoint has
                swarm.peers[name].kill()
            swarm.start_peer("p0")
            swarm.start_peer("p1")
            wait_for(lambda: len(swarm.repairs()) > 0, 60, "the run goes on")
            swarm.wait_step(12)
            swarm.stop()
        back = next(line for line in self.lines(file)
                    if line["kind"] == "generation" and line["stepsLost"] > 0)
        self.assertEqual(back["step"] % 5, 0)
        starts = [e["step"] for events in self.events_of(board) for e in events
                  if e["session"] == 1]
        self.assertIn(back["step"] + 1, starts)

    def fill(self, path):
        with open(path, "ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 4096)

    def test_a_full_disk_is_told_and_costs_no_entry(self):
        disk = self.folder / "disk"
        disk.mkdir()
        done = harness.is_root() and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", disk], check=False)
        if not done or done.returncode != 0:
            self.skipTest("needs root and mount, to make a disk that is full")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        board, file, much = disk / "board", disk / "run.jsonl", disk / "much"
        targets = [f"tensorboard:{board}", f"jsonl:{file}"]
        with Swarm(self.folder / "s", steps=100_000, log_to=targets) as swarm:
            swarm.start()
            swarm.wait_step(5)
            self.fill(much)
            logs = wait_for(lambda: (s := swarm.status()["logs"])["lastFailure"] and s, 60,
                            "a write fails")
            self.assertGreater(logs["failures"], 0)
            self.assertRegex(logs["lastFailure"], "No space left on device")
            self.assertIn("a log is not written; it tries again: ",
                          run("shoal", "swarm", "status", "--dir", swarm.run_folder).stdout)
            much.unlink()
            wait_for(lambda: not swarm.status()["logs"]["lastFailure"], 60, "it is written again")
            swarm.wait_step(swarm.status()["run"]["step"] + 3)
            swarm.stop()
            steps = [line["step"] for line in self.lines(file) if line["kind"] == "step"]
            self.assertEqual(steps, list(range(1, len(steps) + 1)))
            events, = self.events_of(board)
            self.assertEqual([e["step"] for e in events if "loss/train" in e["values"]], steps)
            # At the start it is refused.
            self.fill(much)
            done = run("shoal-scheduler", "--config", swarm.write_config(), check=False)
            self.assert_refused(done, harness.FAILURE, "log_to: .*No space left on device")

    def test_what_cannot_be_written_is_refused_at_the_start(self):
        with Swarm(self.folder / "s") as swarm:
            config = swarm.write_config()
            (self.folder / "file").write_text("x")
            done = run("shoal-scheduler", "--config", config, "--log-to",
                       f"tensorboard:{self.folder}/file/x", check=False)
            self.assert_refused(done, harness.BAD_CONFIG, "log_to: tensorboard:")
            done = run("shoal-scheduler", "--config", config, "--log-to",
                       f"jsonl:{self.folder}", check=False)
            self.assert_refused(done, harness.BAD_CONFIG, "log_to: jsonl:.*folder")
            done = run("shoal-scheduler", "--config", config, "--log-to", "wandb:x", check=False)
            self.assert_refused(done, harness.BAD_CONFIG, "tensorboard:FOLDER or jsonl:FILE")


if __name__ == "__main__":
    harness.main()
