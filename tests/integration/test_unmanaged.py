#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs past allot: shown, told once, judged; ended where the policy says so, and whom it never ends."""
import os
import shutil
import signal
import time
import unittest

import others
import tap
import world
from world import GIB, Gpu, until

NOBODY = ('setpriv', '--reuid=65534', '--regid=65534', '--clear-groups')
KILL = 'gpu_defaults:\n  unmanaged: kill\njobs:\n  kill_grace: 1s\n'


class Strangers(world.World):
    CONFIG = ''

    def setUp(self):
        self.START = False
        super().setUp()
        os.chmod(self.dir, 0o755)
        (self.dir / 'allot.yaml').write_text(self.CONFIG)
        self.start_daemon()
        self.assertTrue(until(self.status, 10), self.said())  # the GPU is known, and its policy set

    def bare(self, *before, **env):
        return Gpu(self, bare=True, before=before,
                   env={**self.env, 'LD_LIBRARY_PATH': str(world.BUILD / 'sim'), 'ALLOT_SIM_DIR': str(self.dir / 'sim'), **env})

    def stranger(self, *before):
        g = self.bare(*before).start()
        g('alloc 1G')
        return g

    def row(self, pid):
        return next((r for r in self.ps() if r['pid'] == pid), None)

    def reason(self, pid, words, seconds=15):
        self.assertTrue(until(lambda: (self.row(pid) or {}).get('reason') and words in self.row(pid)['reason'], seconds),
                        self.row(pid))

    def faults(self, *words):
        (self.dir / 'sim/nvml-faults').write_text('\n'.join(words) + '\n')


class AlertTest(Strangers):
    def test_told_once_and_judged(self):
        g = self.stranger()
        self.reason(g.pid, 'root' if os.getuid() == 0 else 'would end its like')
        row = self.row(g.pid)
        self.assertEqual((row['state'], row['fenced'], row['job']), ('unmanaged', False, None))
        self.assertIn('gpu_shell', row['command'])
        self.assertIn('gpu_shell', self.cli('ps').stdout)
        gpu = self.status()[0]
        self.assertEqual((gpu['unmanaged_policy'], gpu['unmanaged_processes'], gpu['unmanaged_ended']), ('alert', 1, 0))
        doctor = self.cli('doctor').stdout
        self.assertIn(f'1 processes use a GPU past allot; pid {g.pid} of', doctor)
        time.sleep(3)
        self.assertEqual(self.said().count(f'unmanaged process {g.pid} '), 1)
        self.assertIn(f'of uid {os.getuid()} holds', self.said())
        g.end()
        self.assertTrue(until(lambda: self.ps() == [], 15))

    def test_a_crowd(self):
        """a thousand of them are seen within 2 s, listed, and told in a few lines"""
        g = Gpu(self, '--vram', '1G', '-J', 'works').start()
        self.faults('crowd=1000')
        began = time.monotonic()
        self.assertTrue(until(lambda: self.status()[0]['unmanaged_processes'] == 1000, 10))
        self.assertLess(time.monotonic() - began, 9)  # 2 s on a quiet machine
        self.assertGreaterEqual(self.status()[0]['vram_unmanaged_bytes'], 1000 * 2 * world.MIB)
        self.assertEqual(len([r for r in self.ps() if r['state'] == 'unmanaged']), 1000)
        self.assertTrue(g('alloc 256M').startswith('ok'))
        self.assertTrue(until(lambda: 'unmanaged processes more' in self.said(), 15))
        self.assertLess(self.said().count(': unmanaged process '), 200)
        self.faults()
        self.assertTrue(until(lambda: self.status()[0]['unmanaged_processes'] == 0, 15))
        g.end()

    def test_attached_later_is_no_stranger(self):
        g = self.stranger()
        self.assertTrue(until(lambda: self.row(g.pid), 15))
        self.assertEqual(self.cli('adopt', '--pid', g.pid).returncode, 0)
        self.assertTrue(until(lambda: self.row(g.pid)['job'], 15))
        self.assertTrue(until(lambda: self.status()[0]['unmanaged_processes'] == 0, 15))
        g.end()


