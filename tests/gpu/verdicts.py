"""What the figures of a run on a GPU say: each against its bound, as JSON and as a table.

A figure that was not taken falls short as well: a verdict is "ok", "short" or "not measured".
"""

import dataclasses

OK, SHORT, NOT_MEASURED = "ok", "short", "not measured"

KERNEL_BITS = (2, 3, 4, 6, 8)
BUCKET = 160
KERNEL_LEAST = 0.6  # of the rate of a copy on the device
DITHERED = ("dithered:step=1", "dithered:rate=2")
DITHERED_LEAST = 0.25
STAGE_ROWS = tuple((shape, rows, training)
                   for shape, rows in (("gpt2-xl", 1), ("gpt2-xl", 4), ("llama-3-8b", 1))
                   for training in ("full", "lora"))
TINY_ROWS = tuple((shape, rows, training) for shape, rows in (("tiny-gpt2", 2), ("tiny-llama", 1))
                  for training in ("full", "lora"))
STAGE_LEAST = 0.95  # of PyTorch's tokens per second
SWARM_LEAST = 0.95  # of the steps per second of the simulation
CODECS_MOST = 0.03  # of the time of all kernels

# Of the tests of model/: what a case is about, by the end of its name.
STAGE_CASES = {"logits and gradients": ("ComputesWhatTransformersDoes", "ComputesWhatPeftDoes"),
               "three AdamW steps": ("MakesTheStepsOfPyTorch",)}


@dataclasses.dataclass
class Check:
    """`value` None: not measured, for the reason `note`."""
    part: str
    what: str
    value: float | None
    bound: float
    at_most: bool = False
    note: str = ""

    @property
    def verdict(self):
        if self.value is None:
            return NOT_MEASURED
        holds = self.value <= self.bound if self.at_most else self.value >= self.bound
        return OK if holds else SHORT

    def as_json(self):
        return {"part": self.part, "what": self.what, "value": self.value,
                "atMost" if self.at_most else "atLeast": self.bound, "verdict": self.verdict,
                **({"note": self.note} if self.note else {})}


def missing(part):
    """Why a part has no figures."""
    return part.get("error") or "it was not run"


def cases(part):
    """(program, suite, case, outcome) of all test cases; outcome "passed", "failed", "skipped"."""
    for program, said in part.get("programs", {}).items():
        for suite in said.get("testsuites", []):
            for case in suite.get("testsuite", []):
                outcome = "passed"
                if case.get("failures"):
                    outcome = "failed"
                elif case.get("result") != "COMPLETED":
                    outcome = "skipped"
                yield program, suite["name"], case["name"], outcome


def share(outcomes):
    """Cases that passed over all, None if there are none; and a note about the others."""
    outcomes = list(outcomes)
    if not outcomes:
        return None, "no such test ran"
    passed = sum(outcome == "passed" for *_, outcome in outcomes)
    others = [f"{suite}.{case} {outcome}" for _, suite, case, outcome in outcomes
              if outcome != "passed"]
    note = f"{passed} of {len(outcomes)} cases" + (": " + ", ".join(others[:3]) if others else "")
    return passed / len(outcomes), note


def equality_checks(part, device):
    found = list(cases(part))
    place = "Lanes/" if device == "cpu" else "Gpu/"
    groups = {"codecs, every width and shape of the unit tests":
              [c for c in found if c[0].startswith("compression_") and c[1].startswith(place)]}
    for what, names in STAGE_CASES.items():
        groups["a stage: " + what] = [c for c in found if c[0].startswith("model_")
                                      and c[2].split("/")[0] in names]
    groups["a stage: all other cases"] = [c for c in found if c[0].startswith("model_")
                                          and not any(c in g for g in groups.values())]
    made = []
    for what, outcomes in groups.items():
        value, note = share(outcomes) if found else (None, missing(part))
        made.append(Check("equality", what, value, 1.0, note=note))
    # A program that died says nothing about the cases that it did not come to.
    if part.get("error") and found:
        made.append(Check("equality", "all programs ended", None, 1.0, note=part["error"]))
    return made


