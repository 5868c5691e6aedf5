#!/bin/sh
# Every C file is as clang-format of release $1 writes it; exit 77 where only another one is there.
set -eu
want=${1:?release}
cd "$(dirname "$0")/.."
formatter=clang-format-$want
command -v "$formatter" >/dev/null 2>&1 || formatter=clang-format
if ! version=$("$formatter" --version); then
	echo "no clang-format here"
	exit 1
fi
case $version in
*"version $want."*) ;;
*)
	echo "skipped: $version, not release $want"
	exit 77
	;;
esac
# without git (a tarball) it is every file in the tree
{ git ls-files -z '*.c' '*.h' 2>/dev/null ||
	find . -path './build*' -prune -o -name '*.[ch]' -print0; } |
	xargs -0 "$formatter" --dry-run -Werror 2>&1 | sed -n '/ error: /p' | {
	if grep .; then exit 1; else exit 0; fi
}
