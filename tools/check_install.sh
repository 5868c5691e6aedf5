#!/bin/sh
# What `make install` laid down: everything is there, and ldconfig's folders have no shim in them.
set -eu
stage=${1:?staging folder}
prefix=$(find "$stage" -type d -name bin -path '*bin' | head -n 1)
prefix=${prefix%/bin}
bad=0
for f in bin/allot bin/allotd libexec/allot/allot-keeper libexec/allot/allot-sampler \
	lib/allot/liballot-cuda.so lib/allot/liballot-nvml.so; do
	[ -e "$prefix/$f" ] || { echo "missing: $f"; bad=1; }
done
strays=$(find "$stage" -name 'libcuda.so*' ! -path '*/allot/*'; find "$stage" -name 'liballot*' ! -path '*/lib/allot/*')
[ -z "$strays" ] || { echo "in the loader's way: $strays"; bad=1; }
"$prefix/bin/allot" --help >/dev/null || bad=1
exit $bad
