#!/bin/sh
# The tests that need a real GPU.  Usage: tests/gpu/run.sh BUILD [CASE...]
set -eu
exec python3 "$(dirname "$0")/gpu_check.py" "$@"
