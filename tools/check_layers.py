#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print every include that leaves the map of src/LAYERS; exit 1 when there is one."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
allowed = {}
for line in (root / 'src/LAYERS').read_text().splitlines():
    line = line.split('#')[0].strip()
    if line:
        folder, _, seen = line.partition(':')
        allowed[folder.strip()] = set(seen.split()) | {folder.strip()}

bad = 0


def check(path, folder, may):
    global bad
    for number, line in enumerate(path.read_text(errors='replace').splitlines(), 1):
        m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not m:
            continue
        target = m.group(1).split('/')[0]
        if '/' not in m.group(1):
            print(f'{path.relative_to(root)}:{number}: "{m.group(1)}" does not name its folder')
            bad += 1
        elif target not in may:
            print(f'{path.relative_to(root)}:{number}: {folder} must not include {target}')
            bad += 1


for path in sorted((root / 'src').rglob('*.[ch]')):
    folder = path.relative_to(root / 'src').parts[0]
    if folder not in allowed:
        print(f'{path.relative_to(root)}: folder {folder} is not in src/LAYERS')
        bad += 1
        continue
    check(path, folder, allowed[folder])
for path in sorted((root / 'sim').rglob('*.[ch]')):
    check(path, 'sim', {'sim', 'abi', 'base'})
print(f'{bad} includes leave the map' if bad else 'every include follows the map')
sys.exit(1 if bad else 0)
