#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare src/abi's CUDA table, types and results with an installed CUDA toolkit.

    tools/check_abi.py [--toolkit DIR] [--table FILE]

Looks at $CUDA_HOME, then for the newest /usr/local/cuda*. For a symbol that the toolkit has and
the table lacks it prints the line to add. Exit status: 0 all agree, 1 differences, 77 no toolkit.
"""

import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ABI = os.path.join(ROOT, "src", "abi")
CC = os.environ.get("CC", "cc").split()
LINE = re.compile(r"CU_(PASS|CALL|HOOK)\((\w+), (\w+), (\d+), (LEGACY|PER_THREAD)(?:, \((.*)\))?\)$")
SUFFIX = re.compile(r"(cu\w*?)(?:_v(\d))?(_ptds|_ptsz)?$")
TYPEDEF_HEADERS = ("cudaTypedefs.h", "cudaProfilerTypedefs.h", "cudaGLTypedefs.h",
                   "cudaEGLTypedefs.h", "cudaVDPAUTypedefs.h")

problems = []


def problem(text):
    problems.append(text)
    print(text)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def find_toolkit():
    """The folder of a toolkit with cuda.h, or None."""
    folders = [os.environ.get("CUDA_HOME", "")]
    folders += sorted(glob.glob("/usr/local/cuda*"),
                      key=lambda p: [int(n) for n in re.findall(r"\d+", p)], reverse=True)
    for folder in folders:
        if folder and os.path.exists(os.path.join(folder, "include", "cuda.h")):
            return folder
    return None


def run(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


# The table

def read_table(path):
    """[(kind, symbol, api, since, stream, params)] in the table's order."""
    rows = []
    for number, line in enumerate(read(path).splitlines(), 1):
        if not line.startswith("CU_"):
            continue
        match = LINE.match(line)
        if not match:
            problem(f"{path}:{number}: not one whole entry: {line}")
            continue
        kind, symbol, api, since, stream, params = match.groups()
        if (kind == "PASS") != (params is None):
            problem(f"{path}:{number}: CU_{kind} {'with' if params else 'without'} parameters")
        rows.append((kind, symbol, api, int(since), stream, params))
    return rows


def check_order(rows):
    names = [row[1] for row in rows]
    wanted = sorted(names, key=lambda name: name.replace("_", "\x01"))
    for have, want in zip(names, wanted):
        if have != want:
            problem(f"order: {have} stands where {want} belongs")
            break
    for name in sorted({name for name in names if names.count(name) > 1}):
        problem(f"{name}: more than once")
    for _, symbol, api, _, stream, _ in rows:
        base, _, thread = SUFFIX.match(symbol).groups()
        if api != base or (stream == "PER_THREAD") != bool(thread):
            problem(f"{symbol}: api {api} or stream {stream} does not fit the name")


# Prototypes

class Header:
    """What the toolkit's headers declare, with all variants visible."""

    def __init__(self, include):
        self.include = include
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "all.c")
            with open(source, "w", encoding="utf-8") as file:
                file.write("#include <cuda.h>\n#include <cudaProfiler.h>\n")
            text = run(CC + ["-E", "-P", "-D__CUDA_API_VERSION_INTERNAL", "-D__attribute__(x)=",
                             "-I" + include, source])
        self.alias = {}
        for old, new in re.findall(r"typedef\s+(\w+_v\d)\s+(\w+)\s*;", text):
            if re.fullmatch(re.escape(new) + r"_v\d", old):
                self.alias[old] = new
        self.prototypes = {}
        for name, params in re.findall(r"\bCUresult\s+(cu\w+)\s*\(([^;]*?)\)\s*;", text):
            self.prototypes[name] = self.canonical(params)
        self.versions = {}
        for name in TYPEDEF_HEADERS:
            path = os.path.join(include, name)
            if os.path.exists(path):
                self.read_typedefs(read(path))

    def read_typedefs(self, text):
        pattern = r"\*\s*PFN_(cu\w+?)_v(\d+)(_ptds|_ptsz)?\)\s*\((.*)\)\s*;"
        for api, version, thread, params in re.findall(pattern, text):
            versions = self.versions.setdefault((api, bool(thread)), {})
            versions[int(version)] = self.canonical(params)

    def canonical(self, params):
        """The parameter types alone, each spelled in one way."""
        types = []
        for param in params.split(","):
            tokens = re.findall(r"\w+|\*|\[", param)
            tokens = [self.alias.get(token, token) for token in tokens]
            tokens = ["*" if token == "[" else token for token in tokens
                      if not token.isdigit() and token != "CUDAAPI"]
            types.append(" ".join(self.without_name(tokens)))
        return types

    @staticmethod
    def without_name(tokens):
        builtin = {"unsigned", "int", "long", "char", "short", "void", "const", "struct", "enum"}
        words = [i for i, token in enumerate(tokens) if token != "*"]
        types = [i for i in words if tokens[i] != "const"]
        last = types[-1]
        if len(types) > 1 and tokens[last] not in builtin:
            tokens = tokens[:last] + tokens[last + 1:]
        if "unsigned" in tokens and not builtin & set(tokens) - {"unsigned", "const"}:
            tokens.insert(tokens.index("unsigned") + 1, "int")
        if tokens.count("long") and "int" in tokens:
            tokens.remove("int")
        return tokens


