#!/bin/bash
# The main job in half a minute: three programs share one card, a fourth waits for its place, a
# fifth wants more than its part.  On the real GPU where there is one, else on the simulator.
#
#   tools/demo.sh BUILD [--check]      --check: say only whether everything went as it should
set -u
build=$(cd "${1:?build folder}" && pwd) || exit 1
check=${2:-}
dir=$(mktemp -d "${TMPDIR:-/tmp}/allot-demo.XXXXXX")
export ALLOT_SOCKET=$dir/allotd.sock
allot=$build/bin/allot
standin=$build/demo/standin
jobs_started=()
bad=0

stop() {
	local p
	for p in "${jobs_started[@]:-}"; do [ -n "$p" ] && kill -TERM "$p" 2>/dev/null; done
	for p in "${jobs_started[@]:-}"; do [ -n "$p" ] && wait "$p" 2>/dev/null; done
	[ -n "${daemon:-}" ] && kill -TERM "$daemon" 2>/dev/null && wait "$daemon" 2>/dev/null
	rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '$ %s\n' "$*"; "$allot" "${@:2}"; }
expect() { # WHAT STATUS WANTED
	if [ "$2" -ne "$3" ]; then
		echo "allot demo: $1 ended with $2 instead of $3" >&2
		bad=1
	fi
}
start() { # NAME OPTIONS... -- COMMAND: in the background
	local name=$1
	shift
	printf '$ allot run -J %s %s &\n' "$name" "${*/#$build\/demo\//}"
	"$allot" run -J "$name" "$@" &
	jobs_started+=($!)
	last=$!
}
until_true() { # SECONDS COMMAND...
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}
nothing_held() { "$allot" status | grep -q "jobs 0 hold 0 B"; }
ps_has() { "$allot" ps | grep -qE "$1"; }

[ -n "$check" ] && exec 3>&1 >"$dir/out" || exec 3>&1

# one real card is enough; a machine without one gets the simulated H200
mode=(--sim=h200)
where="a simulated H200 (this machine has no NVIDIA GPU)"
if [ -e /dev/nvidiactl ] && [ -z "${ALLOT_DEMO_SIM:-}" ]; then
	mode=()
	where="the real GPU"
fi
say "allot on $where"
"$build/bin/allotd" --foreground --socket "$ALLOT_SOCKET" --state "$dir/state" "${mode[@]}" 2>"$dir/log" &
daemon=$!
until_true 10 "$allot" status || { cat "$dir/log" >&2; exit 1; }

# parts of whatever card there is, in MiB: 1/7, 1/3, 2/5 of what can be promised
room=$("$allot" status -o csv | awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "vram_allocatable_bytes") c = i }
	NR == 2 { printf "%d", $c / 1048576 }')
show allot status

say "1. Three programs share the card. Each takes 90 % of what it sees, and sees only its own part."
start embedding --vram $((room / 7))M --class latency -- "$standin" embedding 13
embedding=$last
start chat --vram $((room / 3))M --class latency -- "$standin" chat 13
chat=$last
start training --vram $((room * 2 / 5))M --class batch -- "$standin" training 8
training=$last
until_true 10 ps_has "training.*running" || bad=1
sleep 2
show allot ps

say "2. One wants more than its part. It gets CUDA's own error, the others notice nothing."
printf '$ allot run -J greedy --vram 2G -- standin greedy 0\n'
"$allot" run -J greedy --vram 2G -- "$standin" greedy 0
expect greedy $? 0

say "3. A fourth does not fit. It is not refused: it waits, and says for what."
start imagegen --vram $((room / 4))M -- "$standin" imagegen 2
imagegen=$last
sleep 1
show allot ps
show allot status

say "4. The training ends, and the fourth gets its place."
wait "$training"
expect training $? 0
wait "$imagegen"
expect imagegen $? 0

say "5. The services go on to their end."
wait "$embedding"
expect embedding $? 0
wait "$chat"
expect chat $? 0
jobs_started=()
until_true 5 nothing_held || bad=1
show allot status

if [ -n "$check" ]; then
	for line in "greedy: after .* CUDA_ERROR_OUT_OF_MEMORY" "imagegen: .*all right" "training: .*all right" \
		"embedding: .* all right" "chat: .* all right" "waiting-admission"; do
		grep -qE "$line" "$dir/out" || { echo "allot demo: nothing says '$line'" >&2; bad=1; }
	done
	[ $bad = 0 ] || cat "$dir/out" "$dir/log" >&3
fi
exit $bad
