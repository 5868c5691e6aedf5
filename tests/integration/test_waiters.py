#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who waits for memory, when many do: order, time-outs, circles, death, and a limit that is raised."""
import os
import signal
import time

import tap
import world
from world import MIB, Gpu, until

OOM = 'error 2'
N = 15


class Waiters(world.World):
    PROFILE = 'small4g'

    def room(self):
        return self.status()[0]['vram_burst_bytes'] // MIB

    def waiting(self):
        return self.status()[0]['waiting']

    def fill(self, g):
        self.settled()
        said = g(f'alloc {self.room() // 2 * 2 - 2}M')
        self.assertTrue(said.startswith('ok'), (said, self.status()))
        return said.split()[1]

    def test_e7_many_jobs_wait_for_admission_in_order(self):
        """one place for many: latency first, then normal, then batch, each by age; none forgotten"""
        first = self.start_job('-J', 'first', '--vram', '3G', '--', 'sleep', '60')
        self.assertTrue(until(lambda: self.ps('first')))
        log = self.dir / 'order'
        expected, jobs = {'latency': [], 'normal': [], 'batch': []}, []
        for i in range(N):
            job_class = ('batch', 'normal', 'latency')[i % 3]
            jobs.append(self.start_job('-J', f'w{i}', '--class', job_class, '--vram', '3G', '--',
                                       'sh', '-c', f'echo {i} >> {log}'))
            expected[job_class].append(i)
            self.assertTrue(until(lambda n=i + 1: self.waiting() == n), (i, self.status()))
        self.assertEqual(self.cli('cancel', self.ps('first')[0]['job']).returncode, 0)
        first.wait(20)
        for p in jobs:
            self.assertEqual(p.wait(30), 0, p.stderr.read())
        self.assertEqual([int(x) for x in log.read_text().split()],
                         expected['latency'] + expected['normal'] + expected['batch'])
        self.assertEqual(self.waiting(), 0)

    def test_k1_waiters_for_memory_by_class_then_age(self):
        """room for one at a time: each goes when the one before it has given back"""
        classes = 'batch', 'normal', 'latency', 'batch', 'latency'
        holder = Gpu(self, '-J', 'holder').start()
        gpus = [Gpu(self, '-J', f'w{i}', '--class', c).start() for i, c in enumerate(classes)]
        said = holder('alloc 512M')
        block = said.split()[1]
        self.fill(holder)
        for i, g in enumerate(gpus):
            g.tell('alloc 512M')
            self.assertTrue(until(lambda n=i + 1: self.waiting() == n), self.status())
        self.assertEqual(holder(f'free {block}'), 'ok')
        for n, i in enumerate((2, 4, 1, 0, 3)):
            self.assertTrue(gpus[i].hear().startswith('ok'), i)
            self.assertEqual(self.waiting(), len(classes) - n - 1)
            self.assertEqual(gpus[i]('free 0'), 'ok')

    def test_a20_each_waits_as_long_as_it_said(self):
        gpus = [Gpu(self, '-J', f'w{t}', '--when-full', f'wait={t}ms').start() for t in (300, 900, 1500)]
        holder = Gpu(self, '-J', 'holder').start()
        self.fill(holder)
        start = time.monotonic()
        for g in gpus:
            g.tell('alloc 512M')
        for g, t in zip(gpus, (0.3, 0.9, 1.5)):
            self.assertEqual(g.hear(), OOM)
            self.assertGreaterEqual(time.monotonic() - start, t - 0.01)
            self.assertLess(time.monotonic() - start, t + 1.5)
        self.assertIn('waited', gpus[0].end())

    def test_a_circle_of_two_is_broken_at_the_youngest(self):
        a = Gpu(self, '-J', 'a', '--when-full', 'wait=30s').start()
        b = Gpu(self, '-J', 'b', '--when-full', 'wait=30s').start()
        half = self.room() // 2 - 64
        self.assertTrue(a(f'alloc {half}M').startswith('ok'))
        self.assertTrue(b(f'alloc {half}M').startswith('ok'))
        self.settled()
        a.tell('alloc 512M')
        self.assertTrue(until(lambda: self.waiting() == 1))
        start = time.monotonic()
        b.tell('alloc 512M')
        self.assertEqual(b.hear(), OOM)
        self.assertGreater(time.monotonic() - start, 0.8)
        self.assertLess(time.monotonic() - start, 4)
        self.assertEqual(b('free 0'), 'ok')
        self.assertTrue(a.hear().startswith('ok'))
        self.assertIn('wait', b.end())

    def test_a_waiter_that_is_killed_leaves_the_line(self):
        a, b, holder = (Gpu(self, '-J', n, '--when-full', 'wait=30s').start() for n in ('a', 'b', 'holder'))
        block = self.fill(holder)
        a.tell('alloc 512M')
        self.assertTrue(until(lambda: self.waiting() == 1))
        b.tell('alloc 64M')
        self.assertTrue(until(lambda: self.waiting() == 2))
        os.kill(a.pid, signal.SIGKILL)
        self.assertTrue(b.hear().startswith('ok'), 'the room of the dead is for the next in line')
        self.assertEqual(holder(f'free {block}'), 'ok')
        self.assertTrue(until(lambda: self.waiting() == 0))

    def test_a_lowered_neighbour_and_a_raised_request_let_a_waiter_go(self):
        a = Gpu(self, '-J', 'a', '--when-full', 'wait=30s').start()
        promised = self.start_job('-J', 'promised', '--vram', '2G', '--', 'sleep', '60')
        self.assertTrue(until(lambda: [i for i in self.ps('promised') if i['state'] == 'running']))
        a.tell('alloc 2G')
        self.assertTrue(until(lambda: self.waiting() == 1))
        job = self.ps('promised')[0]['job']
        self.assertEqual(self.cli('set', job, 'vram=256M').returncode, 0)
        self.assertTrue(a.hear().startswith('ok'))
        promised.terminate()

    def test_sixteen_threads_of_one_process_wait(self):
        """each on a connection of its own, answered in its turn"""
        holder = Gpu(self, '-J', 'holder', '--when-full', 'wait=30s').start()
        a = Gpu(self, '-J', 'a', '--when-full', 'wait=30s').start()
        block = self.fill(holder)
        a.tell('threads 16 64M')
        self.assertTrue(until(lambda: self.waiting() == 16, 5), self.status())
        self.assertTrue(a.p.poll() is None)
        self.assertEqual(holder(f'free {block}'), 'ok')
        self.assertEqual(a.hear(), 'ok 0')


if __name__ == '__main__':
    tap.main()
