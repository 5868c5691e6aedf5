#!/bin/sh
# Install what building (and, with "check", testing) needs, by apt on Debian 12/13 and Ubuntu 24.04.
# Says what it installs; does nothing when all is there; elsewhere names what is missing.
set -eu
what=${1:-build}
missing=

have_cmd() { command -v "$1" >/dev/null 2>&1; }
have_lib() { have_cmd pkg-config && pkg-config --exists "$1"; }
need_cmd() { have_cmd "$1" || missing="$missing $2"; }
need_lib() { have_lib "$1" || missing="$missing $2"; }

need_cmd cc gcc
[ -e /usr/include/errno.h ] || [ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"
need_cmd meson meson
need_cmd ninja ninja-build
need_cmd pkg-config pkg-config
need_cmd python3 python3
need_lib libsystemd libsystemd-dev
need_lib sqlite3 libsqlite3-dev
need_lib jansson libjansson-dev
if [ "$what" = check ]; then
	need_lib cmocka libcmocka-dev
	need_cmd clang clang
	need_cmd clang-format clang-format
	need_cmd git git
	# the sanitizers' runtime of clang: libFuzzer, and TSan for the shim's client
	runtime=$(clang -print-file-name=libclang_rt.fuzzer-x86_64.a 2>/dev/null || true)
	[ -e "$runtime" ] || runtime=$(clang -print-runtime-dir 2>/dev/null || true)/libclang_rt.fuzzer.a
	[ -e "$runtime" ] || missing="$missing libclang-rt-dev"
fi
[ -n "$missing" ] || exit 0

if ! have_cmd apt-get; then
	echo "allot: please install:$missing" >&2
	exit 1
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
echo "allot: installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
if ! $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null; then
	# libclang-rt-dev has a versioned name only on some releases
	$sudo apt-get install -y -qq --no-install-recommends clang >/dev/null
	major=$(clang -dumpversion | cut -d. -f1)
	missing=$(echo "$missing" | sed "s/libclang-rt-dev/libclang-rt-$major-dev/")
	echo "allot: installing:$missing"
	$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
