"""An etcd cluster on this machine, of Debian's program (./x setup puts it into .deps/bin)."""

import json
import shutil
import signal
import subprocess
from urllib.request import urlopen

import harness
from harness import tail, wait_for


def program():
    kept = harness.SOURCE / ".deps/bin/etcd"
    path = str(kept) if kept.exists() else shutil.which("etcd")
    if not path:
        raise AssertionError(f"{kept} is missing: ./x setup fetches it")
    return path


class Etcd:
    """`members` processes with data in `folder`; all are gone after close()."""

    def __init__(self, folder, members=1):
        self.folder = folder
        ports = [(harness.free_port(), harness.free_port()) for _ in range(members)]
        peers = ",".join(f"e{i}=http://127.0.0.1:{peer}" for i, (_, peer) in enumerate(ports))
        self.addresses = [f"http://127.0.0.1:{client}" for client, _ in ports]
        self.commands = [
            [program(), "--name", f"e{i}", "--data-dir", str(folder / f"e{i}"),
             "--listen-client-urls", self.addresses[i],
             "--advertise-client-urls", self.addresses[i],
             "--listen-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-cluster", peers, "--log-level", "warn"]
            for i, (_, peer) in enumerate(ports)]
        self.processes = [None] * members
        for index in range(members):
            self.start(index)
        self.wait()

    def start(self, index):
        with open(self.folder / f"etcd{index}.log", "ab") as log:
            self.processes[index] = subprocess.Popen(
                self.commands[index], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=harness.die_with_parent)

    def wait(self):
        for index, address in enumerate(self.addresses):
            def healthy(index=index, address=address):
                if self.processes[index].poll() is not None:
                    raise AssertionError(tail(self.folder / f"etcd{index}.log"))
                try:
                    with urlopen(f"{address}/health", timeout=2) as answer:
                        return json.load(answer)["health"] == "true"
                except OSError:
                    return False
            wait_for(healthy, 30, f"etcd answers under {address}")

    def kill(self, index):
        self.processes[index].send_signal(signal.SIGKILL)
        self.processes[index].wait()

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
