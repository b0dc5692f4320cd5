#!/usr/bin/env python3
"""Runs what only a machine with a GPU can tell and judges it (verdicts.py): run.sh.

Needs nothing beyond Python's standard library; for the comparison with PyTorch an interpreter with
torch and transformers (--python). Root, for the swarm's lines.
"""

import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import verdicts

SOURCE = Path(__file__).resolve().parents[2]
HELD, SHORT, USAGE = 0, 1, 2

MODEL_TESTS = ("model_families_test", "model_adapters_test", "model_segments_test",
               "model_attention_core_test", "model_values_on_device_test")
CODEC_TESTS = ("compression_device_codec_test", "compression_device_dither_test")
PROGRAMS = ("shoal", "shoald", "shoal-scheduler", "shoal-run")
# Seconds of a part at most, in this order: 525 of the 540 together.
LIMITS = {"equality": 150, "kernels": 75, "stage": 150, "swarm": 150}


def gpu_name():
    """Of the first GPU, by the driver; and why there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, "there is no NVIDIA driver (libcuda.so.1)"
    count, name = ctypes.c_int(0), ctypes.create_string_buffer(256)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return None, "the NVIDIA driver finds no GPU"
    if count.value == 0 or driver.cuDeviceGetName(name, len(name), 0) != 0:
        return None, "the NVIDIA driver finds no GPU"
    return name.value.decode(errors="replace"), None


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def run(command, seconds, **environment):
    """Standard output, and why the program failed or None. It is killed after `seconds`."""
    if seconds < 1:
        return "", "no time was left"
    name = Path(str(command[0])).name
    try:
        with subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                              start_new_session=True,
                              env={**os.environ, **environment}) as process:
            try:
                output, said = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return "", f"{name} took longer than {seconds:.0f} s"
    except OSError as error:
        return "", f"{name} does not start: {error.strerror}"
    if process.returncode != 0:
        return output, f"{name} ended with {process.returncode}: {last_line(said)}"
    return output, None


def run_json(command, seconds, **environment):
    """The object that the program printed, with "error" where it failed."""
    output, error = run(command, seconds, **environment)
    try:
        made = json.loads(output) if output.strip() else {}
    except ValueError:
        made, error = {}, error or f"{Path(str(command[0])).name} printed no JSON"
    if error:
        made["error"] = error
    return made


class Course:
    """The parts, each a method that gives a dict and takes no longer than `seconds`."""

    def __init__(self, arguments):
        self.device, self.build = arguments.device, arguments.build  # None: not built yet
        self.dry = arguments.device == "cpu"
        self.python = arguments.python

    def test_environment(self):
        return {"SHOAL_TEST_DATA": str(SOURCE / "tests/data"), "SHOAL_SOURCE_DIR": str(SOURCE),
                "SHOAL_SHARED_DATA": str(SOURCE.parent / "shared/data"),
                "SHOAL_BIN": str(self.build / "bin"), "SHOAL_TEST_DEVICE": self.device}

    def equality(self, seconds):
        """Unit tests: codecs against the CPU's bytes, models against what was computed on a CPU."""
        deadline, part = time.monotonic() + seconds, {"programs": {}}
        errors = []
        with tempfile.TemporaryDirectory(prefix="shoal-gpu-") as folder:
            for name in CODEC_TESTS + MODEL_TESTS:
                report = Path(folder, name + ".json")
                _, error = run([self.build / "tests" / name, f"--gtest_output=json:{report}"],
                               deadline - time.monotonic(), **self.test_environment())
                if report.exists():  # failed cases are in it
                    part["programs"][name] = brief(json.loads(report.read_text()))
                elif error:
                    errors.append(error)
        if errors:
            part["error"] = "; ".join(errors)
        return part

    def kernels(self, seconds):
        if not self.dry:
            return run_json([self.build / "bench/device_codec_bench", "--json"], seconds)
        # The CPU's codecs, against a pass of sums in place of a copy; their buckets are others.
        part = {"rows": []}
        for codec in ("direct:bits", "aqsgd:bits", "dithered:step=1"):
            found = run_json([self.build / "bench/codecs_bench", "--json", "--filter", codec],
                             seconds / 3)
            # Its exit code is of its own bounds.
            if "error" in found and not found.get("rows"):
                part["error"] = found["error"]
            part["rows"] += [
                {"codec": row["codec"] + (f",bucket={verdicts.BUCKET}" if "bits" in codec else ""),
                 "encodeOfCopy": row["encodeOverSum"], "decodeOfCopy": row["decodeOverSum"]}
                for row in found.get("rows", [])]
        return part

    def stage(self, seconds):
        tiny = ["--tiny"] if self.dry else []
        part = run_json([self.build / "bench/device_stage_bench", "--json", "--device", self.device,
                         *tiny], seconds * 0.6)
        part["pytorch"] = run_json([self.python, "-B", SOURCE / "tests/bench/torch_stage.py",
                                    self.device, *(["tiny"] if self.dry else [])], seconds * 0.4)
        return part

    def swarm(self, seconds):
        clock = self.build / "gpu/libshoal_kernel_clock.so"
        return run_json([sys.executable, "-B", SOURCE / "tests/gpu/gpu_swarm.py", self.device,
                         clock if clock.exists() else "-"], seconds, **self.test_environment(),
                        PYTHONPATH=f"{SOURCE}/tests/integration:{SOURCE}/tests/wan")

    def targets(self):
        benches = ["codecs_bench"] if self.dry else ["device_codec_bench", "shoal_kernel_clock"]
        return [*PROGRAMS, *CODEC_TESTS, *MODEL_TESTS, "device_stage_bench", *benches]


