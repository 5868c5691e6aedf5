#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stream-ordered allocations at the limit, from many processes and threads of one job at once, while
an outsider reads NVML: what has its place in a pool is served, nothing goes far over the limit, and
whoever stands still, dies or restarts holds nobody up (tests/programs/gpu_pools.c)."""
import os
import signal
import subprocess
import sys
import time

import tap
import world
from world import ALLOT, BUILD, MIB, until

POOLS = str(BUILD / 'tests/programs/gpu_pools')
LIMIT = 4096 * MIB  # six contexts and some room
SLACK = 128 * MIB
PROCESSES, THREADS = 6, 3


class Pools(world.World):
    def setUp(self):
        super().setUp()
        folder = str(next(p.parent for p in self.dir.rglob('profile.conf')))
        self.watch = subprocess.Popen([sys.executable, os.path.join(os.path.dirname(__file__), 'watch.py'), folder],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.children.append(self.watch)
        self.addCleanup(self.watch.stdin.close)
        self.assertEqual(self.watch.stdout.readline(), 'watching\n')

    def job(self, mode, seconds):
        """started, and at its limit"""
        self.p = subprocess.Popen([ALLOT, 'run', '-J', 'pools', '--vram', f'1G:{LIMIT // MIB}M', '--', POOLS, mode, str(PROCESSES),
                                   str(THREADS), str(seconds)], env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=self.log, text=True)
        self.children.append(self.p)
        self.workers, self.done = [], {}
        for line in self.p.stdout:
            words = line.split()
            if words[0] == 'full':
                break
            self.workers.append(int(words[1]))
        self.assertEqual(len(self.workers), PROCESSES, self.said())

    def end(self):
        """{pid: (calls, refused, longest in ms)} of those that came to their end"""
        for line in self.p.stdout:
            pid, *rest = map(int, line.split()[1:])
            self.done[pid] = tuple(rest)
        status = self.p.wait(20)
        self.watch.stdin.close()
        lines = [line.split() for line in self.watch.stdout.read().splitlines()]
        self.assertGreater(int(lines.pop()[1]), 20)
        with_job = max(int(used) for _, _, used in lines)
        self.assertLessEqual(with_job, LIMIT + SLACK)
        self.assertGreater(with_job, LIMIT - 64 * MIB)  # it was there
        return status

    def check_served(self, pids, longest_ms):
        for pid in pids:
            calls, refused, longest = self.done[pid]
            self.assertGreater(calls, 10)
            self.assertEqual(refused, 0, f'{self.done}\n{self.said()}')
            self.assertLess(longest, longest_ms, self.done)

    def test_a1_a5_what_fits_is_served_at_the_limit(self):
        self.job('fit', 2)
        self.assertEqual(self.end(), 0, self.said())
        self.check_served(self.workers, 3000)
        self.assertEqual(len(self.done), PROCESSES)

    def test_a1_a3_what_grows_is_refused_and_undone(self):
        self.job('grow', 2)
        self.assertEqual(self.end(), 0, self.said())
        self.assertGreater(sum(refused for _, refused, _ in self.done.values()), 0)
        self.assertGreater(sum(calls - refused for calls, refused, _ in self.done.values()), 0)
        self.assertTrue(until(lambda: self.held() == 0 and not self.ps(), 5), self.ps())

    def test_e2_who_is_stopped_holds_nobody_up(self):
        self.job('fit', 4)
        for pid in self.workers[1:3]:  # wherever they are in their turn
            os.kill(pid, signal.SIGSTOP)
        time.sleep(2.5)
        for pid in self.workers[1:3]:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(self.end(), 0, self.said())
        self.check_served(set(self.workers) - set(self.workers[1:3]), 1800)

    def test_e1_who_is_killed_gives_its_turn_back(self):
        self.job('fit', 3)
        for pid in self.workers[1:4]:
            time.sleep(0.3)
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(self.end(), 0, self.said())
        self.check_served(set(self.workers) - set(self.workers[1:4]), 3000)

    def test_e3_allotd_is_killed_and_comes_back(self):
        self.job('fit', 4)
        time.sleep(0.5)
        self.kill_daemon()
        self.start_daemon()
        self.assertEqual(self.end(), 0, self.said())
        self.check_served(self.workers, 4000)
        self.assertTrue(until(lambda: self.held() == 0 and not self.ps(), 5), self.ps())


if __name__ == '__main__':
    tap.main()
