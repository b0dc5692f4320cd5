"""An etcd cluster on this machine, of Debian's program (./x setup puts it into .deps/bin)."""

import base64
import json
import shutil
import signal
import ssl
import subprocess
from urllib.request import Request, urlopen

import harness
from harness import tail, wait_for


def program():
    kept = harness.SOURCE / ".deps/bin/etcd"
    path = str(kept) if kept.exists() else shutil.which("etcd")
    if not path:
        raise AssertionError(f"{kept} is missing: ./x setup fetches it")
    return path


def make_certificates(folder):
    """An authority's ca.crt, and with it server.crt and client.crt with their keys."""
    folder.mkdir()

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *new_key, "-days", "2", "-subj", "/CN=authority",
            "-keyout", "ca.key", "-out", "ca.crt")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for name in ("server", "client"):
        openssl("req", *new_key, "-subj", f"/CN={name}", "-keyout", f"{name}.key",
                "-out", f"{name}.csr")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
                "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.crt")
    return folder


class Etcd:
    """`members` processes with data in `folder`; all are gone after close(). With `certificates`
    they talk TLS, and to those only who have a certificate."""

    def __init__(self, folder, members=1, certificates=None):
        self.folder = folder
        scheme, self.context, flags = "http", None, []
        if certificates:
            scheme = "https"
            self.context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
            self.context.load_cert_chain(certificates / "client.crt", certificates / "client.key")
            flags = ["--cert-file", str(certificates / "server.crt"),
                     "--key-file", str(certificates / "server.key"),
                     "--trusted-ca-file", str(certificates / "ca.crt"), "--client-cert-auth"]
        ports = [(harness.free_port(), harness.free_port()) for _ in range(members)]
        peers = ",".join(f"e{i}=http://127.0.0.1:{peer}" for i, (_, peer) in enumerate(ports))
        self.addresses = [f"{scheme}://127.0.0.1:{client}" for client, _ in ports]
        self.commands = [
            [program(), "--name", f"e{i}", "--data-dir", str(folder / f"e{i}"),
             "--listen-client-urls", self.addresses[i],
             "--advertise-client-urls", self.addresses[i],
             "--listen-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-cluster", peers, "--log-level", "warn", *flags]
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
                    with urlopen(f"{address}/health", timeout=2,
                                 context=self.context) as answer:
                        return json.load(answer)["health"] == "true"
                except OSError:
                    return False
            wait_for(healthy, 30, f"etcd answers under {address}")

    def ask(self, path, **fields):
        """A call of etcd's JSON door; bytes as base64."""
        request = Request(f"{self.addresses[0]}/v3/{path}", json.dumps(fields).encode())
        with urlopen(request, timeout=10, context=self.context) as answer:
            return json.load(answer)

    def append(self, prefix, event):
        """One more event of the history that schedulers keep below `prefix`, which none may run."""
        def text(value):
            return base64.b64encode(value).decode()
        begin = f"{prefix}/v1/events/".encode()
        last = self.ask("kv/range", key=text(begin), range_end=text(begin[:-1] + b"0"),
                        sort_order="DESCEND", limit=1)["kvs"][0]
        number = int(base64.b64decode(last["key"])[len(begin):]) + 1
        value = base64.b64decode(last["value"])
        mark = value[:value.index(b"{")]
        self.ask("kv/put", key=text(begin + b"%020d" % number),
                 value=text(mark + json.dumps(event).encode()))

    def protect(self, user, password, prefix):
        """From now on only `user` reads and writes keys, those below `prefix`."""
        def text(value):
            return base64.b64encode(value.encode()).decode()
        for name, word in (("root", "of the cluster"), (user, password)):
            self.ask("auth/role/add", name=name)
            self.ask("auth/user/add", name=name, password=word)
            self.ask("auth/user/grant", user=name, role=name)
        self.ask("auth/role/grant", name=user,
                 perm={"permType": "READWRITE", "key": text(prefix + "/"),
                       "range_end": text(prefix + "0")})
        self.ask("auth/enable")

    def kill(self, index):
        self.processes[index].send_signal(signal.SIGKILL)
        self.processes[index].wait()

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
