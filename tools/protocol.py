#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of messages in docs/protocol.md, made from src/wire/messages.def and wire.h.

Usage: protocol.py            is the table what the lists say? exit 1 if not
       protocol.py --write    make it so
"""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
MESSAGE = re.compile(r'^WIRE_MSG\((\w+), (\w+), (\d+), "([←→]) (.*)"\)$', re.M)
SIZE = re.compile(r'^WIRE_CHECK\((\w+), ([\d+* ]+)\);$', re.M)
VERSION = re.compile(r'^#define WIRE_VERSION\s+(\d+)$', re.M)
BEGIN, END = '<!-- made by tools/protocol.py -->\n', '<!-- end -->\n'


def table():
    header = (root / 'src/wire/wire.h').read_text()
    messages = MESSAGE.findall((root / 'src/wire/messages.def').read_text())
    if not messages:
        sys.exit('protocol.py: no message in src/wire/messages.def')
    sizes = {name: sum(eval_product(p) for p in text.split('+')) for name, text in SIZE.findall(header)}
    missing = [lower for _, lower, *_ in messages if lower not in sizes]
    if missing:
        sys.exit(f'src/wire/wire.h: no WIRE_CHECK of {", ".join(missing)}')
    rows = [f'Version {VERSION.search(header).group(1)}.\n\n', '| number | message | to | bytes | meaning |\n|--:|---|---|--:|---|\n']
    for upper, lower, number, way, text in sorted(messages, key=lambda m: int(m[2])):
        to = 'allotd' if way == '→' else 'peer'
        rows.append(f'| {number} | `{upper}` | {to} | {sizes[lower]} | {text.replace("|", "/")} |\n')
    return ''.join(rows)


def eval_product(text):
    n = 1
    for factor in text.split('*'):
        n *= int(factor)
    return n


path = root / 'docs/protocol.md'
text = path.read_text()
if BEGIN not in text or END not in text:
    sys.exit('docs/protocol.md: the marks around the table are gone')
head, rest = text.split(BEGIN, 1)
tail = rest.split(END, 1)[1]
made = head + BEGIN + table() + END + tail
if '--write' in sys.argv[1:]:
    path.write_text(made)
elif made != text:
    sys.exit('docs/protocol.md is not what src/wire says: run tools/protocol.py --write')
