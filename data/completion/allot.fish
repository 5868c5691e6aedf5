# SPDX-License-Identifier: Apache-2.0
# fish completion of allot: `allot __complete WORDS…` knows what fits, from the tables of --help

function __allot_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for answer in ($words[1] __complete $words[2..-1] "$current" 2>/dev/null)
        switch $answer
            case ':command *'
                set -l first (math (string replace ':command ' '' -- $answer) + 2)
                complete -C (string join ' ' -- (string escape -- $words[$first..-1]) $current)
            case :files
                __fish_complete_path $current
            case '*'
                echo $answer
        end
    end
end

complete -c allot -f -a '(__allot_complete)'
