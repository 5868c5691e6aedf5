#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NVML hangs, lies or dies; a GPU falls off the bus under a running job; the driver is replaced."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tap  # noqa: E402
import world  # noqa: E402
from world import BUILD, GIB, MIB, Gpu, alive, until  # noqa: E402

OOM = 'error 2'
SOON_S = 2.0
PATIENCE_S = 2.0


class Faulty(world.World):
    def fault(self, words, name='nvml-faults'):
        new = self.dir / 'sim' / (name + '.new')
        new.parent.mkdir(exist_ok=True)
        new.write_text(words)
        new.rename(new.with_name(name))

    def quick(self, *verb, code=0):
        start = time.monotonic()
        said = self.cli(*verb)
        self.assertLess(time.monotonic() - start, SOON_S + PATIENCE_S, verb)
        self.assertEqual(said.returncode, code, (verb, said.stdout, said.stderr))
        return said

    def gpu(self, index=0):
        return self.status()[index]

    def sampler(self):
        with open(f'/proc/{self.daemon.pid}/task/{self.daemon.pid}/children') as f:
            for pid in f.read().split():
                if 'allot-sampler' in pathlib.Path(f'/proc/{pid}/comm').read_text():
                    return int(pid)
        return 0


class Nvml(Faulty):
    def bystander(self):
        """a process outside of any job"""
        p = subprocess.Popen(['sleep', '60'])
        self.children.append(p)
        return p.pid

    def test_e21_nvml_hangs_for_ever(self):
        """every verb answers and says so, the ledger is kept, jobs go on and start and end"""
        g = Gpu(self, '-J', 'one', '--vram', '1G:2G').start()
        self.assertTrue(g('alloc 512M').startswith('ok'))
        held = self.settled()
        self.fault('hang')
        self.assertTrue(until(lambda: self.gpu()['stale'], 6), self.status())
        self.assertIn('NVML does not answer', self.quick('doctor', code=1).stdout)
        for verb in (['ps'], ['status'], ['version']):
            self.quick(*verb)
        self.assertIn('NVML does not answer', self.quick('ps').stderr)
        self.assertEqual([row['stale'] for row in self.ps()], [True])
        self.assertIn('NVML does not answer', self.quick('adopt', '--pid', self.bystander(), code=1).stderr)
        self.assertEqual(self.held(), held)
        start = time.monotonic()
        self.assertTrue(g('alloc 512M').startswith('ok'))
        self.assertEqual(g('alloc 2G'), OOM)
        self.assertLess(time.monotonic() - start, 1 + PATIENCE_S)
        self.assertEqual(self.held(), held + 512 * MIB)
        self.quick('run', '--vram', '1G', '--', 'true')
        second = Gpu(self, '-J', 'two', '--vram', '1G').start()
        self.assertTrue(second('alloc 256M').startswith('ok'))
        second.end()
        self.quick('set', self.ps('one')[0]['job'], 'vram=1G:3G')
        self.fault('')
        self.assertTrue(until(lambda: not self.gpu()['stale'], 40))
        self.assertTrue(until(lambda: self.held() == held + 512 * MIB, 10), self.status())
        g.end()
        self.assertTrue(until(lambda: self.held() == 0, 5))

    def test_a_sampler_that_dies_each_time(self):
        """it is started again later and later, not in a loop that burns the machine"""
        before = self.sampler()
        seen, end = {before}, time.monotonic() + 6
        while time.monotonic() < end:
            pid = self.sampler()
            if pid:
                seen.add(pid)
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.005)
        self.assertLess(len(seen), 9, seen)
        self.assertTrue(self.gpu()['stale'])
        self.assertIn('allot-sampler', self.quick('doctor', code=1).stdout)
        g = Gpu(self, '-J', 'one', '--vram', '1G').start()
        g.end()
        self.assertTrue(until(lambda: not self.gpu()['stale'], 20))

    def test_nvml_forgets_its_functions(self):
        """each call fails: stale or unknown, never zero, and the fence stands"""
        g = Gpu(self, '-J', 'one', '--vram', '1G:2G').start()
        self.assertTrue(g('alloc 512M').startswith('ok'))
        held = self.settled()
        self.fault('error=*:NVML_ERROR_UNKNOWN')
        self.assertTrue(until(lambda: self.gpu()['stale'], 6), self.status())
        self.assertEqual(self.held(), held)
        self.assertEqual(g('alloc 2G'), OOM)
        self.quick('ps')
        self.fault('')
        self.assertTrue(until(lambda: not self.gpu()['stale'], 10))


    def test_nvml_has_no_figures_of_memory(self):
        """unknown is unknown: a program still sees the card it was promised, and nothing is lost"""
        g = Gpu(self, '-J', 'one', '--vram', '1G:2G').start()
        self.assertTrue(g('alloc 512M').startswith('ok'))
        held = self.settled()
        self.fault(' '.join(f'error=nvmlDeviceGetMemoryInfo{v}:NVML_ERROR_UNKNOWN' for v in ('', '_v2')))
        self.assertTrue(until(lambda: self.gpu()['vram_used_bytes'] is None, 6), self.status())
        self.assertEqual(self.gpu()['vram_total_bytes'] // GIB, 140)
        self.assertEqual(self.held(), held)
        late = Gpu(self, '-J', 'late').start()
        self.assertGreater(late.info()[1], 100 * GIB)
        self.assertGreater(int(late('total').split()[1]), 100 * GIB)
        self.fault('')
        self.assertTrue(until(lambda: self.gpu()['vram_used_bytes'] is not None, 6))
        late.end()
        g.end()


class Lost(Faulty):
    PROFILE = 'four'

    def test_a_gpu_falls_off_the_bus_under_a_running_job(self):
        """its job is told, the other cards' jobs notice nothing, and it may come back"""
        victim = Gpu(self, '-J', 'victim', '--gpu', '1', '--when-full', 'wait=1s').start()
        other = Gpu(self, '-J', 'other', '--gpu', '2').start()
        self.assertTrue(victim('alloc 512M').startswith('ok'))
        self.assertTrue(other('alloc 512M').startswith('ok'))
        held = self.settled()
        self.fault('lost=1')
        self.assertTrue(until(lambda: self.gpu(1)['lost'], 5), self.status())
        self.assertEqual([g['lost'] for g in self.status()], [False, True, False, False])
        self.assertIn('LOST', self.quick('status').stdout.upper())
        self.assertIn('lost', self.quick('doctor', code=1).stdout)
        self.assertEqual(self.held(), held)  # nothing is given away, nothing is forgotten
        start = time.monotonic()
        self.assertEqual(victim('alloc 512M'), OOM)
        self.assertLess(time.monotonic() - start, 1 + SOON_S)
        self.assertTrue(other('alloc 512M').startswith('ok'))
        # a new job goes elsewhere, or is told why not
        self.quick('run', '--vram', '1G', '--', 'true')
        said = self.quick('run', '--vram', '1G', '--gpu', '1', '--immediate', '--', 'true', code=75)
        self.assertIn('does not answer', said.stderr)
        self.fault('')
        self.assertTrue(until(lambda: not self.gpu(1)['lost'], 10))
        self.assertTrue(victim('alloc 512M').startswith('ok'))
        self.assertIn('does not answer', victim.end())
        other.end()
        self.assertTrue(until(lambda: self.held() == 0, 10), self.status())

    def test_a_job_on_a_lost_gpu_ends_and_its_room_comes_back_with_the_gpu(self):
        g = Gpu(self, '-J', 'victim', '--gpu', '0', '--vram', '1G').start()
        self.assertTrue(g('alloc 512M').startswith('ok'))
        self.settled()
        self.fault('lost=0')
        self.assertTrue(until(lambda: self.gpu(0)['lost'], 5))
        g.end()
        self.assertTrue(until(lambda: self.gpu(0)['vram_requested_bytes'] == 0, 5), self.status())
        self.fault('')
        self.assertTrue(until(lambda: self.held() == 0 and not self.ps(), 10), self.status())

    def test_lost_before_allotd_starts_again(self):
        g = Gpu(self, '-J', 'victim', '--gpu', '1', '--vram', '1G').start()
        other = Gpu(self, '-J', 'other', '--gpu', '0', '--vram', '1G').start()
        for one in g, other:
            self.assertTrue(one('alloc 256M').startswith('ok'))
        self.settled()
        self.fault('lost=1')
        self.kill_daemon()
        self.start_daemon()
        self.assertTrue(until(lambda: self.ps('other') and self.ps('other')[0]['vram_used_bytes'] > 256 * MIB, 5))
        self.assertTrue(other('alloc 256M').startswith('ok'))
        self.assertTrue(alive(g.pid))
        self.fault('')
        self.assertTrue(until(lambda: g('alloc 100M').startswith('ok'), 10), (self.status(), self.said()))

    def test_all_are_lost(self):
        self.fault('lost')
        self.assertTrue(until(lambda: all(g['lost'] for g in self.status()), 5))
        said = self.quick('run', '--vram', '1G', '--immediate', '--', 'true', code=75)
        self.assertIn('does not answer', said.stderr)
        self.fault('')
        self.assertTrue(until(lambda: not any(g['lost'] for g in self.status()), 10))
        self.quick('run', '--vram', '1G', '--', 'true')


class Opening(Faulty):
    START = False

    def test_a_driver_that_takes_its_time_to_open(self):
        """cards that must wake first: people are served meanwhile, and a job waits for its card"""
        self.fault('hang=nvmlInit_v2')
        start = time.monotonic()
        self.start_daemon()
        self.assertLess(time.monotonic() - start, SOON_S + PATIENCE_S)
        self.assertIn('NVML does not answer', self.quick('doctor', code=1).stdout)
        job = self.start_job('--vram', '1G', '--', 'true')
        time.sleep(2)
        self.assertIsNone(job.poll(), job.stderr.read() if job.poll() is not None else '')
        self.fault('')
        self.assertEqual(job.wait(10), 0)
        self.assertIn('does not answer yet', job.stderr.read())


class Driver(Faulty):
    """`--driver DIR`, of which somebody takes the files away while allotd runs"""
    START = False

    def setUp(self):
        super().setUp()
        self.folder = self.dir / 'driver'
        self.folder.mkdir()
        self.put()
        (self.folder / 'profile.conf').write_text(world.own_profile('h200'))
        self.start_daemon()

    def put(self):
        for name in ('libcuda.so.1', 'libnvidia-ml.so.1'):
            (self.folder / name).symlink_to(BUILD / 'sim' / name)

    def remove(self):
        for name in ('libcuda.so.1', 'libnvidia-ml.so.1'):
            (self.folder / name).unlink()

    def daemon_args(self):
        return [world.ALLOTD, '--foreground', f'--config=-{self.dir}/allot.yaml', '--socket', self.socket, '--state', self.state, '--driver', str(self.folder)]

    def test_the_driver_is_taken_away_and_another_comes(self):
        g = Gpu(self, '-J', 'one', '--vram', '1G:2G').start()
        self.assertTrue(g('alloc 512M').startswith('ok'))
        self.settled()
        self.remove()
        os.kill(self.sampler(), signal.SIGKILL)  # the next one must open what is not there
        self.assertTrue(until(lambda: self.gpu()['stale'], 5), self.status())
        said = self.quick('doctor', code=1).stdout
        self.assertIn('libnvidia-ml.so.1', said)
        self.assertTrue(g('alloc 256M').startswith('ok'))
        self.assertEqual(g('alloc 2G'), OOM)
        self.put()
        self.assertTrue(until(lambda: not self.gpu()['stale'], 10), self.status())
        self.assertTrue(g('alloc 256M').startswith('ok'))
        g.end()


class Service(Faulty):
    """root's `allotd --sim` is everybody's, its faults are root's"""

    @staticmethod
    def is_root():
        return os.geteuid() == 0

    def test_nobody_else_breaks_the_simulated_driver(self):
        if not self.is_root():
            self.skipTest('needs root')
        sim = self.dir / 'sim'
        self.assertTrue(sim.stat().st_mode & 0o1000, 'the folder is sticky')
        for name, words in (('nvml-faults', 'lost hang'), ('faults', '*=CUDA_ERROR_UNKNOWN')):
            (sim / name).write_text(words)
            os.chown(sim / name, 4242, 4242)
        (sim / 'link').write_text('lost')
        time.sleep(2.5)
        self.assertFalse(self.gpu()['lost'] or self.gpu()['stale'])
        g = Gpu(self, '-J', 'one', '--vram', '1G').start()
        self.assertTrue(g('alloc 64M').startswith('ok'))
        # nor by a link to a file of root's
        (sim / 'nvml-faults').unlink()
        (sim / 'nvml-faults').symlink_to(sim / 'link')
        time.sleep(2.5)
        self.assertFalse(self.gpu()['lost'])
        g.end()


if __name__ == '__main__':
    tap.main()
