#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replay the call sequences and compare with what the real card answered.

    compare.py sim  BUILD    the program on the simulator itself
    compare.py shim BUILD    the same inside a job without a limit, so through the shim
    compare.py --pair …      what needs two GPUs, which has recordings of its own
    compare.py --lines A B   two folders of transcripts, as a diff, for a person to read

Every sequence is one test. A line that differs must be matched by an entry of
expected-differences.txt; an entry that matches nothing is a failed test too, so that the list
shrinks as the simulator learns. Prints TAP.
"""
import argparse
import difflib
import fnmatch
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent


class World:
    """what is replayed, on which machine"""
    recordings, expected = HERE / 'recordings', HERE / 'expected-differences.txt'
    profile, options, job, third = 'h200', [], [], False

    @classmethod
    def pair(cls):
        cls.recordings, cls.expected = HERE / 'recordings-pair', HERE / 'expected-differences-pair.txt'
        # through the shim: on a machine with a third GPU before the two, which the job must not see
        cls.profile, cls.options, cls.job, cls.third = 'h200x2', ['--pair'], ['-g', '1,2'], True


TRIES = 3
RACE = 'race: '  # such a difference need not show
TIME_LIMIT_S = 240


def read_transcripts(folder):
    """{sequence: [lines]} of every group file in the folder; a broken file is said, not skipped"""
    sequences, problems = {}, []
    for path in sorted(folder.glob('*.txt')):
        name = None
        for line in path.read_text(encoding='utf-8', errors='replace').splitlines():
            if line.startswith('== '):
                name = line[3:]
                if name in sequences:
                    problems.append(f'{path.name}: {name} is there twice')
                sequences[name] = []
            elif line == '--':
                name = None
            elif name is not None:
                if line:
                    sequences[name].append(line)
            elif line:
                problems.append(f'{path.name}: a line outside of a sequence: {line}')
        if name is not None:
            problems.append(f'{path.name}: {name} has no end')
    return sequences, problems


def differing(recorded, replayed):
    """the lines of a diff that count: '-' is the card's, '+' the replay's"""
    return [line for line in difflib.unified_diff(recorded, replayed, n=0, lineterm='')
            if line[:1] in '+-' and line[:3] not in ('---', '+++')]


class Expected:
    """expected-differences.txt: where | sequences | regular expression | reason"""

    def __init__(self, path, where):
        self.entries, self.problems = [], []
        for number, text in enumerate(path.read_text(encoding='utf-8').splitlines(), 1):
            if not text.strip() or text.startswith('#'):
                continue
            fields = [f.strip() for f in text.split(' | ')]
            if len(fields) != 4 or fields[0] not in ('sim', 'shim', 'both') or not all(fields):
                self.problems.append(f'line {number}: not "sim|shim|both | sequences | regular '
                                     f'expression | reason": {text}')
                continue
            try:
                pattern = re.compile(fields[2])
            except re.error as e:
                self.problems.append(f'line {number}: {e}: {fields[2]}')
                continue
            if fields[0] in (where, 'both'):
                self.entries.append({'line': number, 'sequences': fields[1], 'pattern': pattern,
                                     'reason': fields[3], 'used': 0})

    def would_explain(self, sequence, line):
        return any(fnmatch.fnmatchcase(sequence, e['sequences']) and e['pattern'].search(line)
                   for e in self.entries)

    def explains(self, sequence, line):
        for e in self.entries:
            if fnmatch.fnmatchcase(sequence, e['sequences']) and e['pattern'].search(line):
                e['used'] += 1
                return True
        return False


class Tap:
    def __init__(self):
        self.count = self.failed = 0

    def test(self, name, problems):
        self.count += 1
        self.failed += bool(problems)
        print(f'{"not ok" if problems else "ok"} {self.count} - {name}')
        for p in problems:
            print(f'#   {p}')

    def end(self):
        print(f'1..{self.count}')
        return 1 if self.failed else 0


def program(build):
    return [str(build / 'tests/conformance/conform')]


def libraries(build):
    """the simulator's two libraries in one folder, whether laid out already or not"""
    sim = build / 'sim'
    if (sim / 'libcuda.so.1').exists():
        return sim / 'libcuda.so.1', sim / 'libnvidia-ml.so.1'
    return sim / 'cuda/libcuda.so.1', sim / 'nvml/libnvidia-ml.so.1'


