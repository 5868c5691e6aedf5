#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""exports.py TABLE VERSION OUT: a linker's version script with what a driver of that CUDA version
exports, by src/abi/cuda.def."""
import re
import sys

table, version, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
names = []
with open(table, encoding='utf-8') as f:
    for line in f:
        m = re.match(r'CU_(?:PASS|CALL|HOOK)\((\w+), \w+, (\d+),', line)
        if m and int(m.group(2)) <= version:
            names.append(m.group(1))
with open(out, 'w', encoding='utf-8') as f:
    f.write('{ global:\n' + ''.join(f'\t{n};\n' for n in names) + 'local: *; };\n')
