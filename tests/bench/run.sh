#!/bin/sh
# allot's own costs beside the bare driver and the machine's floors.  Usage: run.sh BUILD [options]
set -eu
exec python3 "$(dirname "$0")/bench.py" "$@"
