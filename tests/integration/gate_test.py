"""Strangers at the ports of a run: connections that say nothing, and TLS with a key that nobody
knows. Who is invited gets in meanwhile, and the run goes on."""

import contextlib
import resource
import socket
import ssl
import threading

import harness
from swarm import Swarm

SILENT = 1100
# The usual limit, that the daemons cannot raise.
FEW_DESCRIPTORS = ("sh", "-c", 'ulimit -n 1024; exec "$@"', "sh")
# Made once with the openssl tool: an Ed25519 key and its own certificate, for a hundred years.
STRANGER = """\
-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ7bGPvPVOuYaW50kL0xWt8CISP3niXzSH9+UrefM+Od
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBPDCB76ADAgECAhROvad/XXzF39GQjltySiZZQdX8CTAFBgMrZXAwEzERMA8G
A1UEAwwIc3RyYW5nZXIwIBcNMjYxMTIzMTEzODM2WhgPMjEyNjEwMzAxMTM4MzZa
MBMxETAPBgNVBAMMCHN0cmFuZ2VyMCowBQYDK2VwAyEAM/N8Zrn5s9utH0+vKY0V
I+FhAKInHiTiTCRhkL3UZKWjUzBRMB0GA1UdDgQWBBQFC4uZEJF/YZC+KFLsw5EZ
wPFX2DAfBgNVHSMEGDAWgBQFC4uZEJF/YZC+KFLsw5EZwPFX2DAPBgNVHRMBAf8E
BTADAQH/MAUGAytlcANBAOu0JTey1Bog+LqLMPJdiqbsh4JKKbxiSMGeUuA32ubh
e/JsZYSboVotokHrnugjgkK7vHx1N8n47FX7SINlLQU=
-----END CERTIFICATE-----
"""


def connect(port, source, timeout=10):
    return socket.create_connection(("127.0.0.1", port), timeout, source_address=(source, 0))


class Strangers:
    """TLS handshakes without end, as fast as they are answered; what the other end says after."""

    def __init__(self, ports, certificate):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE
        self.context.load_cert_chain(certificate)
        self.context.set_alpn_protocols(["h2"])
        self.ports = ports
        self.heard = b""
        self.tries = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.loop)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def loop(self):
        while not self.over.is_set():
            for port in self.ports:
                self.tries += 1
                with contextlib.suppress(OSError):
                    with connect(port, "127.0.0.2") as plain:
                        with self.context.wrap_socket(plain) as tls:
                            tls.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4]) +
                                        bytes(5))
                            self.heard += tls.recv(100)


class GateTest(harness.SwarmTest):

    def setUp(self):
        super().setUp()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 2 * SILENT + 500
        if hard < wanted:
            self.skipTest("this machine allows too few descriptors")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))

    def test_invited_peers_get_in_beside_silent_connections_and_strangers(self):
        certificate = self.folder / "stranger.pem"
        certificate.write_text(STRANGER)
        ports = [harness.free_port(), harness.free_port()]
        with Swarm(self.folder / "s", steps=100_000, checkpoint_every=10, prefix=FEW_DESCRIPTORS,
                   network={"listen": f"127.0.0.1:{ports[0]}"}) as swarm, \
                contextlib.ExitStack() as silent:
            swarm.start_scheduler()
            swarm.start_peer("p0", listen=f"127.0.0.1:{ports[1]}")
            swarm.address("p0")
            for port in ports:
                for _ in range(SILENT):
                    # Refused ones end at once, which is right, too.
                    silent.enter_context(connect(port, "127.0.0.1"))
            with Strangers(ports, certificate) as strangers:
                swarm.start_peer("p1")
                before = swarm.wait_run(
                    lambda r: r["step"] >= 5 and r["checkpointStep"] > 0, 60, "training")
                swarm.peers["p1"].kill()
                swarm.wait_state("paused", but=["p1"])
                swarm.start_peer("p1")
                swarm.wait_step(before["step"] + 30)
            self.assertGreater(strangers.tries, 100)
            self.assertEqual(strangers.heard, b"")
            silent.close()
            step = swarm.run()["step"]
            swarm.peers["p0"].kill()
            swarm.wait_state("paused", but=["p0"])
            swarm.start_peer("p0", listen=f"127.0.0.1:{ports[1]}")
            swarm.wait_step(step + 10)
            swarm.stop()


if __name__ == "__main__":
    harness.main()
