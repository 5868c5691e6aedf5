#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""allot adopt: a program that was started without allot becomes a job, at once and without a fence."""
import json
import os
import signal
import subprocess

import others
import tap
import world
from world import GIB, Gpu, until


class AdoptTest(world.World):
    def bare(self, *, before=(), **env):
        """a program past allot, on the same simulated card"""
        return Gpu(self, bare=True, before=before,
                   env={**self.env, 'LD_LIBRARY_PATH': str(world.BUILD / 'sim'), 'ALLOT_SIM_DIR': str(self.dir / 'sim'), **env})

    def seen(self, pid, state='unmanaged'):
        self.assertTrue(until(lambda: [r for r in self.ps() if r['pid'] == pid and r['state'] == state], 15), self.ps())

    def adopt(self, *args, code=0):
        r = self.cli('adopt', *args)
        self.assertEqual(r.returncode, code, r.stdout + r.stderr)
        return r.stdout + r.stderr

    def row(self, pid):
        return next((r for r in self.ps() if r['pid'] == pid), None)

    def stranger(self, size='2G', **kw):
        g = self.bare(**kw).start()
        g(f'alloc {size}')
        self.seen(g.pid)
        return g

    def test_charged_at_once_and_not_fenced(self):
        g = self.stranger()
        said = self.adopt('--pid', g.pid, '--vram', '4G:6G', '-J', 'old')
        self.assertIn('not fenced', said)
        self.assertIn('allot run -- ', said)
        row = until(lambda: (lambda r: r and r['vram_used_bytes'] > 2 * GIB and r)(self.row(g.pid)), 2)
        self.assertTrue(row, self.ps())
        self.assertEqual((row['name'], row['state'], row['adopted'], row['fenced'], row['vram_request_bytes'], row['vram_limit_bytes']),
                         ('old', 'running', True, False, 4 * GIB, 6 * GIB))
        self.assertIn('adopted', self.cli('ps').stdout)
        self.assertRegex(self.cli('show', row['job']).stdout, rf'Adopted, no fence +{g.pid}\n')
        self.assertTrue(until(lambda: self.status()[0]['vram_unmanaged_bytes'] == 0, 15))
        self.assertEqual(self.status()[0]['vram_requested_bytes'], 4 * GIB)
        # no fence: past its limit it goes on, and is charged
        self.assertTrue(g('alloc 8G').startswith('ok'))
        self.assertTrue(until(lambda: self.row(g.pid)['vram_used_bytes'] > 10 * GIB, 15), self.ps())
        g.end()
        self.assertTrue(until(lambda: self.ps() == [], 15), self.ps())
        self.assertEqual(self.status()[0]['vram_requested_bytes'], 0)

    def test_one_that_has_just_begun(self):
        """NVML is read every two seconds on an idle machine, and at once for who asks"""
        for _ in range(3):
            g = self.bare()
            self.assertEqual(g('init'), 'ok')
            self.assertTrue(g('alloc 1G').startswith('ok'))
            pid = int(g('pid').split()[1])
            self.adopt('--pid', pid, '-J', 'young')
            job = self.row(pid)['job']
            g.end()
            self.assertTrue(until(lambda: not self.ps('young'), 15))
            shown = json.loads(self.cli('show', job, '-o', 'json').stdout)['items'][0]
            self.assertEqual((shown['state'], shown['adopted'], shown['adopted_pid']), ('ended', True, None))

    def test_a_limit_below_what_it_holds(self):
        g = self.stranger()
        self.adopt('--pid', g.pid, '--vram', '1G')
        self.assertTrue(until(lambda: self.row(g.pid)['vram_used_bytes'] > 2 * GIB, 15))
        self.assertEqual(self.row(g.pid)['vram_limit_bytes'], GIB)
        self.assertTrue(g('alloc 1G').startswith('ok'))
        g.end()

    def test_children_come_with_it(self):
        g = self.bare(before=('sh', '-c', '"$0"; sleep 60 & wait')).start()
        shell = g.p.pid
        g('alloc 1G')
        self.seen(g.pid)
        self.adopt('-p', shell, '-J', 'tree')
        self.assertTrue(until(lambda: self.row(g.pid)['name'] == 'tree', 15))
        self.assertEqual(self.cli('cancel', self.ps('tree')[0]['job']).returncode, 0)
        self.assertTrue(until(lambda: self.ps() == [], 15), self.ps())

    def test_what_it_becomes_by_exec(self):
        g = self.stranger()
        self.adopt('--pid', g.pid, '-J', 'parent')
        g.tell('exec ' + Gpu.PROGRAM)
        self.assertEqual(g('init'), 'ok')
        self.assertTrue(g('alloc 3G').startswith('ok'))
        self.assertTrue(until(lambda: self.row(g.pid) and self.row(g.pid)['vram_used_bytes'] > 3 * GIB, 15), self.ps())
        self.assertEqual((self.row(g.pid)['name'], self.row(g.pid)['fenced']), ('parent', False))
        g.end()
        self.assertTrue(until(lambda: self.ps() == [], 15), self.ps())

    def test_a_child_of_later(self):
        g = self.stranger()
        self.adopt('--pid', g.pid, '-J', 'parent')
        g.tell('fork')
        said = (g.hear(), g.hear())
        child = int(next(line for line in said if line.startswith('child')).split()[1])
        g.tell('exec ' + Gpu.PROGRAM)
        self.assertEqual(g('init'), 'ok')
        self.assertTrue(g('alloc 1G').startswith('ok'))
        self.assertTrue(until(lambda: self.row(child) and self.row(child)['vram_used_bytes'] > GIB, 15), self.ps())
        self.assertEqual({r['name'] for r in self.ps()}, {'parent'})
        os.kill(g.pid, signal.SIGKILL)  # the job goes on with what is left of it
        self.assertTrue(until(lambda: [r['pid'] for r in self.ps()] == [child], 15), self.ps())
        self.assertEqual(self.cli('cancel', self.ps()[0]['job']).returncode, 0)
        self.assertTrue(until(lambda: self.ps() == [], 15), self.ps())

    def test_cancel_and_death(self):
        g = self.stranger()
        self.adopt('--pid', g.pid, '-J', 'gone')
        job = until(lambda: self.row(g.pid) and self.row(g.pid)['job'], 2)
        self.assertEqual(self.cli('cancel', job).returncode, 0)
        self.assertEqual(g.p.wait(5), -signal.SIGTERM)
        self.assertTrue(until(lambda: self.ps() == [], 15), self.ps())
        self.assertTrue(until(lambda: self.held() == 0, 15))

    def test_restart_keeps_it(self):
        g = self.stranger()
        self.adopt('--pid', g.pid, '--vram', '4G', '-J', 'kept')
        self.assertTrue(until(lambda: self.row(g.pid)['vram_used_bytes'] > 2 * GIB, 15))
        before = self.row(g.pid)
        self.kill_daemon()
        self.start_daemon()
        self.assertTrue(until(lambda: self.row(g.pid) == before, 15), self.ps())
        self.assertEqual(self.status()[0]['vram_unmanaged_bytes'], 0)
        self.kill_daemon()
        g.end()  # while nobody looks
        self.start_daemon()
        self.assertTrue(until(lambda: self.ps() == [], 15), self.ps())

    def test_refused(self):
        g = self.stranger()
        idle = subprocess.Popen(['sleep', '60'])
        self.children.append(idle)
        job = Gpu(self, '--vram', '1G', '-J', 'managed').start()
        for pid, code, said in ((1, 2, 'parent of all'), (2 ** 31 - 1, 6, 'no process'), (self.daemon.pid, 2, 'allotd itself'),
                                (os.getpid(), 2, 'allotd itself runs below'), (idle.pid, 1, 'neither it nor a child'),
                                (job.pid, 2, 'of job')):
            self.assertIn(said, self.adopt('--pid', pid, code=code), pid)
        if os.path.exists('/proc/2/comm') and open('/proc/2/comm', encoding='ascii').read() == 'kthreadd\n':
            self.assertIn('thread of the kernel', self.adopt('--pid', 2, code=2))
        self.assertIn('can never give', self.adopt('--pid', g.pid, '--vram', '500G', code=5))
        self.assertIn('12x', self.adopt('--pid', '12x', code=2))
        self.assertIn('which process?', self.adopt(code=2))
        self.assertIn('nothing can be adopted', self.run_job('--', world.ALLOT, 'adopt', '--pid', g.pid).stderr)
        (self.dir / 'sim/nvml-faults').write_text(f'graphics={g.pid}\n')
        self.assertTrue(until(lambda: 'draws' in self.row(g.pid)['reason'], 15), self.row(g.pid))
        self.assertIn('draws on the screen', self.adopt('--pid', g.pid, code=2))
        (self.dir / 'sim/nvml-faults').unlink()
        self.assertTrue(until(lambda: self.cli('adopt', '--pid', g.pid).returncode == 0, 15))
        self.assertIn('of job', self.adopt('--pid', g.pid, code=2))
        job.end()
        g.end()

    def test_room_for_the_request(self):
        total = self.status()[0]['vram_allocatable_bytes'] // GIB
        g = self.stranger('20G')
        other = self.start_job('--vram', f'{total - 30}G', '-J', 'other', '--', 'sleep', '60')
        self.assertTrue(until(lambda: self.ps('other')))
        # what it holds is room for its request, and no more than that is free
        self.assertIn('can promise', self.adopt('--pid', g.pid, '--vram', '40G', code=1))
        self.adopt('--pid', g.pid, '--vram', '25G')
        other.terminate()
        g.end()

    def test_another_user(self):
        if others.WHY_NOT:
            self.skipTest(others.WHY_NOT)
        g = self.stranger()
        r = subprocess.run(['setpriv', '--reuid=65534', '--clear-groups', world.ALLOT, 'adopt', '--pid', str(g.pid)],
                           env=self.env, capture_output=True, text=True, check=False)
        self.assertNotEqual(r.returncode, 0)
        self.assertIsNone(self.row(g.pid)['job'])
        g.end()


if __name__ == '__main__':
    tap.main()