def check_prototypes(rows, header):
    checked = newer = 0
    for kind, symbol, _, _, _, params in rows:
        if kind == "PASS":
            continue
        if symbol not in header.prototypes:
            newer += 1
            continue
        ours = header.canonical(params)
        theirs = header.prototypes[symbol]
        checked += 1
        if ours != theirs:
            problem(f"{symbol}: ours ({', '.join(ours)}), cuda.h ({', '.join(theirs)})")
    return checked, newer


def check_versions(rows, header):
    checked = 0
    for _, symbol, api, since, stream, params in rows:
        versions = header.versions.get((api, stream == "PER_THREAD"))
        if not versions or since > max(versions):
            continue
        checked += 1
        if since not in versions:
            problem(f"{symbol}: since {since}, but the typedefs have {sorted(versions)}")
        elif params is not None and header.canonical(params) != versions[since]:
            problem(f"{symbol}: since {since}, but that typedef has other parameters")
    return checked


def check_exports(rows, header, toolkit):
    """The stub library's exports are in the table; None without a stub library."""
    stubs = (glob.glob(os.path.join(toolkit, "lib*", "stubs", "libcuda.so")) +
             glob.glob(os.path.join(toolkit, "targets", "*", "lib", "stubs", "libcuda.so")))
    if not stubs:
        return None
    exports = set()
    for line in run(["nm", "-D", "--defined-only", stubs[0]]).splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] in "TW" and fields[2].startswith("cu"):
            exports.add(fields[2].split("@")[0])
    for symbol in sorted(exports - {row[1] for row in rows}):
        api, _, thread = SUFFIX.match(symbol).groups()
        versions = header.versions.get((api, bool(thread)), {0: []})
        problem(f"missing: CU_PASS({symbol}, {api}, {max(versions)}, "
                f"{'PER_THREAD' if thread else 'LEGACY'})")
    return len(exports)


# Values and layouts

def evaluate(names, prelude, flags):
    """{name: value} of constant expressions, by a program compiled after the given prelude."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "values.c")
        program = os.path.join(folder, "values")
        with open(source, "w", encoding="utf-8") as file:
            file.write(prelude + "#include <stdio.h>\nint main(void)\n{\n")
            for name in names:
                file.write(f'\tprintf("{name} %lld\\n", (long long)({name}));\n')
            file.write("\treturn 0;\n}\n")
        run(CC + ["-w", *flags, "-o", program, source])
        return dict(line.split() for line in run([program]).splitlines())


def check_values(header):
    text = read(os.path.join(ABI, "cuda_types.h"))
    names = re.findall(r"^\t([A-Z]\w+) =", text, re.M)
    names += re.findall(r"^#define (CU\w+) +\S", text, re.M)
    names += re.findall(r"^CU_RESULT\((\w+),", read(os.path.join(ABI, "cuda_result.def")), re.M)
    ours = evaluate(names, '#include "abi/cuda_types.h"\n', ["-I" + os.path.join(ROOT, "src")])
    try:
        theirs = evaluate(names, "#include <cuda.h>\n#include <cudaProfiler.h>\n",
                          ["-I" + header.include])
    except subprocess.CalledProcessError:
        problem("values: the toolkit's headers lack some of the constants (see above)")
        return 0
    for name in names:
        if ours[name] != theirs[name]:
            problem(f"{name}: ours {ours[name]}, cuda.h {theirs[name]}")
    results = re.search(r"cudaError_enum\s*\{(.*?)\}", read(os.path.join(header.include, "cuda.h")),
                        re.S).group(1)
    for name in re.findall(r"^\s*(CUDA_\w+)\s*=", results, re.M):
        if name not in ours:
            problem(f"missing from cuda_result.def: {name}")
    return len(names)


def check_layouts(header):
    """cuda_layout.c holds as it stands when cuda.h declares the structures."""
    text = read(os.path.join(ABI, "cuda_layout.c"))
    probe = text.replace('#include "abi/cuda_types.h"', "#include <stddef.h>\n#include <cuda.h>")
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "layout.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(probe)
        done = subprocess.run(CC + ["-std=gnu17", "-w", "-fsyntax-only", "-I" + header.include,
                                    source], stderr=subprocess.PIPE, text=True, check=False)
    for line in done.stderr.splitlines():
        if "error:" in line:
            problem("layout: " + line.split("error:")[1].strip())
    return len(re.findall(r"^(?:SIZE|AT)\(", text, re.M))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--toolkit", help="folder of the toolkit, with include/cuda.h")
    parser.add_argument("--table", default=os.path.join(ABI, "cuda.def"))
    args = parser.parse_args()

    rows = read_table(args.table)
    check_order(rows)
    toolkit = args.toolkit or find_toolkit()
    if not toolkit:
        print("skipped: no CUDA toolkit")
        return 1 if problems else 77
    header = Header(os.path.join(toolkit, "include"))
    if len(header.prototypes) < 400:
        problem(f"only {len(header.prototypes)} prototypes read from cuda.h: its form has changed")
    exports = check_exports(rows, header, toolkit)
    prototypes, newer = check_prototypes(rows, header)
    versions = check_versions(rows, header)
    values = check_values(header)
    layouts = check_layouts(header)
    print(f"{toolkit}: {len(rows)} symbols, "
          f"{'no stub library' if exports is None else f'{exports} exports'}, "
          f"{prototypes} prototypes ({newer} newer than this toolkit), {versions} versions, "
          f"{values} values, {layouts} layouts compared; {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