def brief(said):
    """What verdicts.py reads of GoogleTest's JSON."""
    return {"testsuites": [
        {"name": suite["name"],
         "testsuite": [{key: case[key] for key in ("name", "result", "failures") if key in case}
                       for case in suite["testsuite"]]}
        for suite in said["testsuites"]]}


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="tests/gpu/run.sh", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="On a machine with an NVIDIA GPU: whether codecs and stages compute there what "
                    "they compute\non the CPU, how fast kernels, a stage and a swarm of two stages "
                    "are. Builds what it needs,\nthen takes less than nine minutes.",
        epilog="Exit code: 0 all bounds hold; 1 something fell short or was not measured; "
               "2 wrong usage.")
    parser.add_argument("out", metavar="OUT", type=Path,
                        help="folder for report.json and report.txt; made if need be")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda",
                        help="cpu: a dry run with small shapes, to try all but the GPU")
    parser.add_argument("--build", metavar="FOLDER", type=Path,
                        help="programs that are built already; otherwise ./x builds them")
    parser.add_argument("--python", default=sys.executable,
                        help="interpreter with torch and transformers (default: this one)")
    parser.add_argument("--seconds", type=int, default=540,
                        help="time for everything but building; parts beyond it are not measured")
    return parser.parse_args(arguments)


def build(course):
    preset = "release" if course.dry else "cuda"
    course.build = SOURCE / "build" / preset
    done = subprocess.run([str(SOURCE / "x"), "build", preset, *course.targets()], check=False)
    return done.returncode == 0


def write(path, text):
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text)
    temporary.rename(path)


def main(given=None):
    arguments = parse(given)
    gpu = None
    if arguments.device == "cuda":
        gpu, why = gpu_name()
        if gpu is None:
            print(f"run.sh: no GPU: {why}; --device cpu tries all but the GPU", file=sys.stderr)
            return SHORT
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"run.sh: {arguments.out}: {error.strerror}; name another folder", file=sys.stderr)
        return USAGE
    course = Course(arguments)
    if course.build is None and not build(course):
        print("run.sh: the build failed (see above)", file=sys.stderr)
        return SHORT
    course.build = course.build.resolve()
    start, parts = time.monotonic(), {}
    for name, limit in LIMITS.items():
        left = arguments.seconds - (time.monotonic() - start)
        print(f"== {name}, at most {min(limit, max(0, left)):.0f} s", file=sys.stderr)
        parts[name] = getattr(course, name)(min(limit, left))
    report = verdicts.as_report(parts, arguments.device, gpu, time.monotonic() - start)
    write(arguments.out / "report.json", json.dumps(report, indent=1) + "\n")
    write(arguments.out / "report.txt", verdicts.table(report))
    print(verdicts.table(report), end="")
    return HELD if report["held"] else SHORT


if __name__ == "__main__":
    sys.exit(main())
