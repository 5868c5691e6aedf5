#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An upgrade half done: allotd of one build, and programs, keepers and people of another."""
import json
import os
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap  # noqa: E402
import world  # noqa: E402
from world import BUILD, MIB, Gpu, alive, until  # noqa: E402

OTHER = str(BUILD / 'tests/integration/failures/other_version.so')
NEWER, OLDER = '1', '-1'


class Versions(world.World):
    START = False

    def other(self, step):
        return {**self.env, 'LD_PRELOAD': OTHER, 'OTHER_VERSION': step}

    def protocol(self):
        return int(self.cli('version').stdout.split('protocol ')[1].split()[0])

    def check_people(self, allot_env, theirs, ours):
        """each verb: both numbers, what to do, and at once"""
        for verb in (['ps'], ['status'], ['set', '1', 'class=batch'], ['cancel', '1'],
                     ['run', '--vram', '1G', '--', 'true']):
            said = self.cli(*verb, timeout=5, **allot_env)
            self.assertNotEqual(said.returncode, 0, verb)
            self.assertIn(f'protocol {theirs}', said.stderr, verb)
            self.assertIn(f'protocol {ours}', said.stderr, verb)
            self.assertIn('install the same version', said.stderr, verb)
        said = self.cli('doctor', timeout=5, **allot_env)
        self.assertIn(f'protocol {theirs}', said.stdout)

    def test_an_allotd_that_is_newer_or_older_says_so(self):
        us = self.protocol()
        for step in (NEWER, OLDER):
            with self.subTest(step=step):
                self.start_by_own_kind(step)
                self.check_people({}, us + int(step), us)
                self.kill_daemon()

    def start_by_own_kind(self, step):
        """and asked by a person of the same build whether it serves"""
        env, self.env = self.env, self.other(step)
        try:
            self.start_daemon()
        finally:
            self.env = env

    def test_a_person_who_is_newer_or_older_is_told(self):
        self.start_daemon()
        us = self.protocol()
        for step in (NEWER, OLDER):
            with self.subTest(step=step):
                # it takes itself for what it was compiled as: the step shows at the other side
                self.check_people({'LD_PRELOAD': OTHER, 'OTHER_VERSION': step}, us - int(step), us)
        self.assertEqual(self.cli('status').returncode, 0)
        self.assertIn('sent no message of ours', self.said())

    def running(self, *options):
        g = Gpu(self, '-J', 'old', '--vram', '1G:2G', *options).start()
        self.assertTrue(g('alloc 256M').startswith('ok'))
        return g

    def upgrade(self):
        """the daemon is replaced by one of a newer build while jobs run"""
        self.kill_daemon()
        self.start_by_own_kind(NEWER)

    def test_a_running_job_keeps_its_fence(self):
        """closed: it has what it has and gets no more; it runs on, its keeper does not spin"""
        self.start_daemon()
        g = self.running()
        self.settled()
        self.upgrade()
        self.assertTrue(until(lambda: [i for i in self.of_the_new('ps') if i['name'] == 'old'], 5))
        self.assertEqual(g('alloc 4G'), 'error 2')
        self.assertEqual(g('free 0'), 'ok')
        self.assertTrue(alive(g.pid))
        keeper = g.p.pid
        before = self.switches(keeper)
        until(lambda: False, 1.5)
        self.assertLess(self.switches(keeper) - before, 20)
        said = g.end()
        self.assertRegex(said, r'allotd speaks protocol \d+ now, this job began with protocol \d+')
        self.assertRegex(said, r'protocol \d+.*--fail-policy closed')
        self.assertEqual(said.count('speaks protocol'), 2, said)  # the keeper's line and the shim's
        self.assertEqual(g.p.returncode, 0)
        self.assertTrue(until(lambda: not self.of_the_new('ps'), 5))

    def test_a_running_job_that_chose_so_goes_on_unlimited(self):
        self.start_daemon()
        g = self.running('--fail-policy', 'open')
        self.settled()
        self.upgrade()
        self.assertTrue(g('alloc 4G').startswith('ok'))
        self.assertRegex(g.end(), r'protocol \d+.*--fail-policy open')

    def test_the_old_allotd_comes_back(self):
        """an upgrade taken back: everything is as before"""
        self.start_daemon()
        g = self.running()
        self.settled()
        self.upgrade()
        self.assertEqual(g('alloc 512M'), 'error 2')
        self.kill_daemon()
        self.start_daemon()
        self.assertTrue(until(lambda: g('alloc 512M').startswith('ok'), 5), self.said())
        g.end()

    def of_the_new(self, verb):
        said = self.cli(verb, '-o', 'json', LD_PRELOAD=OTHER, OTHER_VERSION=NEWER)
        self.assertEqual(said.returncode, 0, said.stderr)
        return json.loads(said.stdout)['items']

    def switches(self, pid):
        text = pathlib.Path(f'/proc/{pid}/status').read_text()
        return int(re.search(r'^voluntary_ctxt_switches:\s*(\d+)', text, re.M).group(1))

    def stop_daemon(self):
        if self.daemon and self.daemon.poll() is None:
            os.kill(self.daemon.pid, signal.SIGTERM)
            self.daemon.wait(5)
            self.daemon = None
        super().stop_daemon()


if __name__ == '__main__':
    tap.main()