@unittest.skipIf(others.WHY_NOT, others.WHY_NOT)
class KillTest(Strangers):
    CONFIG = KILL

    def test_ended(self):
        safe = Gpu(self, '--vram', '2G', '-J', 'managed', before=NOBODY).start()
        own = self.stranger()
        g = self.stranger(*NOBODY)
        began = time.monotonic()
        self.reason(g.pid, 'will end it')
        self.assertEqual(g.p.wait(25), -signal.SIGTERM)
        self.assertGreater(time.monotonic() - began, 0.5)  # never on one sample alone
        self.assertIn(f'unmanaged process {g.pid} ({Gpu.PROGRAM}) of uid 65534: SIGTERM', self.said())
        gpu = self.status()[0]
        self.assertEqual((gpu['unmanaged_policy'], gpu['unmanaged_ended']), ('kill', 1))
        self.reason(own.pid, "spares it: it is root's")
        self.assertTrue(safe('alloc 1G').startswith('ok'))
        self.assertTrue(until(lambda: self.row(g.pid) is None, 15))
        time.sleep(2)
        self.assertTrue(world.alive(own.pid) and world.alive(safe.pid))
        self.assertEqual(self.status()[0]['unmanaged_ended'], 1)
        own.end()
        safe.end()

    def test_one_that_does_not_listen(self):
        g = self.stranger(*NOBODY, 'sh', '-c', 'trap "" TERM; exec "$0"')
        self.assertEqual(g.p.wait(30), -signal.SIGKILL)
        self.assertIn('did not end: SIGKILL', self.said())

    def test_graphics_never(self):
        g = self.bare(*NOBODY).start()
        self.faults(f'graphics={g.pid}')
        g('alloc 1G')
        self.reason(g.pid, 'spares it: it draws')
        time.sleep(3)
        self.assertTrue(world.alive(g.pid))
        self.assertIn('no program computes past allot', self.cli('doctor').stdout)
        g.end()

    def copy(self, path, name, owner=0):
        """the same program under another name"""
        to = self.dir / name
        shutil.copy(os.path.realpath(path), to)
        os.chmod(to, 0o755)
        os.chown(to, owner, owner)
        return str(to)

    def run_as(self, program, *before):
        g = self.bare(*NOBODY, 'sh', '-c', f'exec {" ".join(before)} "{program}"').start()
        g('alloc 1G')
        return g

    def test_mps_never(self):
        server = self.copy(Gpu.PROGRAM, 'nvidia-cuda-mps-server')
        control = self.copy('/bin/sh', 'nvidia-cuda-mps-control')
        g = self.bare(*NOBODY, control, '-c', f'"{server}"; exit').start()
        g('alloc 1G')
        self.reason(g.pid, 'spares it: it works through MPS')
        time.sleep(3)
        self.assertTrue(world.alive(g.pid))
        g.end()

    def test_displays_never(self):
        g = self.run_as(self.copy(Gpu.PROGRAM, 'Xorg'))
        self.reason(g.pid, 'spares it: it is a display server')
        time.sleep(3)
        self.assertTrue(world.alive(g.pid))
        g.end()

    def test_a_name_proves_nothing(self):
        """a file of the user's own, and a server whose parent is no control daemon"""
        mine = self.run_as(self.copy(Gpu.PROGRAM, 'Xorg', owner=65534))
        orphan = self.run_as(self.copy(Gpu.PROGRAM, 'nvidia-cuda-mps-server'))
        self.assertEqual(mine.p.wait(25), -signal.SIGTERM)
        self.assertEqual(orphan.p.wait(25), -signal.SIGTERM)

    def test_what_ran_before_never(self):
        (self.dir / 'allot.yaml').write_text('jobs:\n  kill_grace: 1s\n')
        os.kill(self.daemon.pid, signal.SIGHUP)
        self.assertTrue(until(lambda: self.status()[0]['unmanaged_policy'] == 'alert', 15))
        g = self.stranger(*NOBODY)
        self.reason(g.pid, 'would end its like')
        (self.dir / 'allot.yaml').write_text(KILL)
        os.kill(self.daemon.pid, signal.SIGHUP)
        self.reason(g.pid, 'spares it: it ran before')
        time.sleep(3)
        self.assertTrue(world.alive(g.pid))
        self.kill_daemon()  # and a start sets the policy anew
        self.start_daemon()
        self.reason(g.pid, 'spares it: it ran before')
        later = self.stranger(*NOBODY)
        self.assertEqual(later.p.wait(25), -signal.SIGTERM)
        self.assertTrue(world.alive(g.pid))
        g.end()

    def test_per_gpu(self):
        uuid = self.status()[0]['gpu']
        (self.dir / 'allot.yaml').write_text(KILL + f'gpus:\n  - id: {uuid}\n    unmanaged: alert\n')
        os.kill(self.daemon.pid, signal.SIGHUP)
        self.assertTrue(until(lambda: self.status()[0]['unmanaged_policy'] == 'alert', 15), self.said())


if __name__ == '__main__':
    tap.main()
