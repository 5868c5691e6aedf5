#!/bin/sh
# Install what building (and, with "check", testing) needs, by apt on Debian 12/13 and Ubuntu 24.04.
# Says what it installs; does nothing when all is there; elsewhere names what is missing.
set -eu
what=${1:-build}

have_cmd() { command -v "$1" >/dev/null 2>&1; }
have_lib() { have_cmd pkg-config && pkg-config --exists "$1"; }
need_cmd() { have_cmd "$1" || missing="$missing $2"; }
need_lib() { have_lib "$1" || missing="$missing $2"; }

# libFuzzer and the sanitizers of clang: in folders named by its version and, sometimes, by the machine
have_clang_runtime() {
	have_cmd clang || return 1
	dir=$(clang -print-runtime-dir 2>/dev/null) || return 1
	for f in "$dir"/libclang_rt.fuzzer*.a "$(dirname "$dir")"/*/libclang_rt.fuzzer*.a; do
		[ ! -e "$f" ] || return 0
	done
	return 1
}

look() {
	missing=
	need_cmd cc gcc
	[ -e /usr/include/errno.h ] || missing="$missing libc6-dev"
	need_cmd meson meson
	need_cmd ninja ninja-build
	need_cmd pkg-config pkg-config
	need_cmd python3 python3
	need_lib libsystemd libsystemd-dev
	need_lib sqlite3 libsqlite3-dev
	need_lib jansson libjansson-dev
	need_lib yaml-0.1 libyaml-dev
	# for the manual pages; where it is not to be had by itself, they are left out
	if [ "$what" = check ] || have_cmd apt-get; then need_cmd scdoc scdoc; fi
	[ "$what" = check ] || return 0
	need_lib cmocka libcmocka-dev
	need_cmd clang clang
	need_cmd clang-format clang-format
	need_cmd git git
	need_cmd nm binutils
	have_clang_runtime || missing="$missing $(clang_runtime_package)"
}

# its name has the version of clang in it; a package without one is there on some releases only
clang_runtime_package() {
	if have_cmd clang; then
		echo "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
	else
		major=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -n 1)
		echo "libclang-rt-${major:-14}-dev"
	fi
}

install() { # PACKAGE...
	echo "allot: installing: $*"
	$sudo apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

look
[ -n "$missing" ] || exit 0
if ! have_cmd apt-get; then
	echo "allot: this is no Debian or Ubuntu: please install what these packages hold:$missing" >&2
	exit 1
fi
sudo=
if [ "$(id -u)" != 0 ]; then
	if ! have_cmd sudo; then
		echo "allot: needs these packages, and you are neither root nor is sudo there. As root:" >&2
		echo "    apt-get install$missing" >&2
		exit 1
	fi
	sudo="sudo DEBIAN_FRONTEND=noninteractive"
fi
export DEBIAN_FRONTEND=noninteractive
if ! $sudo apt-get update -qq; then
	echo "allot: apt-get update failed; trying with the lists that are there" >&2
fi
look # the lists may know more names now
# shellcheck disable=SC2086
if ! install $missing; then
	echo "allot: apt could not install them. Please install:$missing" >&2
	exit 1
fi
look
if [ -n "$missing" ]; then
	echo "allot: still missing after the installation:$missing" >&2
	exit 1
fi
