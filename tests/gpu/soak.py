#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random programs start, allocate, free and die, for minutes, while an outsider reads NVML.

Usage: soak.py BUILD [--seconds N] [--seed N] [--slots N] [--only KINDS] [--sim]

What must hold, at every moment: NVML's sum over a job's processes is at most its limit and 128 MiB
(the driver's own growth).  Where a job stands still, ledger and NVML differ by at most 64 MiB.
A job that asks for less than its part is never refused.  At the end nothing is held and nothing is
left behind.  Ends with a table and "N passed, N failed".  Only our own processes are touched.
"""
import argparse
import collections
import ctypes
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
GIB, MIB = 1 << 30, 1 << 20
SLACK = 128 * MIB
DRIFT = 64 * MIB
CONTEXT = 640 * MIB  # more than one costs on any card so far
BIGGEST = 256 * MIB  # gpu_storm's largest single thing


class Nvml:
    """NVML by ctypes, outside every job"""

    class Proc(ctypes.Structure):
        _fields_ = [('pid', ctypes.c_uint), ('used', ctypes.c_ulonglong), ('gi', ctypes.c_uint), ('ci', ctypes.c_uint)]

    class Memory(ctypes.Structure):
        _fields_ = [('total', ctypes.c_ulonglong), ('free', ctypes.c_ulonglong), ('used', ctypes.c_ulonglong)]

    def __init__(self, library):
        self.lib = ctypes.CDLL(library)
        assert self.lib.nvmlInit_v2() == 0
        self.handle = ctypes.c_void_p()
        assert self.lib.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle)) == 0
        self.array = (self.Proc * 1024)()

    def processes(self):
        n = ctypes.c_uint(1024)
        if self.lib.nvmlDeviceGetComputeRunningProcesses_v3(self.handle, ctypes.byref(n), self.array) != 0:
            return {}
        unknown = 2**64 - 1
        return {p.pid: p.used for p in self.array[:n.value] if p.used != unknown}

    def memory(self):
        m = self.Memory()
        assert self.lib.nvmlDeviceGetMemoryInfo(self.handle, ctypes.byref(m)) == 0
        return m

    def driver(self):
        buf = ctypes.create_string_buffer(80)
        self.lib.nvmlSystemGetDriverVersion(buf, 80)
        return buf.value.decode()


def parent(pid):
    try:
        with open(f'/proc/{pid}/stat', encoding='latin-1') as f:
            return int(f.read().rsplit(')', 1)[1].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


class Referee(threading.Thread):
    """reads NVML all the time and adds up each job's processes; who is whose by the chain of parents, once known for ever"""

    def __init__(self, nvml):
        super().__init__(daemon=True)
        self.nvml, self.jobs, self.whose = nvml, {}, {}
        self.samples, self.most_over, self.most_used, self.faults, self.stop = 0, -1 << 60, 0, [], False
        self.now = {}

    def find(self, pid):
        if pid not in self.whose:
            up = pid
            while up > 1 and up not in self.jobs:
                up = parent(up)
            if up > 1:
                self.whose[pid] = self.jobs[up]
        return self.whose.get(pid)

    def run(self):
        while not self.stop:
            sums = collections.Counter()
            self.now = self.nvml.processes()
            for pid, used in self.now.items():
                job = self.find(pid)
                if job:
                    sums[job] += used
            for job, used in sums.items():
                job.peak = max(job.peak, used)
                over = used - job.limit
                self.most_over = max(self.most_over, over)
                if over > SLACK and not job.is_over:
                    job.is_over = True
                    self.faults.append(f'{job.name}: NVML saw {over / MIB:.0f} MiB over the limit of {job.limit / MIB:.0f} MiB')
            self.most_used = max(self.most_used, sum(sums.values()))
            self.samples += 1
            time.sleep(0.0005)


class Job:
    def __init__(self, name, limit):
        self.name, self.limit, self.peak, self.is_over = name, limit, 0, False


class Soak:
    def __init__(self, args):
        self.args = args
        self.build = pathlib.Path(args.build).resolve()
        self.work = pathlib.Path(tempfile.mkdtemp(prefix='allot-soak.'))
        self.env = {**os.environ, 'ALLOT_SOCKET': str(self.work / 'allotd.sock')}
        self.allot = str(self.build / 'bin/allot')
        self.lock = threading.Lock()
        self.faults, self.counts = [], collections.Counter()
        self.most_drift, self.drifts, self.waited = 0, 0, 0
        self.log = open(self.work / 'allotd.log', 'w')
        mode = ['--sim=h200'] if args.sim else []
        self.daemon = subprocess.Popen([str(self.build / 'bin/allotd'), '--foreground', '--socket', self.env['ALLOT_SOCKET'],
                                        '--state', str(self.work / 'state'), *mode], stderr=self.log, stdin=subprocess.DEVNULL)
        if not self.until(lambda: self.verb('status').returncode == 0, 20):
            sys.exit('allotd does not start: ' + (self.work / 'allotd.log').read_text())
        library = 'libnvidia-ml.so.1'
        if args.sim:
            library = str(next(self.work.rglob('profile.conf')).parent / library)
        self.nvml = Nvml(library)
        self.before = self.nvml.memory().used
        self.referee = Referee(self.nvml)
        self.end = time.time() + args.seconds
        self.has_torch = not args.sim and subprocess.run([sys.executable, '-c', 'import torch'], capture_output=True,
                                                         check=False).returncode == 0

    @staticmethod
    def until(condition, seconds):
        end = time.time() + seconds
        while time.time() < end:
            if condition():
                return True
            time.sleep(0.05)
        return condition()

    def verb(self, *args):
        return subprocess.run([self.allot, *args], env=self.env, capture_output=True, text=True, check=False, timeout=30)

    def items(self, verb):
        out = self.verb(verb, '-o', 'json')
        return json.loads(out.stdout)['items'] if out.returncode == 0 else []

    def fault(self, text):
        with self.lock:
            self.faults.append(text)

    def count(self, what, n=1):
        with self.lock:
            self.counts[what] += n

    # ---- one job ----

    def start(self, name, limit, options, *cmd):
        job = Job(name, limit)
        p = subprocess.Popen([self.allot, 'run', '-J', name, *options, '--', *map(str, cmd)], env=self.env, text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(self.work / name, 'w'))
        self.referee.jobs[p.pid] = job
        return job, p

    def said(self, name):
        return (self.work / name).read_text()

    def finish(self, p, name, want=0):
        """the command is to end by itself now"""
        if not p.stdin.closed:
            p.stdin.close()
        try:
            rc = p.wait(90)
        except subprocess.TimeoutExpired:
            p.kill()
            rc = p.wait()
            self.fault(f'{name}: did not end')
        p.stdout.close()
        if rc != want:
            self.fault(f'{name}: ended with {rc}: {self.said(name)[-300:]}')
        (self.work / name).unlink(missing_ok=True)

    def storm(self, r, name, is_roomy):
        processes, threads, demand = r.randint(1, 3), r.randint(1, 5), r.choice((100, 400, 900, 2500))
        most = processes * (threads * (demand * MIB + 3 * BIGGEST + CONTEXT) + 2 * CONTEXT)
        limit = most if is_roomy else max(processes * CONTEXT + GIB, int(most * r.uniform(0.2, 0.7)))
        options = ['--vram', f'{limit // MIB}M' if is_roomy else f'1G:{limit // MIB}M']
        job, p = self.start(name, limit // MIB * MIB, options, self.build / 'tests/programs/gpu_storm', processes, threads,
                            r.randint(200, 4000), r.randint(1, 1 << 30), demand)
        workers, done, refused = [], 0, 0
        while done < processes:
            words = p.stdout.readline().split()
            if not words:
                break
            if words[0] == 'worker':
                workers.append(int(words[1]))
            else:
                done, refused = done + 1, refused + int(words[2])
                self.count('operations', int(words[1]))
        if done == processes:
            self.stand_still(name, workers)
        self.count('refusals', refused)
        if is_roomy and refused:
            self.fault(f'{name}: {refused} refused, though it has room: {self.said(name)[-300:]}')
        self.finish(p, name)
        return job

    def stand_still(self, name, workers):
        """all of it waits: what the ledger says and what NVML says is one"""
        drift = 0

        def is_close():
            nonlocal drift
            rows = {i['pid']: i['vram_used_bytes'] for i in self.items('ps') if i['pid'] in workers}
            drift = max((abs(rows.get(pid, 0) - self.referee.now.get(pid, 0)) for pid in workers), default=0)
            return drift <= DRIFT
        if not self.until(is_close, 3):
            self.fault(f'{name}: ledger and NVML differ by {drift / MIB:.0f} MiB')
        with self.lock:
            self.most_drift, self.drifts = max(self.most_drift, drift), self.drifts + 1

    def exact(self, r, name):
        limit = r.randint(1500, 6000) * MIB
        _, p = self.start(name, limit, ['--vram', f'{limit // MIB}M'], self.build / 'tests/programs/gpu_storm', 'exact',
                          r.randint(200, 3000), r.randint(1, 1 << 30), 0)
        self.finish(p, name)

    def killed(self, r, name):
        """one that does not end well: kill -9 of a process of it, of all of them, or of its keeper"""
        processes, limit = r.randint(1, 3), r.randint(2, 30) * GIB
        _, p = self.start(name, limit, ['--vram', f'1G:{limit // GIB}G'], self.build / 'tests/programs/gpu_storm', processes,
                          r.randint(1, 4), 1 << 30, r.randint(1, 1 << 30), limit // MIB)
        workers = []
        while len(workers) < processes:
            words = p.stdout.readline().split()
            if not words:
                break
            if words[0] == 'worker':
                workers.append(int(words[1]))
        time.sleep(r.uniform(0, 4))
        how = r.choice(('one', 'all', 'keeper', 'cancel'))
        self.count('killed')
        for pid in {'one': workers[:1], 'all': workers, 'keeper': [p.pid], 'cancel': []}[how]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if how == 'cancel':
            job = next((i['job'] for i in self.items('ps') if i['name'] == name), None)
            if job:
                self.verb('cancel', str(job))
        if how == 'keeper':
            time.sleep(1)
            for pid in workers:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        p.stdin.close()
        try:
            p.wait(60)
        except subprocess.TimeoutExpired:
            self.fault(f'{name}: {how} was killed, and it does not end')
            p.kill()
            p.wait()
        p.stdout.close()
        if not self.until(lambda: not any(pid in self.referee.now for pid in workers), 20):
            self.fault(f'{name}: {how} was killed, and some of it still holds memory')
        (self.work / name).unlink(missing_ok=True)

    def torch(self, r, name):
        limit = r.randint(10, 30) * GIB
        _, p = self.start(name, limit, ['--vram', f'{limit // GIB}G'], sys.executable, HERE / 'programs/torch_train.py', '4')
        if 'result:' not in p.stdout.read():
            self.fault(f'{name}: no result: {self.said(name)[-300:]}')
        self.finish(p, name)

    def slot(self, number):
        r = random.Random(self.args.seed * 1000 + number)
        kinds = ['storm'] * 5 + ['roomy'] * 3 + ['exact'] * 2 + ['killed'] * 3 + ['torch'] * self.has_torch
        kinds, n = self.args.only.split(',') if self.args.only else kinds, 0
        while time.time() < self.end:
            kind, n = r.choice(kinds), n + 1
            name = f'{kind}-{number}-{n}'
            self.count(kind)
            if kind in ('storm', 'roomy'):
                self.storm(r, name, kind == 'roomy')
            else:
                getattr(self, kind)(r, name)

    def run_slot(self, number):
        try:
            self.slot(number)
        except Exception as e:  # a slot that dies must not look like one that found nothing
            self.fault(f'slot {number}: {type(e).__name__}: {e}')

    # ---- all of it ----

    def watch_waiting(self):
        while time.time() < self.end:
            self.waited = max([self.waited] + [g['waiting'] for g in self.items('status')])
            time.sleep(1)

    def main(self):
        self.referee.start()
        threads = [threading.Thread(target=self.run_slot, args=(i,), daemon=True) for i in range(self.args.slots)]
        threads.append(threading.Thread(target=self.watch_waiting, daemon=True))
        for t in threads:
            t.start()
        for t in threads:
            t.join(max(1, self.end + 100 - time.time()))
        if any(t.is_alive() for t in threads):
            self.fault('some jobs did not end')
        held = self.until(lambda: not self.items('ps') and not any(self.referee.find(p) for p in self.referee.now), 10)
        time.sleep(1.5)
        status = self.items('status')
        self.referee.stop = True
        self.daemon.terminate()
        self.daemon.wait(10)
        left = self.nvml.memory().used - self.before
        checks = [
            ('no job over its limit by more than 128 MiB', not self.referee.faults,
             f'{self.referee.samples} samples of NVML; the most over a limit: {self.referee.most_over / MIB:.0f} MiB'),
            ('ledger and NVML within 64 MiB', all('differ' not in f for f in self.faults),
             f'{self.drifts} comparisons; the most: {self.most_drift / MIB:.1f} MiB'),
            ('no false refusal', all('though it has room' not in f for f in self.faults), f'{self.counts["roomy"]} jobs with room'),
            ('every job ended as it should', not self.faults, ', '.join(f'{n} {k}' for k, n in sorted(self.counts.items()))),
            ('nothing is held at the end', held and not any(g['vram_drift_bytes'] for g in status), ''),
            ('nothing is left behind', abs(left) <= DRIFT, f'{left / MIB:.0f} MiB'),
        ]
        if self.referee.faults or self.faults:
            print((self.work / 'allotd.log').read_text()[-3000:])
            print('\n'.join((self.referee.faults + self.faults)[:30]))
        print(f'{time.strftime("%Y-%m-%d")} driver {self.nvml.driver()}, {self.args.seconds} s, seed {self.args.seed}, '
              f'{self.args.slots} slots; most used at once {self.referee.most_used / GIB:.1f} GiB, most waiting at once {self.waited}')
        for name, ok, note in checks:
            print(f'{name:46} {"ok" if ok else "FAIL":5} {note}')
        failed = sum(not ok for _, ok, _ in checks)
        print(f'{len(checks) - failed} passed, {failed} failed')
        shutil.rmtree(self.work, ignore_errors=True)
        return 1 if failed else 0


def main():
    p = argparse.ArgumentParser()
    p.add_argument('build')
    p.add_argument('--seconds', type=int, default=540)
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--slots', type=int, default=8)
    p.add_argument('--only', default='', help='kinds of jobs: storm, roomy, exact, killed, torch')
    p.add_argument('--sim', action='store_true')
    sys.exit(Soak(p.parse_args()).main())


main()
