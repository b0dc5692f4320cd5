"""A router that leads ports to its home by NAT-PMP (RFC 6886): run in the router's namespace with
its outside address. Prints "ready"; ends with its standard input."""

import select
import socket
import struct
import subprocess
import sys

PORT = 5351
CHAINS = """table ip home {
  chain mapped { type nat hook prerouting priority dstnat; }
}
insert rule ip home through ct status dnat accept
insert rule ip home own ct status dnat accept"""


def nft(text):
    subprocess.run(["nft", text], check=True)


def answer(request, host, outside):
    """The response to a request of `host`; None: not one."""
    if len(request) == 2 and request[1] == 0:
        return struct.pack("!BBHI4s", 0, 128, 0, 1, socket.inet_aton(outside))
    if len(request) == 12 and request[1] == 2:
        _, _, _, inside, _, lifetime = struct.unpack("!BBHHHI", request)
        if lifetime > 0:
            nft(f"add rule ip home mapped iifname wan tcp dport {inside} dnat to {host}:{inside}")
        else:
            nft("flush chain ip home mapped")
        return struct.pack("!BBHIHHI", 0, 130, 0, 1, inside, inside, lifetime)
    return None


def main():
    nft(CHAINS)
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("0.0.0.0", PORT))
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([server, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        request, sender = server.recvfrom(64)
        response = answer(request, sender[0], sys.argv[1])
        if response:
            server.sendto(response, sender)


if __name__ == "__main__":
    main()
