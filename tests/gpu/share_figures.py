#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What NVML says of memory that two processes share: who is shown with it, and what is left at the end.

    share_figures.py BUILD [--driver DIR]    prints one table; nothing is judged

Two processes, no allot between: an owner and an importer. Each step is one line with the growth, in
MiB since both had their contexts, of the card, of the owner's figure and of the importer's. DIR holds
another libcuda.so.1 and libnvidia-ml.so.1 (a simulator's); without it the machine's own are used.
"""
import argparse
import os
import pathlib
import subprocess
import tempfile
import time

MIB = 1 << 20
SIZE = '1G'


class Gpu:
    def __init__(self, program, env, tag):
        self.tag, self.last = tag, None
        self.p = subprocess.Popen([program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def __call__(self, line):
        self.p.stdin.write(line + '\n')
        self.p.stdin.flush()
        return self.p.stdout.readline().strip()

    def make(self, line):
        said = self(line)
        self.last = said.split()[1] if said.startswith('ok ') else None
        return said

    def end(self, kill):
        if kill:
            self.p.kill()
        else:
            self.p.stdin.write('quit\n')
            self.p.stdin.close()
        self.p.wait()


class Table:
    """figures by NVML through a third process, which uses no CUDA"""

    def __init__(self, program, env):
        self.watch = Gpu(program, env, 'watch')
        self.base = None
        self.owner = self.importer = None

    def figures(self):
        said = self.watch('nvml').split()
        assert said and said[0] == 'ok', said
        return int(said[1]), {int(p.split(':')[0]): int(p.split(':')[1]) for p in said[2:]}

    def newcomer(self, start):
        _, before = self.figures()
        start()
        _, after = self.figures()
        new = set(after) - set(before)
        return new.pop() if len(new) == 1 else None

    def mark(self):
        self.base = self.figures()

    def row(self, step, said=''):
        time.sleep(0.3)
        used, procs = self.figures()

        def grown(pid):
            if pid not in procs:
                return 'gone'
            return f'{(procs[pid] - self.base[1].get(pid, 0)) / MIB:+.0f}'
        print(f'  {step:46} {(used - self.base[0]) / MIB:+8.0f} {grown(self.owner):>8} {grown(self.importer):>8}   {said}',
              flush=True)


def share(kind, owner, importer, box):
    """make, export, import: one step each"""
    if kind == 'ipc':
        yield 'owner: cuMemAlloc', lambda: owner.make(f'alloc {SIZE}')
        handle = []
        yield 'owner: cuIpcGetMemHandle', lambda: (handle.append(owner(f'ipc {owner.last}').split()[-1]), 'ok')[1]
        yield 'importer: cuIpcOpenMemHandle', lambda: importer.make(f'open {handle[0]}')
    elif kind in ('vmm', 'external'):
        yield 'owner: cuMemCreate, map', lambda: owner.make(f'create {SIZE}')
        yield 'owner: export, descriptor sent, closed', lambda: owner(f'send {owner.last} {box} 4711')
        verb = 'receive' if kind == 'vmm' else 'receive-external'
        yield f'importer: {verb}', lambda: importer.make(verb)
    else:
        yield 'owner: pool, cuMemAllocFromPoolAsync', lambda: owner.make(f'pool {SIZE}')
        yield 'owner: export, descriptor sent, closed', lambda: owner(f'send {owner.last} {box} 4711')
        yield 'importer: import the pool', lambda: importer('receive-pool')
        data = []
        yield 'owner: cuMemPoolExportPointer', lambda: (data.append(owner(f'pointer {owner.last}').split()[-1]), 'ok')[1]
        yield 'importer: cuMemPoolImportPointer', lambda: importer.make(f'import-pointer {data[0]}')


def endings(how, owner, importer):
    """who goes first"""
    check = ('importer: reads it', lambda: importer(f'check {importer.last} 77'))
    close = ('importer: closes it', lambda: importer(f'free {importer.last}'))
    if how == 'importer closes':
        return [check, close, ('owner: frees', lambda: owner(f'free {owner.last}'))]
    if how == 'owner frees':
        return [('owner: frees', lambda: owner(f'free {owner.last}')), check, close]
    kill = how == 'owner killed'
    return [(how, lambda: owner.end(kill) or 'ok'), check, close]


def scene(args, env, kind, how):
    print(f'{kind}, {how}', flush=True)
    with tempfile.TemporaryDirectory() as folder:
        box = str(pathlib.Path(folder) / 'box')
        table = Table(args.program, env)
        owner, importer = (Gpu(args.program, env, t) for t in ('owner', 'importer'))
        table.owner = table.newcomer(lambda: owner('init'))
        table.importer = table.newcomer(lambda: importer('init'))
        importer(f'bind {box}')
        table.mark()
        for step, act in share(kind, owner, importer, box):
            table.row(step, act())
        if owner.last is not None:
            owner(f'fill {owner.last} 77')
        if kind != 'ipc':
            print('  the mark on the open file, as the importer reads it: ' + importer('mark'))
        for step, act in endings(how, owner, importer):
            table.row(step, act())
        importer.end(False)
        if owner.p.poll() is None:
            owner.end(False)
        table.row('both ended')
        table.watch.end(False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--driver')
    args = parser.parse_args()
    args.program = str(args.build / 'tests/programs/gpu_share')
    env = dict(os.environ)
    if args.driver:
        env['LD_LIBRARY_PATH'] = args.driver
    print(f'  {"":46} {"card":>8} {"owner":>8} {"importer":>8}   MiB')
    for kind in ('ipc', 'vmm', 'external', 'pool'):
        for how in ('importer closes', 'owner frees', 'owner ends', 'owner killed'):
            scene(args, env, kind, how)


if __name__ == '__main__':
    main()
