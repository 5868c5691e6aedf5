#compdef allot
# SPDX-License-Identifier: Apache-2.0
# zsh completion of allot: `allot __complete WORDS…` knows what fits, from the tables of --help

_allot()
{
	local answer word
	local -a found

	for answer in "${(@f)$("$words[1]" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
		case $answer in
		'') continue ;;
		:command*)
			shift $((${answer#:command } + 1)) words
			((CURRENT -= ${answer#:command } + 1))
			_normal
			return
			;;
		:files)
			_files
			return
			;;
		esac
		word=${answer%%$'\t'*}
		found+=("${word//:/\\:}:${answer#*$'\t'}")
	done
	_describe -V allot found
}

if [[ $funcstack[1] == _allot ]]; then
	_allot "$@"
else
	compdef _allot allot
fi
