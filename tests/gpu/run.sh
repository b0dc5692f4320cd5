#!/usr/bin/env bash
# Everything that only a machine with a GPU can tell, in one command: run.sh --help.
exec python3 -B "$(dirname "$(readlink -f "$0")")/gpu_run.py" "$@"