def kernel_checks(part):
    rows = {row["codec"]: row for row in part.get("rows", [])}
    wanted = [(f"{codec}:bits={bits},bucket={BUCKET}", KERNEL_LEAST)
              for codec in ("direct", "aqsgd") for bits in KERNEL_BITS]
    wanted += [(spec, DITHERED_LEAST) for spec in DITHERED]
    copy = part.get("copyBytesPerSecond")
    made = []
    for spec, least in wanted:
        for way in ("encode", "decode"):
            value = rows.get(spec, {}).get(way + "OfCopy")
            note = missing(part) if value is None else \
                f"{value * copy / 1e9:.0f} GB/s" if copy else ""
            made.append(Check("kernels", f"{way}, {spec}", value, least, note=note))
    return made


def stage_checks(part, wanted=STAGE_ROWS):
    def by_key(rows):
        return {(r["shape"], r["rows"], r["training"]): r["tokensPerSecond"] for r in rows}
    ours, theirs = by_key(part.get("rows", [])), by_key(part.get("pytorch", {}).get("rows", []))
    made = []
    for key in wanted:
        name = f"{key[0]}, {key[1]} row{'s' if key[1] > 1 else ''}, {key[2]}"
        value = None
        if key not in ours:
            note = missing(part)
        elif key not in theirs:
            why = part.get("pytorch", {}).get("error", "no PyTorch")
            note = f"{ours[key]:,.0f} tokens/s; {why}"
        else:
            value = ours[key] / theirs[key]
            note = f"{ours[key]:,.0f} of {theirs[key]:,.0f} tokens/s"
        made.append(Check("stage", name, value, STAGE_LEAST, note=note))
    return made


def swarm_checks(part):
    step, bound = part.get("stepSeconds"), part.get("lineBoundSeconds")
    if step and bound:
        made = [Check("swarm", "a step against its bound", bound / step, SWARM_LEAST,
                      note=f"{step:.3f} s, simulated {bound:.3f} s with the line's headers")]
    else:
        made = [Check("swarm", "a step against its bound", None, SWARM_LEAST, note=missing(part))]
    clocks = part.get("kernelClocks", [])
    codecs = sum(c["codecMilliseconds"] for c in clocks)
    everything = sum(c["milliseconds"] for c in clocks)
    value, note = None, "no kernel clock: " + (part.get("clockError") or missing(part))
    if clocks and not any(c["codecKernels"] for c in clocks):
        note = "no codec ran on the GPU: peers encode and decode on the CPU"
    elif clocks and everything > 0:
        value, note = codecs / everything, f"{codecs:.1f} of {everything:.1f} ms of kernels"
    made.append(Check("swarm", "codecs' share of the GPU's time", value, CODECS_MOST, at_most=True,
                      note=note))
    return made


def checks(parts, device):
    """Of the parts "equality", "kernels", "stage" and "swarm", each a dict as its program gave it,
    with "error" where it failed."""
    return [*equality_checks(parts.get("equality", {}), device),
            *kernel_checks(parts.get("kernels", {})),
            *stage_checks(parts.get("stage", {}), TINY_ROWS if device == "cpu" else STAGE_ROWS),
            *swarm_checks(parts.get("swarm", {}))]


def held(made):
    return all(check.verdict == OK for check in made)


def table(report):
    """Text of a report as `as_report` makes it."""
    lines = [report["title"], ""]
    widths = (9, 50, 8, 9, 13)
    head = ("part", "what", "value", "bound", "verdict")
    lines.append("".join(f"{text:<{width}}" for text, width in zip(head, widths)) + "note")
    for check in report["checks"]:
        value = "-" if check["value"] is None else f"{check['value']:.3f}"
        most = check.get("atMost")
        bound = f">= {check['atLeast']:g}" if most is None else f"<= {most:g}"
        cells = (check["part"], check["what"], value, bound, check["verdict"])
        lines.append("".join(f"{text:<{width}}" for text, width in zip(cells, widths)) +
                     check.get("note", "").replace("\n", " "))
    short = sum(check["verdict"] != OK for check in report["checks"])
    total = len(report["checks"])
    lines += ["", f"{short} of {total} fall short" if short else f"all {total} hold"]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def as_report(parts, device, gpu, seconds):
    """`gpu`: the card's name, None in a dry run on the CPU."""
    made = checks(parts, device)
    title = f"On {gpu}, {seconds:.0f} s" if gpu else \
        f"DRY RUN, the CPU in the place of a GPU: no figure is about a GPU; {seconds:.0f} s"
    return {"schemaVersion": 1, "title": title, "dryRun": gpu is None, "device": gpu or "cpu",
            "seconds": round(seconds, 1), "held": held(made),
            "checks": [check.as_json() for check in made], "parts": parts}
