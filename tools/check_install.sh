#!/bin/bash
# Is what `make install` laid down under STAGE whole, out of the loader's way, and does it run jobs?
#
#   tools/check_install.sh STAGE PROGRAM      PROGRAM: a CUDA program that wants more than 2 GiB
#
# The programs find each other from where they lie, so the tree runs in the staging folder, too.
set -u
stage=$(cd "${1:?staging folder}" && pwd)
program=${2:?a program}
bad=0
fail() {
	echo "$*"
	bad=1
}

allot=$(find "$stage" -path '*/bin/allot' -type f)
[ -n "$allot" ] || { echo "no bin/allot under $stage"; exit 1; }
prefix=${allot%/bin/allot}
version=$("$allot" version 2>/dev/null | sed -n '1s/^allot \([0-9.]*\).*/\1/p')

for f in bin/allot bin/allotd libexec/allot/allot-keeper libexec/allot/allot-sampler \
	libexec/allot/allot-probe \
	"lib/allot/liballot-cuda.so.$version" "lib/allot/liballot-nvml.so.$version" \
	lib/allot/sim/libcuda.so.1 lib/allot/sim/libnvidia-ml.so.1 \
	share/bash-completion/completions/allot share/zsh/site-functions/_allot \
	share/fish/vendor_completions.d/allot.fish \
	lib/allot/sim/profiles/{h200,h200x2,rtx6000ada,small4g,four,mig}.conf; do
	[ -f "$prefix/$f" ] || fail "missing: $f"
done
for f in liballot-cuda liballot-nvml; do
	[ "$(readlink "$prefix/lib/allot/$f.so")" = "$f.so.$version" ] || fail "$f.so is no link to its version"
done
if command -v scdoc >/dev/null 2>&1; then
	for f in man1/allot.1 man5/allot.yaml.5 man8/allotd.8; do
		[ -s "$prefix/share/man/$f" ] || fail "missing: share/man/$f"
	done
fi
strays=$(find "$stage" -name 'lib*' ! -type d ! -path '*/lib/allot/*')
[ -z "$strays" ] || fail "in the loader's way: $strays"
[ $bad = 0 ] || exit 1

dir=$(mktemp -d "${TMPDIR:-/tmp}/allot-install.XXXXXX")
export ALLOT_SOCKET=$dir/s HOME=$dir XDG_RUNTIME_DIR=$dir
daemon=
stop() {
	[ -z "$daemon" ] || { kill "$daemon" 2>/dev/null; wait "$daemon" 2>/dev/null; }
	rm -rf "$dir"
}
trap stop EXIT
"$prefix/bin/allotd" --foreground --sim=h200 --socket "$ALLOT_SOCKET" --state "$dir/state" 2>"$dir/log" &
daemon=$!
for _ in $(seq 100); do
	"$allot" status >/dev/null 2>&1 && break
	sleep 0.1
done
"$allot" status >/dev/null || { cat "$dir/log"; fail "the installed allotd does not answer"; }

# a job sees its part, from the installed libraries, under their versioned names
preload=$("$allot" run --vram 2G -- sh -c 'echo "$LD_PRELOAD"')
[ "$preload" = "$prefix/lib/allot/liballot-cuda.so.$version:$prefix/lib/allot/liballot-nvml.so.$version" ] ||
	fail "a job's preload is '$preload'"
said=$("$allot" run --vram 2G -- "$program" greedy 0 2>&1) || fail "a job ended with $?: $said"
case $said in
*"out of memory"*"2.0 GiB limit"*) ;;
*) fail "nothing was refused: $said" ;;
esac
exit $bad
