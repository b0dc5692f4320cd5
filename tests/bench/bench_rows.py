"""Rows of a bench, each a dict: as cells of a table, and all of them as JSON."""

import json
import os
import platform


def cells(columns, row):
    """Texts of the columns, pairs of a name and a function of the row; "-": not measured."""
    def cell(make):
        try:
            return make(row)
        except TypeError:
            return "-"
    return [cell(make) for _, make in columns]


def print_json(rows, **more):
    machine = {"processors": os.cpu_count(), "kernel": platform.release()}
    print(json.dumps({"schemaVersion": 1, "machine": machine, "rows": rows, **more}, indent=1))
