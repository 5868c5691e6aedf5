# SPDX-License-Identifier: Apache-2.0
# bash completion of allot: `allot __complete WORDS…` knows what fits, from the tables of --help

_allot()
{
	local line=${COMP_LINE:0:COMP_POINT} words cur answer strip i
	local -a all

	# the line in words of our own: bash's are cut at '=' and ':'
	read -ra all <<<"$line"
	[[ $line == *[[:space:]] ]] && all+=("")
	cur=${all[${#all[@]} - 1]}
	COMPREPLY=()
	strip=${cur%"${cur##*[=:]}"}
	[[ $strip == *[=:] ]] || strip=""
	while IFS=$'\t' read -r answer _; do
		case $answer in
		:command*)
			i=${answer#:command }
			if declare -F _command_offset >/dev/null; then
				_command_offset "$((i + 1))"
			elif ((${#all[@]} - 1 == i + 1)) && [[ $cur != */* ]]; then
				mapfile -t COMPREPLY < <(compgen -c -- "$cur")
			else
				compopt -o filenames -o bashdefault
				mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			fi
			return
			;;
		:files)
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "${cur#"$strip"}")
			return
			;;
		*=)
			compopt -o nospace
			;;
		esac
		COMPREPLY+=("${answer#"$strip"}")
	done < <("${all[0]}" __complete "${all[@]:1}" 2>/dev/null)
}

complete -F _allot allot
