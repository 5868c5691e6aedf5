#!/bin/bash
# Collect what was built into one folder that runs on a machine without our libraries' packages:
# programs, shims, simulator, the GPU tests and benchmarks, and in rt/ the libraries they need.
#
#   tools/bundle.sh BUILD DIR       then there: tests/gpu/run.sh DIR
#
# Needs patchelf.  Only allot's own programs get the search path: what they start never sees it.
set -eu
build=$(cd "${1:?build folder}" && pwd)
dir=${2:?target folder}
rm -rf "$dir"
mkdir -p "$dir"/{bin,lib,sim,demo,rt,tests/bench,tests/conformance,tests/programs}
cp -L "$build"/bin/* "$dir/bin/"
cp -L "$build"/lib/* "$dir/lib/"
cp -L "$build"/sim/lib*.so.1 "$dir/sim/"
cp -L "$build"/demo/standin "$dir/demo/"
for kind in bench conformance programs; do
	for f in "$build/tests/$kind"/*; do
		[ -f "$f" ] && [ -x "$f" ] && cp -L "$f" "$dir/tests/$kind/"
	done
done
cp -r "$(dirname "$0")/../sim/profiles" "$dir/sim/profiles"
for f in "$dir"/bin/*; do
	ldd "$f" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
		grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so' |
		while read -r lib; do cp -nL "$lib" "$dir/rt/"; done
	patchelf --set-rpath '$ORIGIN/../rt' "$f"
done
for f in "$dir"/rt/*; do patchelf --set-rpath '$ORIGIN' "$f"; done
find "$dir" -type f \( -perm -u+x -o -name '*.so*' \) -exec strip --strip-unneeded {} + 2>/dev/null || true
du -sh "$dir" | cut -f1
