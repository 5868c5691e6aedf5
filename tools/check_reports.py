#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/field_reports.tsv maps each row of the field reports (kinds A, B, D, E, G, H, L) to its test, or to
the reason why none applies yet.

A row is  ID <tab> test|none <tab> file:name or reason <tab> the fault in a few words.
Every row of the kinds must be there once, every named test must exist: a method of a Python test, a
function of a C test that is also listed to be run, else a name in the file. Anything else fails.
"""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
ROWS = {'A': 29, 'B': 16, 'D': 24, 'E': 24, 'F': 10, 'G': 8, 'H': 6, 'L': 5}
wanted = {f'{kind}{n}' for kind, last in ROWS.items() for n in range(1, last + 1)}
seen, bad, tests, reasons = set(), 0, 0, 0


def fault(number, text):
    global bad
    print(f'tests/field_reports.tsv:{number}: {text}')
    bad += 1


def has_test(path, name):
    text = (root / path).read_text(errors='replace')
    found = len(re.findall(rf'(?<![\w.-]){re.escape(name)}(?![\w-])', text))
    if path.endswith('.py') and name.isidentifier():
        return re.search(rf'def {name}\(', text)
    is_listed = f'cmocka_unit_test({name})' in text
    return is_listed or found >= (2 if path.startswith('tests/unit/') else 1)


for number, line in enumerate((root / 'tests/field_reports.tsv').read_text().splitlines(), 1):
    if not line or line.startswith('#'):
        continue
    cells = line.split('\t')
    if len(cells) != 4:
        fault(number, f'{len(cells)} cells instead of 4')
        continue
    row, kind, what, _ = cells
    if row not in wanted or row in seen:
        fault(number, f'{row} is unknown or twice')
    seen.add(row)
    if kind == 'none':
        reasons += 1
        if len(what) < 20:
            fault(number, f'{row}: "{what}" is no reason')
        continue
    if kind != 'test':
        fault(number, f'{row}: "{kind}" is neither test nor none')
        continue
    for test in what.split(' '):
        tests += 1
        path, _, name = test.partition(':')
        if not (root / path).is_file():
            fault(number, f'{row}: {path} does not exist')
        elif not name or not has_test(path, name):
            fault(number, f'{row}: {path} has no "{name}"')
for row in sorted(wanted - seen):
    fault(0, f'{row} is missing')
print(f'{len(seen)} rows: {tests} tests, {reasons} with a reason, {bad} faults')
sys.exit(1 if bad else 0)
