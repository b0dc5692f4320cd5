#!/usr/bin/env python3
"""A swarm of two stages that share the one device, over a line of 100 Mbit/s each way: the time of
a step against the simulation's, and what the device did. Prints JSON.

Arguments: the device, and the library of kernel_clock.cc or "-". Environment as harness.py; root.
"""

import contextlib
import itertools
import json
import shutil
import statistics
import sys
from pathlib import Path

import harness
import namespaces
from swarm import Swarm

LINE = 100_000_000
MICRO_BATCHES = 16
EPOCH_STEPS = 2  # from then on samples are visited again
WARMUP, STEPS = 4, 8
# Of a packet of 1514 bytes 66 are headers; TLS, HTTP/2 and gRPC add 0.35 %.
BYTES_ON_LINE = 1514 / 1448 * 1.0035
# As GPT2-XL, but with fewer layers, so that it is loaded soon; the ends do not share a matrix.
XL = {"n_embd": 1600, "n_head": 25, "n_layer": 4, "n_positions": 1024, "n_ctx": 1024}
SMALL = {"n_embd": 256, "n_head": 4, "n_layer": 4, "n_positions": 128, "n_ctx": 128}


def make_model(folder, sizes):
    source = harness.EXAMPLES / "tiny-gpt2"
    config = json.loads((source / "config.json").read_text())
    made = folder / "config"
    shutil.copytree(source, made)
    (made / "config.json").write_text(
        json.dumps({**config, **sizes, "tie_word_embeddings": False}))
    harness.run("shoal-run", "init-model", "--config", made / "config.json", "--out",
                folder / "model", "--seed", 1, timeout=120)
    return folder / "model"


def make_data(folder, model, row):
    """At least as many rows as EPOCH_STEPS steps take, and not many more."""
    wanted = MICRO_BATCHES * EPOCH_STEPS
    text = folder / "text.txt"
    whole = (harness.EXAMPLES / "tinyshakespeare.txt").read_text()
    for factor in (2.0, 2.5, 3.0, 4.0):  # bytes of a token
        text.write_text(whole[:int(row * (wanted + 1) * factor)])
        data = folder / f"data-{factor}.shoal"
        said = harness.run_json("shoal-run", "prepare", "--tokenizer", model, "--text", text,
                                "--row", row, "--validation-fraction", 0, "--out", data, "--json")
        if said["trainRows"] >= wanted:
            return data
    raise AssertionError("the text has too few rows")


def events(path):
    return json.loads(Path(path).read_text())["traceEvents"]


def store_ms(traces):
    """Median and largest milliseconds of what the store did for a step or a micro-batch."""
    took = {"delta.committed": [], "delta.prefetched": []}
    for event in itertools.chain.from_iterable(events(trace) for trace in traces):
        if event["name"] in took:
            took[event["name"]].append(event["dur"] / 1e3)
    return {name: {"median": statistics.median(all_ms), "most": max(all_ms)}
            for name, all_ms in took.items() if all_ms}


def spans(path):
    """(step, micro-batch) -> milliseconds by event, of the spans of compute."""
    found = {}
    for event in events(path):
        if event["name"] in ("mb.forward", "mb.backward", "mb.weights"):
            of = found.setdefault((event["args"]["step"], event["args"]["mb"]), {})
            of[event["name"]] = of.get(event["name"], 0) + event["dur"] / 1e3
    return found


def compute_ms(traces):
    """Forward, backward input and backward weights of a micro-batch: the stages' mean of medians.
    Both share the device: what one waits there for the other is in its times and in the bound."""
    medians = {}
    for name in ("mb.forward", "mb.backward", "mb.weights"):
        medians[name] = statistics.mean(
            statistics.median(of.get(name, 0) for of in spans(trace).values()) for trace in traces)
    return medians["mb.forward"], medians["mb.backward"], medians["mb.weights"]


def simulate(compute, forward_bytes, backward_bytes, factor=1.0):
    forward, backward, weights = compute
    return harness.run_json(
        "shoald", "simulate", "--stages", 2, "--micro-batches", MICRO_BATCHES, "--schedule",
        "zero-bubble", "--forward-ms", forward, "--backward-ms", backward + weights, "--weight-ms",
        weights, "--link-bps", LINE, "--forward-bytes", forward_bytes * factor, "--backward-bytes",
        backward_bytes * factor)["stepSeconds"]


