#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ledger's truth in a storm: everything that takes memory, from many processes and threads of
several jobs at once, while an outsider reads NVML (tests/programs/gpu_storm.c, watch.py)."""
import os
import subprocess
import sys

import tap
import world
from world import ALLOT, BUILD, MIB, until

STORM = str(BUILD / 'tests/programs/gpu_storm')
SLACK = 128 * MIB  # the driver's own growth, that no call of the program caused


class Job:
    """one `allot run gpu_storm …`"""

    def __init__(self, test, name, limit, *args):
        self.name, self.limit = name, limit
        self.workers, self.parents, self.done, self.refused = [], set(), 0, 0
        options = ['--vram', f'1G:{limit // MIB}M'] if limit else ['--vram', '1G']
        self.p = subprocess.Popen([ALLOT, 'run', '-J', name, *options, '--', STORM, *map(str, args)], env=test.env,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        test.children.append(self.p)
        self.said = None

    def storm(self, processes):
        """until each of them has given everything back"""
        left = processes
        while left:
            line = self.p.stdout.readline()
            if not line:
                self.end()
                raise AssertionError(f'{self.name}: {self.said}')
            words = line.split()
            if words[0] == 'worker':
                self.workers.append(int(words[1]))
                with open(f'/proc/{words[1]}/stat', encoding='latin-1') as f:
                    self.parents.add(int(f.read().rsplit(')', 1)[1].split()[1]))
            else:
                left -= 1
                self.done += int(words[1])
                self.refused += int(words[2])

    def end(self):
        if self.p.poll() is None:
            self.p.stdin.close()
        self.said = self.p.stderr.read()
        return self.p.wait(30)


class Storm(world.World):
    def setUp(self):
        super().setUp()
        self.watch = subprocess.Popen([sys.executable, os.path.join(os.path.dirname(__file__), 'watch.py'), self.driver()],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.children.append(self.watch)
        self.addCleanup(self.watch.stdin.close)
        self.assertEqual(self.watch.stdout.readline(), 'watching\n')

    def driver(self):
        return str(next(p.parent for p in self.dir.rglob('profile.conf')))

    def most(self):
        """{parent: the most its children held together}, and the number of looks"""
        self.watch.stdin.close()
        lines = [line.split() for line in self.watch.stdout.read().splitlines()]
        self.assertEqual(self.watch.wait(), 0)
        samples = int(lines.pop()[1])
        most = {}
        for parent, _, used in lines:
            most[int(parent)] = max(int(used), most.get(int(parent), 0))
        return most, samples

    def drift(self):
        return sum(abs(g['vram_drift_bytes']) for g in self.status())

    def weather(self, operations):
        """two jobs that want more than their limits, one that has room"""
        shapes = (2, 3), (1, 16), (2, 3)  # processes, threads of each
        jobs = [Job(self, 'tight', 2048 * MIB, *shapes[0], operations, 1, 900),
                Job(self, 'crowd', 1792 * MIB, *shapes[1], operations, 2, 600),
                Job(self, 'wide', 16384 * MIB, *shapes[2], operations, 3, 900)]
        for job, (processes, threads) in zip(jobs, shapes):
            job.storm(processes)
            self.assertEqual(job.done, processes * threads * operations)
        self.assertTrue(until(lambda: self.drift() < 16 * MIB, 5), self.status())
        held = self.settled()
        by_job = {name: sum(i['vram_used_bytes'] for i in self.ps(name)) for name in ('tight', 'crowd', 'wide')}
        self.assertEqual(sum(by_job.values()), held)
        for job in jobs:
            self.assertEqual(job.end(), 0, job.said)
        self.assertTrue(until(lambda: self.held() == 0 and not self.ps(), 5), self.ps())
        self.assertTrue(until(lambda: self.drift() == 0, 3), self.status())
        most, samples = self.most()
        self.assertGreater(samples, 100)
        for job in jobs:
            parent, = job.parents
            self.assertLessEqual(most[parent], job.limit + SLACK, job.name)
        self.assertGreater(jobs[0].refused, 0)
        self.assertGreater(jobs[1].refused, 0)
        self.assertEqual(jobs[2].refused, 0, jobs[2].said)

    def test_a1_a3_a22_no_job_is_ever_over_its_limit(self):
        self.weather(4000)

    def test_a5_what_fits_is_never_refused(self):
        job = Job(self, 'exact', 2048 * MIB, 'exact', 4000, 7, 0)
        job.storm(1)
        self.assertEqual(job.end(), 0, job.said)
        self.assertGreater(job.refused, 0)
        self.assertTrue(until(lambda: self.held() == 0, 5))


class OtherLinking(Storm):
    """the driver's calls of its own exports meet our hooks: nothing may be charged twice"""

    def daemon_args(self):
        folder = self.dir / 'driver'
        if not folder.exists():
            folder.mkdir()
            (folder / 'libcuda.so.1').symlink_to(BUILD / 'sim/nosym/libcuda.so.1')
            (folder / 'libnvidia-ml.so.1').symlink_to(BUILD / 'sim/libnvidia-ml.so.1')
            (folder / 'profile.conf').write_text(world.own_profile('h200'))
        return [world.ALLOTD, '--foreground', f'--config=-{self.dir}/allot.yaml', '--socket', self.socket, '--state', self.state, '--driver', str(folder)]

    def test_a1_a3_a22_no_job_is_ever_over_its_limit(self):
        self.weather(1000)


if __name__ == '__main__':
    tap.main()
