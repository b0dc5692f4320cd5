"""A swarm of real processes on this machine: one scheduler and its peers."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import harness
from harness import Daemon, run, tail, wait_for

START_TIMEOUT = 60


class Swarm:
    """Use as a context manager; every process is gone afterwards, however the test ended.

    `run_keys`, `codecs`, `optimizer`, `network`, `schedule`, `adapter`, `base`: keys of run.toml
    beside the defaults here; `base` is its [model].
    """

    def __init__(self, folder, stages=2, pipelines=1, steps=20, micro_batches=4, rows=2,
                 data=None, model=None, forward="raw:dtype=fp32", backward="raw:dtype=fp32",
                 optimizer=None, network=None, schedule=None, adapter=None, base=None,
                 replica=None, prefix=(), **run_keys):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.run_folder = self.folder / "run"
        self.stages, self.pipelines = stages, pipelines
        self.prefix = prefix
        self.scheduler = None
        self.peers = {}
        self._starts = 0
        self.sections = {
            "run": {"name": "test", "model": str(model or harness.model()),
                    "data": str(data or harness.data()), "directory": str(self.run_folder),
                    "steps": steps, "seed": 5, "stages": stages, "pipelines": pipelines,
                    "micro_batches": micro_batches, "micro_batch_rows": rows, **run_keys},
            "codecs": {"forward": forward, "backward": backward},
            "optimizer": {"learning_rate": 1e-3, "warmup_steps": 5, **(optimizer or {})},
            "network": {"listen": "127.0.0.1:0", "advertise": ["127.0.0.1"],
                        "status_listen": "127.0.0.1:0", **(network or {})}}
        if schedule:
            self.sections["schedule"] = schedule
        if replica:
            self.sections["replica"] = {"method": replica}
        if base:
            self.sections["model"] = base
        if adapter:
            self.sections["adapter"] = adapter

    # ---- start and stop ----

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        daemons = [*self.peers.values(), *([self.scheduler] if self.scheduler else [])]
        if kind is not None:
            self.explain()
        for daemon in daemons:
            daemon.kill()

    def explain(self):
        """What a failed test needs to be understood, on standard error."""
        for name, daemon in [*self.peers.items(), ("scheduler", self.scheduler)]:
            if daemon and daemon.poll() is not None:
                print(f"---- {name} ended with {daemon.poll()}", file=sys.stderr)
        for log in sorted(self.folder.glob("*.log")):
            print(f"---- {log.name}\n{tail(log)}", file=sys.stderr)
        try:
            print("---- run", json.dumps(self.run(), indent=None)[:1500], file=sys.stderr)
        except (AssertionError, KeyError, ValueError, subprocess.TimeoutExpired):
            print("---- the scheduler does not answer", file=sys.stderr)

    def write_config(self):
        path = self.folder / "run.toml"
        lines = []
        for section, keys in self.sections.items():
            lines.append(f"[{section}]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        path.write_text("\n".join(lines) + "\n")
        return path

    def start_scheduler(self, *flags):
        (self.run_folder / "status.addr").unlink(missing_ok=True)
        self.scheduler = Daemon("shoal-scheduler", ["--config", self.write_config(), *flags],
                                self.folder / "scheduler.log", self.prefix)
        # Written last: the invite is there by then, if there is a standing one.
        self._wait_for_file(self.scheduler, self.run_folder / "status.addr")
        wait_for(lambda: self.status(check=False), START_TIMEOUT, "the scheduler answers")

    def invite(self):
        return (self.run_folder / "invite").read_text().strip()

    def start_peer(self, name, *flags, prefix=None, listen="127.0.0.1:0", advertise="127.0.0.1",
                   invite=None, device="cpu", env=None, program="shoald"):
        """Starts shoald; a second time with the same name: on the folder it left."""
        folder = self.peer_folder(name)
        (folder / "status.addr").unlink(missing_ok=True)
        self.peers[name] = Daemon(
            program,
            ["--dir", folder, "--name", name, "--join", invite or f"file:{self.run_folder}/invite",
             "--listen", listen, *(["--advertise", advertise] if advertise else []),
             "--status-listen", "127.0.0.1:0", "--threads", 1, "--device", device,
             "--on-battery", "train", *flags],
            self.folder / f"{name}.log", self.prefix if prefix is None else prefix, env)
        return self.peers[name]

    def start(self, peers=None, *flags):
        """Scheduler and peers "p0", "p1", ...; one for each place unless `peers` says more."""
        self.start_scheduler()
        for index in range(peers or self.stages * self.pipelines):
            self.start_peer(f"p{index}", *flags)
        return self

    def stop(self):
        """Everything in order, as the organiser would; exit codes must be 0."""
        codes = {}
        for daemon in self.peers.values():
            if daemon.poll() is None:
                daemon.signal(15)
        for name, daemon in self.peers.items():
            codes[name] = daemon.wait(30)
        codes["scheduler"] = self.scheduler.stop()
        bad = {name: code for name, code in codes.items() if code not in (0, -9)}
        if bad:
            raise AssertionError(f"these did not end well: {bad}")

    def peer_folder(self, name):
        return self.folder / name

    def _wait_for_file(self, daemon, path):
        def there():
            if daemon.poll() is not None:
                raise AssertionError(f"{daemon.name} ended with {daemon.poll()}:\n"
                                     f"{tail(daemon.log)}")
            return path.exists()
        wait_for(there, START_TIMEOUT, f"{path} appears")

    # ---- what they say ----

    def status(self, check=True):
        done = run("shoal", "swarm", "status", "--dir", self.run_folder, "--json", check=check)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def run(self):
        """Asked many times a second: by HTTP, where this process shares the scheduler's network,
        for a program that starts and ends takes twenty times as long."""
        if self.prefix:
            return self.status()["run"]
        try:
            with urlopen(f"http://{self.address()}/api/v1/status", timeout=60) as answer:
                return json.load(answer)["run"]
        except OSError as error:
            raise AssertionError(f"the scheduler does not answer: {error}") from error

    def peer_status(self, name, check=True):
        done = run("shoal", "status", "--dir", self.peer_folder(name), "--json", check=check)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def peer_statuses(self):
        return {name: self.peer_status(name) for name in self.peers}

    def places(self):
        """name -> (stage, pipeline) of all that have a place; both count from 0."""
        return {m["name"]: (m["stage"], m["pipeline"]) for m in self.status()["members"]
                if m["stage"] >= 0}

    def peer_at(self, stage, pipeline=0):
        return next(name for name, place in self.places().items() if place == (stage, pipeline))

    def at_rest(self, take):
        """take() while no step goes on and all peers have applied the same number of steps: the
        scheduler stands still for a moment. None if they were not equally far."""
        self.scheduler.signal(signal.SIGSTOP)
        try:
            time.sleep(0.6)
            steps = {s["work"]["step"] for s in self.peer_statuses().values()}
            return take() if len(steps) == 1 else None
        finally:
            self.scheduler.signal(signal.SIGCONT)

    def address(self, name=None):
        """host:port of the status endpoint of a peer, or of the scheduler."""
        path = (self.run_folder if name is None else self.peer_folder(name)) / "status.addr"
        return wait_for(lambda: path.exists() and path.read_text().strip(), START_TIMEOUT,
                        f"{path} appears")

    def check_alive(self, but=()):
        for name, daemon in [*self.peers.items(), ("scheduler", self.scheduler)]:
            if name not in but and daemon.poll() is not None:
                raise AssertionError(f"{name} ended with {daemon.poll()}:\n{tail(daemon.log)}")

    # ---- waiting ----

    def wait_run(self, check, timeout, what, but=()):
        """Waits until check(run status) holds; ends early when a process dies or the run fails."""
        last = {}

        def look():
            self.check_alive(but)
            last.update(self.run())
            if last["state"] == "failed" and not check(last):
                raise AssertionError(f"the run failed: {last['reason']}")
            return last if check(last) else None
        return wait_for(look, timeout, lambda: f"{what}; the run is {last.get('state')} "
                                               f"({last.get('reason')}) at {last.get('step')}")

    def wait_step(self, step, timeout=120, but=()):
        return self.wait_run(lambda r: r["step"] >= step, timeout, f"step {step}", but)

    def wait_finished(self, timeout=180, but=()):
        return self.wait_run(lambda r: r["state"] == "finished", timeout, "finished", but)

    def wait_state(self, state, timeout=60, but=()):
        return self.wait_run(lambda r: r["state"] == state, timeout, state, but)

    # ---- orders ----

    def export(self, path, kind="directory"):
        run("shoal", "swarm", "export", "--dir", self.run_folder, "--out", path, "--as", kind,
            timeout=120)
        return Path(path)


    # ---- looking back ----

    def audit(self, steps, *flags):
        """The ledger of the final history, which must be right and have so many steps. Whether the
        scheduler runs or not."""
        ledger = json.loads(run("shoal", "swarm", "audit", "--dir", self.run_folder, "--json",
                                *flags).stdout)
        if not ledger["right"] or ledger["steps"] != steps:
            raise AssertionError(f"wrong ledger, {steps} steps expected: {ledger}")
        each = self.sections["run"]["micro_batches"]
        counted = sum(m["microBatches"] for m in ledger["members"])
        if counted != steps * each * self.stages:
            raise AssertionError(f"{counted} micro-batches counted: {ledger['members']}")
        return ledger

    def events(self, *flags):
        return json.loads(run("shoal", "swarm", "events", "--dir", self.run_folder, "--json",
                              *flags).stdout)

    def continued(self):
        """The steps at which generations outlived their scheduler."""
        return [e["step"] for e in self.events()["events"] if e["kind"] == "continued"]

    def repairs(self):
        """The generations after the first, as `shoal swarm events` tells them."""
        return [e for e in self.events()["events"] if e["kind"] == "generation"][1:]


def train(folder, peers=None, export=None, timeout=180, **options):
    """A whole run: losses by step and the last status; optionally its exports: a path, or paths
    by kind."""
    with Swarm(folder, **options) as swarm:
        swarm.start(peers)
        swarm.wait_finished(timeout)
        status = swarm.status()
        exports = export if isinstance(export, dict) else {"directory": export}
        for kind, path in exports.items():
            if path is not None:
                swarm.export(path, kind)
        swarm.stop()
    return status["run"]["losses"], status


def sleep_until(moment):
    time.sleep(max(0.0, moment - time.monotonic()))


def describe(losses):
    return os.linesep.join(f"{step}: {loss!r}" for step, loss in enumerate(losses))
