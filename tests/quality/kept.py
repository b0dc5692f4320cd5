"""Rows of docs/quality/results.json: which of them may still be shown."""

import json

from checks import Results
from rows import ROWS

# Of rows that say nothing of versions.
FIRST_VERSIONS = {"bench": 2}


def spec_of(row):
    """What names a row in results.json, and what it trained."""
    return {"setup": row.setup, "name": row.name, "forward": row.forward,
            "backward": row.backward,
            "firstEpochBackward": row.first_epoch_backward or row.backward, "m": row.m,
            "firstVisit": row.first_visit, "replica": row.replica,
            **({"more": row.more} if row.more else {})}


def _why_not(row, kept, fresh):
    """Why a kept row of that name may not be shown; empty if it may."""
    spec = spec_of(row)
    if any(kept.get(key) != value for key, value in {"more": None, **spec}.items()):
        return "the row is trained with other options now"
    made = kept.get("versions", FIRST_VERSIONS)
    for name, version in row.versions().items():
        if made.get(name, 1) != version:
            return f"made by version {made.get(name, 1)} of {name}; it is at {version}"
    for (setup, _), runs in fresh.runs.items():
        for run in runs.values():
            if setup == row.setup and run["heldOutBefore"] != kept["heldOutBefore"]:
                return "it started from another base model than the rows measured since"
    return ""


def kept_rows(path, fresh):
    """`fresh`, with the rows of results.json beside them that would come out the same; and a line
    for each that is left out."""
    shown, refused = Results(), []
    for (setup, name), runs in fresh.runs.items():
        shown.runs[setup, name] = dict(runs)
    document = json.loads(path.read_text()) if path.exists() else {"rows": []}
    rows = {(row.setup, row.name): row for row in ROWS}
    for kept in document["rows"]:
        key, seed = (kept["setup"], kept["name"]), kept["seed"]
        row = rows.get(key)
        if seed in fresh.seeds(*key):
            continue
        label = f"{key[0]}: {key[1]}, seed {seed}: "
        if row is None or seed not in row.seeds:
            refused.append(label + "the bench has no such row")
            continue
        why = _why_not(row, kept, fresh)
        if why:
            refused.append(label + why)
            continue
        figures = {name: value for name, value in kept.items()
                   if name not in (*spec_of(row), "more", "seed", "versions", "wireBytes")}
        shown.add(row, seed, {"machine": document.get("machine"), **figures})
    return shown, refused
