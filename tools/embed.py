#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py NAME INPUT OUTPUT: a text file as the C string `NAME` in a header."""
import sys

name, source, target = sys.argv[1:]
with open(source, encoding='utf-8') as f, open(target, 'w', encoding='utf-8') as out:
    out.write(f'/* made from {source.split("/")[-1]} */\nstatic const char {name}[] =\n')
    for line in f:
        text = line.rstrip('\n').replace('\\', '\\\\').replace('"', '\\"').replace('\t', '\\t')
        out.write(f'\t"{text}\\n"\n')
    out.write('\t;\n')
