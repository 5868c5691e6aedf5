#!/bin/sh
# Lay build/bin, build/lib and build/sim out from Meson's build tree, so that programs run from the
# build folder exactly as they do installed.  Hard links: /proc/self/exe then names build/bin/….
set -eu
b=${1:?build folder}
place() { # FROM TO
	[ -e "$b/$1" ] || return 0
	mkdir -p "$b/$(dirname "$2")"
	ln -f "$b/$1" "$b/$2" 2>/dev/null || cp -f "$b/$1" "$b/$2"
}
place src/cli/allot bin/allot
place src/daemon/allotd bin/allotd
place src/daemon/allot-sampler bin/allot-sampler
place src/daemon/allot-probe bin/allot-probe
place src/keeper/allot-keeper bin/allot-keeper
place src/shim/liballot-cuda.so lib/liballot-cuda.so
place src/shim/liballot-nvml.so lib/liballot-nvml.so
