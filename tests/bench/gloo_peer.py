"""A member of a group of PyTorch's gloo, as the outside reference of replica_bench.py: what
replica_peer.cc answers to "prepare", "run", "check", "drop" and "leave", for the sum of fp32
vectors.

gloo_peer.py RANK MEMBERS ADDRESS_OF_MEMBER_0 DEVICE"""

import ctypes
import json
import os
import resource
import sys
import time
import zlib

os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # addresses without names are no news
import torch  # noqa: E402
import torch.distributed as group  # noqa: E402

PORT = 29500


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def answer(what):
    print(json.dumps(what), flush=True)


def run(vector, rounds):
    cpu, begin = cpu_seconds(), time.monotonic_ns()
    for _ in range(rounds):
        group.all_reduce(vector)
    end = time.monotonic_ns()
    answer({"begin": begin, "end": end, "cpuSeconds": cpu_seconds() - cpu,
            "peakBytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024})


def main():
    rank, members, address, device = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    os.environ["GLOO_SOCKET_IFNAME"] = device
    torch.set_num_threads(1)
    group.init_process_group("gloo", init_method=f"tcp://{address}:{PORT}", rank=rank,
                             world_size=members)
    answer({"version": torch.__version__})
    vector = None
    for line in sys.stdin:
        command = json.loads(line)
        if "prepare" in command:
            # Powers of two, which repeated sums leave exact.
            vector = torch.full((command["prepare"]["values"],), 2.0 ** -(100 + rank % 4))
            answer({"prepared": True})
        if "run" in command:
            run(vector, command["run"])
        if "check" in command:
            data = (ctypes.c_char * (4 * vector.numel())).from_address(vector.data_ptr())
            answer({"hash": zlib.crc32(data)})
        if "drop" in command:
            vector = None
            answer({"dropped": True})
        if "leave" in command:
            answer({"left": True})
    group.destroy_process_group()


if __name__ == "__main__":
    main()
