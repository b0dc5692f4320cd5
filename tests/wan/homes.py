"""What tests of swarms behind routers share: an internet, a relay outside, peers that join."""

import contextlib
import json
import sys

import harness
import namespaces
from harness import Daemon, wait_for
from swarm import Swarm

RELAY_PORT = 8783
STATUS = """import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:8784/api/v1/status", timeout=10).read().decode())"""


def main():
    if not harness.is_root() or not namespaces.possible() or not namespaces.can_masquerade():
        harness.skip_file("needs root and nftables")
    harness.main()


class HomesTest(harness.SwarmTest):

    def setUp(self):
        super().setUp()
        self.stack = self.enterContext(contextlib.ExitStack())
        self.internet = self.stack.enter_context(namespaces.Internet())
        self.outside = self.internet.machine("relay")
        self.relay = None

    def start_relay(self):
        address = self.outside.address
        any_address = "[::]" if ":" in address else "0.0.0.0"
        self.relay = Daemon("shoal-relay",
                            ["--dir", self.folder / "relay", "--listen",
                             f"{any_address}:{RELAY_PORT}", "--advertise", address,
                             "--status-listen", "127.0.0.1:8784"],
                            self.folder / "relay.log", self.outside.prefix)
        self.stack.callback(self.relay.kill)
        secret = self.folder / "relay/relay_secret"
        wait_for(secret.exists, 20, "the relay has a secret")
        host = f"[{address}]" if ":" in address else address
        return f"{secret.read_text().strip()}@{host}:{RELAY_PORT}"

    def swarm(self, organiser, *relays, listen="0.0.0.0:8781", **options):
        network = {"listen": listen, "advertise": [organiser.address], "relays": list(relays)}
        swarm = self.stack.enter_context(Swarm(self.folder / "s", prefix=organiser.prefix,
                                               network=network, **options))
        self.explained.append(swarm)
        swarm.start_scheduler()
        return swarm

    def join(self, swarm, name, machine, listen="0.0.0.0:0"):
        return swarm.start_peer(name, listen=listen, advertise=machine.address,
                                prefix=machine.prefix)

    def paths(self, swarm, name):
        return {link["path"] for link in swarm.peer_status(name)["links"]}

    def relay_status(self):
        return json.loads(self.outside.run(sys.executable, "-c", STATUS))
