#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the interposing libraries and the simulator export is their table, no more and no less.

    tools/check_symbols.py BUILD

A table is a .def file; each line MACRO(symbol, ...) in it is one name. Beyond that the interposing
libraries, guests in every program of a job, may need nothing but libc (and the dynamic linker
itself), have no text relocations, stay loaded, and run no constructor of their own.
Exit status: 0 as it should be, 1 not, 2 cannot tell.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CUDA, NVML, LIBC_NAMES = "src/abi/cuda.def", "src/abi/nvml.def", "src/shim/libc.def"

# library in the build folder, its tables, is it a guest in other programs?
LIBRARIES = (
    ("src/shim/liballot-cuda.so", (CUDA, LIBC_NAMES), True),
    ("src/shim/liballot-nvml.so", (NVML,), True),
    ("sim/libcuda.so.1", (CUDA,), False),
    ("sim/nosym/libcuda.so.1", (CUDA,), False),
    ("sim/libnvidia-ml.so.1", (NVML,), False),
)

ENTRY = re.compile(r"[A-Z]+_[A-Z]+\((\w+)")
LIBC = re.compile(r"(libc\.so\.6|ld-linux-[\w-]+\.so\.\d)$")
# what the C start files add to every shared library: frame_dummy, __do_global_dtors_aux
START_FILE_CONSTRUCTORS = 1


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def table_names(paths):
    names = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            names += [m.group(1) for m in map(ENTRY.match, file) if m]
    return names


def exports(library):
    """Defined dynamic symbols, without the version after '@' and the names of versions."""
    found = []
    for line in run("nm", "-D", "--defined-only", library).splitlines():
        kind, name = line.split()[-2:]
        if kind != "A":
            found.append(name.split("@")[0])
    return found


def check_exports(library, tables):
    wanted, found = table_names(tables), exports(library)
    problems = []
    if len(wanted) < 10:
        problems.append(f"only {len(wanted)} names read from {' '.join(tables)}")
    for name in sorted({n for n in wanted if wanted.count(n) > 1}):
        problems.append(f"{name}: more than once in the table")
    problems += [f"{name}: in the table, not exported" for name in sorted(set(wanted) - set(found))]
    problems += [f"{name}: exported, not in the table" for name in sorted(set(found) - set(wanted))]
    return problems, len(found)


def check_guest(library):
    dynamic = run("readelf", "-dW", library)
    problems = [f"needs {name}" for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
                if not LIBC.match(name)]
    if "TEXTREL" in dynamic:
        problems.append("has text relocations")
    if "NODELETE" not in dynamic:
        problems.append("may be unloaded (-z nodelete)")
    size = re.search(r"\(INIT_ARRAYSZ\)\s+(\d+)", dynamic)
    if size and int(size.group(1)) > 8 * START_FILE_CONSTRUCTORS:
        problems.append(f"runs constructors: {int(size.group(1)) // 8} in .init_array")
    return problems


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    result = 0
    for library, tables, is_guest in LIBRARIES:
        path = os.path.join(sys.argv[1], library)
        if not os.path.exists(path):
            print(f"{library}: not built")
            result = 2
            continue
        try:
            problems, count = check_exports(path, [os.path.join(ROOT, t) for t in tables])
            if is_guest:
                problems += check_guest(path)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            print(f"{library}: {error}")
            result = 2
            continue
        for text in problems:
            print(f"{library}: {text}")
        print(f"{library}: {count} symbols, {len(problems)} problems")
        if problems and not result:
            result = 1
    return result


if __name__ == "__main__":
    sys.exit(main())
