#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Somebody is stopped (SIGSTOP) and holds its place: nobody else waits for it for long."""
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap  # noqa: E402
import world  # noqa: E402
from world import ALLOT, MIB, Gpu, until  # noqa: E402

SOON_S = 2.0
PATIENCE_S = 2.0  # what a machine that is busy with other tests adds to that


class Stopped(world.World):
    PROFILE = 'small4g'

    def stop(self, pid):
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(self.go_on, pid)

    def go_on(self, pid):
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def check_all_verbs(self):
        for verb, code in ((['ps'], 7), (['status'], 7), (['status', '-o', 'json'], 7), (['set', '1', 'class=batch'], 7),
                           (['cancel', '1'], 7), (['show', '1'], 7), (['why', '1'], 7), (['wait', '1'], 7), (['logs', '1'], 7),
                           (['adopt', '--pid', str(os.getpid())], 7), (['config', 'show'], None), (['run', '-d', '--immediate', '--', 'true'], 125),
                           (['run', '--immediate', '--vram', '1G', '--', 'true'], 125)):
            start = time.monotonic()
            said = self.cli(*verb)
            self.assertLess(time.monotonic() - start, SOON_S + PATIENCE_S, verb)
            if code is None:  # it may know enough by itself
                continue
            self.assertEqual(said.returncode, code, (verb, said.stderr))
            self.assertIn('does not answer', said.stderr, verb)
            self.assertEqual(said.stdout, '')
        said = self.cli('doctor')
        self.assertNotEqual(said.returncode, 0)
        self.assertIn('does not answer', said.stdout)
        self.assertNotIn("look at 'allot doctor'", said.stdout)

    def test_every_verb_answers_while_allotd_is_stopped(self):
        self.stop(self.daemon.pid)
        self.check_all_verbs()
        self.go_on(self.daemon.pid)
        self.assertTrue(until(lambda: self.cli('ps').returncode == 0, 5))
        self.assertEqual(self.ps(), [])  # nobody was admitted behind its back

    def test_a_run_waits_for_an_allotd_that_is_stopped_and_says_so(self):
        self.stop(self.daemon.pid)
        p = self.start_job('--vram', '1G', '--', 'true')
        time.sleep(SOON_S + 0.5)
        self.assertIsNone(p.poll())
        self.go_on(self.daemon.pid)
        self.assertEqual(p.wait(10), 0)
        self.assertIn('does not answer yet', p.stderr.read())

    def test_nobody_can_even_connect(self):
        """a stopped allotd whose backlog is full: connecting must not hang either"""
        self.stop(self.daemon.pid)
        crowd = []
        try:
            while len(crowd) < 5000:
                s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
                crowd.append(s)
                s.connect(self.socket)
        except BlockingIOError:
            pass
        self.assertLess(len(crowd), 5000)
        start = time.monotonic()
        said = self.cli('ps')
        self.assertLess(time.monotonic() - start, SOON_S + PATIENCE_S)
        self.assertEqual(said.returncode, 7, said.stderr)
        self.assertIn('does not answer', said.stderr)
        for s in crowd:
            s.close()
        self.go_on(self.daemon.pid)
        self.assertTrue(until(lambda: self.cli('ps').returncode == 0, 5))

    def test_a_program_goes_on_within_its_credit_while_allotd_is_stopped(self):
        g = Gpu(self, '-J', 'one', '--vram', '1G:2G').start()
        self.assertTrue(g('alloc 100M').startswith('ok'))
        self.settled()
        self.stop(self.daemon.pid)
        start = time.monotonic()
        self.assertEqual(g('free 0'), 'ok')
        self.assertTrue(g('alloc 100M').startswith('ok'))  # what it gave back a moment ago
        self.assertLess(time.monotonic() - start, 1.0)
        self.go_on(self.daemon.pid)
        self.assertTrue(g('alloc 1G').startswith('ok'))
        g.end()

    def test_a_stopped_program_gives_up_its_unused_credit(self):
        """E2: what it does not use is called back from it, and the others do not wait for it"""
        a = Gpu(self, '-J', 'a').start()
        self.assertTrue(a('alloc 900M').startswith('ok'))
        self.assertEqual(a('free 0'), 'ok')
        self.settled()
        b = Gpu(self, '-J', 'b', '--when-full', 'wait=5s').start()
        self.settled()
        self.stop(a.pid)
        room = self.status()[0]['vram_burst_bytes'] // MIB
        start = time.monotonic()
        self.assertTrue(b(f'alloc {room // 2 * 2 - 2}M').startswith('ok'), self.status())
        self.assertLess(time.monotonic() - start, 2)
        self.go_on(a.pid)
        self.assertTrue(a('alloc 1M').startswith(('ok', 'error 2')))

    def test_a_stopped_reader_of_ps_holds_nobody_up(self):
        p = subprocess.Popen([ALLOT, 'ps'], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.stop(p.pid)
        for _ in range(20):
            start = time.monotonic()
            self.assertEqual(self.cli('ps').returncode, 0)
            self.assertLess(time.monotonic() - start, 1.5)
        self.go_on(p.pid)
        self.assertIn(p.wait(10), (0, 7))
        p.communicate()

    def test_a_helper_that_is_killed_leaves_no_zombie(self):
        def children(states):
            found = []
            for pid in filter(str.isdigit, os.listdir('/proc')):
                try:
                    with open(f'/proc/{pid}/stat', encoding='latin-1') as f:
                        name, rest = f.read().split('(', 1)[1].rsplit(')', 1)
                except OSError:
                    continue
                state, parent = rest.split()[:2]
                if int(parent) == self.daemon.pid and state in states:
                    found.append((name, int(pid)))
            return found
        helpers = children('SRD')
        self.assertIn('allot-sampler', dict(helpers))
        for _, pid in helpers:
            os.kill(pid, signal.SIGKILL)
        self.assertTrue(until(lambda: not {p for _, p in helpers} & {p for _, p in children('SRDZ')}, 5), children('SRDZ'))
        self.assertEqual(self.run_job('--', 'sh', '-c', 'exit 4').returncode, 4)

    def test_a_stopped_keeper(self):
        """its program goes on, others are admitted, a restart finds it; a cancel wakes and ends it"""
        g = Gpu(self, '-J', 'kept', '--vram', '512M:1G').start()
        self.stop(g.p.pid)
        self.assertTrue(g('alloc 600M').startswith('ok'))
        self.assertEqual(self.run_job('--vram', '256M', '--', 'true').returncode, 0)
        held = self.settled()
        self.kill_daemon()
        self.start_daemon()
        self.assertTrue(self.ps('kept'))
        self.assertTrue(until(lambda: self.held() == held, 5), self.status())
        self.assertTrue(g('alloc 100M').startswith('ok'))
        start = time.monotonic()
        self.assertEqual(self.cli('cancel', self.ps('kept')[0]['job']).returncode, 0)
        self.assertLess(time.monotonic() - start, 1.5)
        g.p.wait(10)
        self.assertTrue(until(lambda: not self.ps(), 5), self.ps())


if __name__ == '__main__':
    tap.main()
