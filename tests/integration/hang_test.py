"""A peer whose compute thread hangs, as a GPU can make it, while all else of it lives."""

import ctypes
import os
import time
import unittest
from pathlib import Path

import harness
from harness import wait_for
from swarm import Swarm, train

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000  # of waitpid: threads, too
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


class HeldThread:
    """Stops one thread of a child in the midst of its work; `release` lets it go on."""

    def __init__(self, pid, name):
        self.tid = next(int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()
                        if (task / "comm").read_text().strip() == name)
        self.held = False
        for _ in range(2000):
            self._stop()
            if self._works():
                return
            self.release()
            time.sleep(0.003)
        raise AssertionError(f"thread {name} never works")

    def _stop(self):
        if libc.ptrace(PTRACE_SEIZE, self.tid, None, None) != 0:
            raise unittest.SkipTest("needs the right to trace a child process: " +
                                    os.strerror(ctypes.get_errno()))
        self.held = True
        libc.ptrace(PTRACE_INTERRUPT, self.tid, None, None)
        os.waitpid(self.tid, WALL)

    def _works(self):
        """In LibTorch itself: elsewhere it may hold a lock that other threads need."""
        at = int(Path(f"/proc/{self.tid}/syscall").read_text().split()[-1], 16)
        for line in Path(f"/proc/{self.tid}/maps").read_text().splitlines():
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            if begin <= at < end:
                return "libtorch_cpu" in line
        return False

    def wait_gone(self, seconds):
        """Its process cannot end before its tracer has taken note."""
        wait_for(lambda: os.waitpid(self.tid, WALL | os.WNOHANG)[0] != 0, seconds,
                 "the held thread ends")
        self.held = False

    def release(self):
        if self.held:
            libc.ptrace(PTRACE_DETACH, self.tid, None, None)
        self.held = False


class HangTest(harness.SwarmTest):

    def test_a_peer_whose_compute_hangs_is_taken_out_and_comes_back(self):
        options = {"stages": 2, "pipelines": 2, "steps": 2500, "micro_batches": 8,
                   "checkpoint_every": 100000, "optimizer": {"learning_rate": 1e-5}}
        with Swarm(self.folder / "s", network={"peer_timeout": "3s"}, **options) as swarm:
            swarm.start()
            swarm.wait_step(20)
            victim = swarm.peer_at(stage=1, pipeline=1)
            held = HeldThread(swarm.peers[victim].process.pid, "compute")
            try:
                fewer = swarm.wait_run(lambda r: "1 of 2 pipelines train" in r["reason"], 45,
                                       "the others go on", but=[victim])
                self.assertIn(victim, fewer["reason"])
                self.assertIn("as it hangs", fewer["reason"])
                step = fewer["step"]
                swarm.wait_step(step + 20)
                wait_for(lambda: swarm.peer_status(victim)["state"] == "paused", 20,
                         "the peer is back, without a stage")
                status = swarm.peer_status(victim)
                self.assertIn("hangs", status["stateReasons"][0])
                self.assertIn("operation_hangs", [h["code"] for h in status["health"]])
            finally:
                held.release()
            wait_for(lambda: swarm.peer_status(victim)["state"] != "paused", 20,
                     "the peer takes a stage again")
            swarm.wait_run(lambda r: r["state"] == "training" and
                           "pipelines train" not in r["reason"], 60, "all pipelines train")
            status = swarm.status()
            self.assertEqual(status["consistency"]["weightMismatches"], 0)
            swarm.stop()
            self.assertEqual(swarm.events()["stepsLost"], 0)

    def test_a_peer_that_hangs_ends_when_it_is_told_to(self):
        with Swarm(self.folder / "s", stages=2, pipelines=1, steps=100000,
                   network={"peer_timeout": "3s"}) as swarm:
            swarm.start()
            swarm.wait_step(20)
            victim = swarm.peer_at(stage=0)
            held = HeldThread(swarm.peers[victim].process.pid, "compute")
            try:
                wait_for(lambda: swarm.peer_status(victim)["state"] == "paused", 60,
                         "the peer gives its stage up")
                swarm.peers[victim].signal(15)
                held.wait_gone(30)
            finally:
                held.release()
            self.assertEqual(swarm.peers[victim].wait(10), 1)
            self.assertIn("ended_while_hanging", (self.folder / f"s/{victim}.log").read_text())


if __name__ == "__main__":
    harness.main()