def sent(swarm, way):
    return sum(status["traffic"][way]["wireSentBytes"] for status in swarm.peer_statuses().values())


def measure(folder, device, clock, stack):
    dry = device == "cpu"
    sizes = SMALL if dry else XL
    model = make_model(folder, sizes)
    data = make_data(folder, model, sizes["n_positions"])
    a, b = (stack.enter_context(namespaces.Namespace(name)) for name in "ab")
    namespaces.connect(a, b)
    for machine in (a, b):
        namespaces.slow_down(machine, f"{LINE}bit", burst="64kb", latency="50ms")
    swarm = stack.enter_context(Swarm(
        folder / "s", stages=2, pipelines=1, prefix=a.prefix, steps=100_000, model=model, data=data,
        checkpoint_every=100_000, micro_batches=MICRO_BATCHES, rows=1,
        compute="fp32" if dry else "bf16", forward="aqsgd:bits=4", backward="direct:bits=8",
        schedule={"kind": "zero-bubble"},
        network={"listen": "10.77.0.1:0", "advertise": ["10.77.0.1"]}))
    swarm.start_scheduler()
    for number, (name, machine) in enumerate((("p0", a), ("p1", b)), 1):
        address = f"10.77.0.{number}"
        env = {} if clock == "-" else {"CUDA_INJECTION64_PATH": clock,
                                       "SHOAL_KERNEL_CLOCK": str(folder / f"{name}.clock")}
        swarm.start_peer(name, "--trace", folder / f"{name}.trace", listen=f"{address}:0",
                         advertise=address, prefix=machine.prefix, device=device, env=env)
    first = swarm.wait_step(WARMUP, 120)["step"]
    bytes_before = [sent(swarm, way) for way in ("forward", "backward")]
    before = swarm.run()["step"]
    run = swarm.wait_step(first + STEPS, 120)
    steps = run["lastStepSeconds"][-STEPS + 1:]  # of the oldest a part was before
    bytes_after = [sent(swarm, way) for way in ("forward", "backward")]
    after = swarm.run()["step"]
    names = {name: swarm.peer_status(name)["device"] for name in swarm.peers}
    for daemon in swarm.peers.values():
        daemon.signal(15)
    for daemon in swarm.peers.values():
        daemon.wait(60)
    micro_batches = (after - before) * MICRO_BATCHES
    per_message = [(y - x) / micro_batches for x, y in zip(bytes_before, bytes_after)]
    traces = [folder / f"{name}.trace" for name in ("p0", "p1")]
    compute = compute_ms(traces)
    clocks = [json.loads(path.read_text()) for path in sorted(folder.glob("*.clock"))]
    return {"schemaVersion": 1, "devices": names, "lineBps": LINE, "microBatches": MICRO_BATCHES,
            "shape": sizes, "stepSeconds": statistics.median(steps), "steps": steps,
            "forwardMs": compute[0], "backwardInputMs": compute[1], "backwardWeightsMs": compute[2],
            "wireBytesForward": per_message[0], "wireBytesBackward": per_message[1],
            "boundSeconds": simulate(compute, *per_message),
            "lineBoundSeconds": simulate(compute, *per_message, BYTES_ON_LINE),
            "storeMs": store_ms(traces), "kernelClocks": clocks,
            **({} if clocks else {"clockError": clock_error(clock)})}


def clock_error(clock):
    if clock == "-":
        return "the build has none (a build without CUDA, or without CUPTI)"
    return "the peers wrote no times"


def main():
    if not harness.is_root() or not namespaces.possible():
        print("the swarm's lines take root and network namespaces", file=sys.stderr)
        return harness.PERMISSION
    device, clock = sys.argv[1:]
    with harness.Folder() as folder, contextlib.ExitStack() as stack:
        print(json.dumps(measure(folder, device, clock, stack), indent=1))
    return harness.OK


if __name__ == "__main__":
    sys.exit(main())
