#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of anybody at any moment, a hundred times, and nobody else notices for long.

A bystander allocates and frees all the time and its longest pause is measured; around it jobs are
started, and a random process of them, of allot's or a keeper is killed or stopped at a random
moment.  The seed is printed with a failure and can be set (HAVOC_SEED)."""
import os
import random
import signal
import subprocess
import threading
import time

import tap
import world
from world import ALLOT, BUILD, MIB, Gpu, alive, until

STORM = str(BUILD / 'tests/programs/gpu_storm')
STALL_S = 1.0
# on a machine that is busy with other tests everything takes longer than it does to decide
PATIENCE = 3.0
MOST_S = 20


def processes(folder):
    """{pid: command} of everything that has to do with this world"""
    found = {}
    for name in os.listdir('/proc'):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f'/proc/{name}/cmdline', 'rb') as f:
                command = f.read()
            with open(f'/proc/{name}/environ', 'rb') as f:
                environ = f.read()
        except OSError:
            continue
        if command and (folder.encode() in command or folder.encode() in environ):
            found[int(name)] = command.split(b'\0')[0].decode(errors='replace')
    return found


class Bystander(threading.Thread):
    def __init__(self, gpu):
        super().__init__(daemon=True)
        self.gpu, self.longest, self.rounds, self.wrong, self.ended = gpu, 0.0, 0, None, False

    def run(self):
        while not self.ended and not self.wrong:
            start = time.monotonic()
            # more than the credit ahead, so that allotd is asked
            said = self.gpu('threads 1 96M')
            if said != 'ok 0':
                self.wrong = said
            self.longest = max(self.longest, time.monotonic() - start)
            self.rounds += 1
            time.sleep(0.002)


class Havoc(world.World):
    def setUp(self):
        super().setUp()
        self.seed = int(os.environ.get('HAVOC_SEED', '0')) or random.SystemRandom().randrange(1, 1 << 30)
        self.random = random.Random(self.seed)
        self.jobs = []

    def job(self):
        p = subprocess.Popen([ALLOT, 'run', '-J', 'victim', '--vram', '1G:1500M', '--', STORM, '2', '2', '1000000',
                              str(self.random.randrange(1 << 20)), '400'], env=self.env, stdin=subprocess.PIPE,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(p.stdin.close)
        self.children.append(p)
        self.jobs.append(p)

    def by_name(self, name, spare=()):
        return [pid for pid, command in processes(str(self.dir)).items()
                if os.path.basename(command) == name and pid not in spare]

    def victim(self, kind, spare):
        pids = self.by_name(kind, spare)
        return self.random.choice(pids) if pids else None

    def end_all(self):
        for p in self.jobs:
            p.terminate()
        # a program whose keeper was killed goes on; here it must not
        for pid in self.by_name('gpu_storm'):
            self.kill(pid)
        for p in self.jobs:
            try:
                p.wait(10)
            except subprocess.TimeoutExpired:
                p.kill()

    def havoc(self, kinds, rounds, deed):
        gpu = Gpu(self, '-J', 'bystander', '--vram', '2G').start()
        spare = {gpu.pid, gpu.p.pid}
        watcher = Bystander(gpu)
        watcher.start()
        start, done = time.monotonic(), 0
        for i in range(rounds):
            self.jobs = [p for p in self.jobs if p.poll() is None]
            while len(self.jobs) < 3:
                self.job()
            time.sleep(self.random.random() * 0.1)
            pid = self.victim(kinds[i % len(kinds)], spare)
            if pid:
                deed(pid)
                done += 1
            self.assertIsNone(watcher.wrong, f'seed {self.seed}, round {i}: {self.said()}')
            if time.monotonic() - start > MOST_S:
                break
        self.end_all()
        time.sleep(0.5)
        watcher.ended = True
        watcher.join(10)
        self.assertFalse(watcher.is_alive(), f'seed {self.seed}: the bystander hangs')
        self.assertIsNone(watcher.wrong)
        print(f'# {done} of {rounds} in {time.monotonic() - start:.1f} s, longest pause {watcher.longest:.2f} s, {watcher.rounds} rounds')
        self.assertGreater(done, 5)
        self.assertLess(watcher.longest, STALL_S * PATIENCE, f'seed {self.seed}')
        self.assertTrue(until(lambda: len(self.ps()) == 1, 10), f'seed {self.seed}: {[(i["job"], i["pid"], i["state"]) for i in self.ps()]}')
        gpu.end()
        self.assertTrue(until(lambda: self.held() == 0 and not self.ps(), 10), f'seed {self.seed}: {self.status()}')
        left = until(lambda: not [p for p, c in processes(str(self.dir)).items()
                                  if os.path.basename(c) not in ('allotd', 'allot-sampler') and alive(p)], 5)
        self.assertTrue(left, processes(str(self.dir)))
        # room for a job of the whole card: nothing is held back for ghosts
        most = self.status()[0]['vram_allocatable_bytes'] // MIB
        self.assertEqual(self.run_job('--vram', f'{most}M', '--immediate', '--', 'true').returncode, 0, self.status())

    def kill(self, pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def test_e1_kill_9_of_anybody(self):
        self.havoc(['gpu_storm', 'allot-keeper', 'gpu_storm', 'allotd', 'gpu_storm', 'allot-sampler'], 100, self.kill)

    def test_e2_stopping_anybody(self):
        def stop(pid):
            try:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(self.random.random() * 0.3)
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        self.havoc(['gpu_storm', 'allot-keeper', 'gpu_storm', 'allot-sampler'], 20, stop)


if __name__ == '__main__':
    tap.main()