def replay(args, env, out, log, jobs):
    with open(log, 'w', encoding='utf-8') as f:
        try:
            done = subprocess.run(args + ['--out', str(out), '--jobs', str(jobs), *World.options], env=env, stdout=f,
                                  stderr=subprocess.STDOUT, timeout=TIME_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            return [f'not done after {TIME_LIMIT_S} s']
    if done.returncode != 0:
        return [f'exit {done.returncode}'] + pathlib.Path(log).read_text().splitlines()[-20:]
    return []


def replay_on_sim(build, work, jobs):
    state = work / 'sim'
    state.mkdir()
    profile = find_profile(build)
    if profile:
        shutil.copy(profile, state / 'profile.conf')
    env = dict(os.environ, ALLOT_SIM_DIR=str(state))
    cuda, nvml = libraries(build)
    return replay(program(build) + ['--lib', str(cuda), '--nvml', str(nvml)], env, work / 'out',
                  work / 'log', jobs)


def find_profile(build):
    for folder in (HERE.parent.parent / 'sim/profiles', build / 'sim/profiles'):
        if (folder / f'{World.profile}.conf').exists():
            return folder / f'{World.profile}.conf'
    return None


def with_a_third(profile, work):
    """the profile with one more device, which comes first by its PCI address"""
    head, device = profile.read_text(encoding='utf-8').split('[device]', 1)
    device = device.split('[device]')[0]
    device = re.sub(r'uuid = .*', f'uuid = GPU-{uuid.uuid4()}', device)
    device = re.sub(r'pci = .*', 'pci = 00000000:01:00.0', device)
    (work / 'three.conf').write_text(head + '[device]' + device + profile.read_text(encoding='utf-8')[len(head):], encoding='utf-8')
    return work / 'three.conf'


def replay_through_shim(build, work, jobs):
    """a daemon of our own on a private socket, and the program as a job of it, no limit set"""
    socket = work / 'allotd.sock'
    env = dict(os.environ, ALLOT_SOCKET=str(socket), XDG_RUNTIME_DIR=str(work),
               XDG_STATE_HOME=str(work / 'state'))
    profile = with_a_third(find_profile(build), work) if World.third else World.profile
    with open(work / 'allotd.log', 'w', encoding='utf-8') as log:
        daemon = subprocess.Popen([str(build / 'bin/allotd'), '--foreground', f'--sim={profile}',
                                   '--socket', str(socket), '--state', str(work / 'state')],
                                  env=env, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 10
        while not socket.exists() and daemon.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        if not socket.exists():
            return ['no daemon: ' + (work / 'allotd.log').read_text()[-2000:]]
        problems = replay([str(build / 'bin/allot'), 'run', *World.job, '--'] + program(build), env,
                          work / 'out', work / 'log', jobs)
    finally:
        daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
    return problems


def one_replay(tap, where, build, jobs):
    """{sequence: [lines]} of one run; its own faults go to tap"""
    run = replay_on_sim if where == 'sim' else replay_through_shim
    with tempfile.TemporaryDirectory(prefix='allot-conform-') as work:
        work = pathlib.Path(work)
        problems = run(build, work, jobs)
        replayed, broken = read_transcripts(work / 'out') if (work / 'out').exists() else ({}, [])
        if tap:
            tap.test(f'{where}: the program ran', problems)
            tap.test(f'{where}: the transcripts are whole', broken)
        if tap and os.environ.get('ALLOT_KEEP_TRANSCRIPTS'):
            shutil.copytree(work, os.environ['ALLOT_KEEP_TRANSCRIPTS'] + '/' + where,
                            dirs_exist_ok=True, ignore=shutil.ignore_patterns('*.sock', 'sim'))
    return replayed


def differing_sequences(folders, replayed, expected):
    found = set()
    for folder in folders:
        recorded, _ = read_transcripts(folder)
        found |= {name for name in set(recorded) & set(replayed)
                  if not all(expected.would_explain(name, line)
                             for line in differing(recorded[name], replayed[name]))}
    return found


def compare(where, build):
    tap = Tap()
    folders = sorted(p for p in World.recordings.iterdir() if p.is_dir() and any(p.glob('*.txt')))
    if not folders:
        tap.test(f'{where}: there are recordings', [f'none in {World.recordings}'])
        return tap.end()
    expected = Expected(World.expected, where)
    tap.test(f'{where}: {World.expected.name} can be read', expected.problems)
    replayed = one_replay(tap, where, build, 4)
    # Some answers depend on what came first, the program or the work. A busy machine may turn that
    # round once; a sequence that differs is asked again, alone. One that differs always is a fault.
    for _ in range(TRIES - 1):
        again = differing_sequences(folders, replayed, expected)
        if not again:
            break
        later = one_replay(None, where, build, 1)
        for name in again & set(later):
            if not differing_sequences(folders, {name: later[name]}, expected):
                replayed[name] = later[name]
    for folder in folders:
        compare_folder(tap, where, folder, replayed, expected)
    for e in expected.entries:
        if not e['used'] and not e['reason'].startswith(RACE):
            tap.test(f'{where}: line {e["line"]} of {World.expected.name} is needed',
                     [f'nothing differs so: {e["sequences"]} | {e["pattern"].pattern}'])
    return tap.end()


def compare_folder(tap, where, folder, replayed, expected):
    recorded, broken = read_transcripts(folder)
    tap.test(f'{where}: {folder.name} can be read', broken)
    for name in sorted(set(recorded) | set(replayed)):
        if name not in recorded:
            problems = ['never recorded']
        elif name not in replayed:
            problems = ['not replayed']
        else:
            problems = [line for line in differing(recorded[name], replayed[name])
                        if not expected.explains(name, line)]
        tap.test(f'{where}: {name}', problems)


def show(a, b):
    left, _ = read_transcripts(pathlib.Path(a))
    right, _ = read_transcripts(pathlib.Path(b))
    for name in sorted(set(left) | set(right)):
        lines = differing(left.get(name, []), right.get(name, []))
        if lines:
            print(f'== {name}')
            print('\n'.join(lines))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--lines', action='store_true')
    parser.add_argument('--pair', action='store_true')
    parser.add_argument('what')
    parser.add_argument('folder', type=pathlib.Path)
    args = parser.parse_args()
    if args.pair:
        World.pair()
    if args.lines:
        return show(args.what, args.folder)
    if args.what not in ('sim', 'shim'):
        parser.error(f"'{args.what}' is neither sim nor shim")
    return compare(args.what, args.folder.resolve())


if __name__ == '__main__':
    sys.exit(main())
