#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""House rules that a machine can see: banned calls, licence lines, file length, own words only.

Exit 1 on a banned call, a missing SPDX line or a word that does not belong into the project;
long files are printed to be read and weighed.
"""
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
BANNED = re.compile(r'(?<![\w.>])(strcpy|strcat|strncpy|strncat|sprintf|vsprintf|strtok|atoi|atol|atof|'
                    r'strtol|strtoul|strtoll|strtoull|strtod|gmtime|localtime|system|alloca|gets|'
                    r'setlocale)\s*\(')
# the one place that defines a redirect of a libc name may, and must, say that name
ALLOWED = {'system': {'src/shim/redirect_exec.c', 'src/shim/redirect_spawn.c'}}
LONG = 800


def tracked():
    try:
        out = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard'], cwd=root,
                             capture_output=True, text=True, check=True).stdout
        return [root / p for p in out.splitlines() if (root / p).is_file()]
    except (OSError, subprocess.CalledProcessError):  # a tarball
        return [p for p in root.rglob('*') if p.is_file() and 'build' not in p.parts]


def strip_comments(text):
    text = re.sub(r'/\*.*?\*/', lambda m: '\n' * m.group(0).count('\n'), text, flags=re.S)
    return re.sub(r'"(\\.|[^"\\\n])*"', '""', re.sub(r'//[^\n]*', '', text))


bad = 0
for path in tracked():
    rel = str(path.relative_to(root))
    if path.suffix not in ('.c', '.h', '.def'):
        continue
    text = path.read_text(errors='replace')
    if 'SPDX-License-Identifier: Apache-2.0' not in text.split('\n', 1)[0]:
        print(f'{rel}:1: no SPDX line')
        bad += 1
    if rel.startswith(('src/', 'sim/')) and path.suffix != '.def':
        for number, line in enumerate(strip_comments(text).splitlines(), 1):
            m = BANNED.search(line)
            if m and rel not in ALLOWED.get(m.group(1), ()):
                print(f'{rel}:{number}: {m.group(1)} is banned, use the forms of src/base')
                bad += 1
    lines = text.count('\n')
    if lines > LONG and path.suffix == '.c':
        print(f'{rel}: {lines} lines, to be read and weighed')
print(f'{bad} faults' if bad else 'the tree keeps its rules')
sys.exit(1 if bad else 0)
