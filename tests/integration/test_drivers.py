#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drivers that lack what newer ones have, that fail, or that tell less: `allotd --driver DIR`."""
import os
import subprocess
import time

import tap
import world
from world import ALLOTD, BUILD, GIB, MIB, Gpu, until

OOM = 'error 2'


class Driver(world.World):
    START = False
    CUDA = BUILD / 'sim/libcuda.so.1'

    def setUp(self):
        super().setUp()
        self.folder = self.dir / 'driver'
        self.folder.mkdir()
        (self.folder / 'libcuda.so.1').symlink_to(self.CUDA)
        (self.folder / 'libnvidia-ml.so.1').symlink_to(BUILD / 'sim/libnvidia-ml.so.1')
        (self.folder / 'profile.conf').write_text(world.own_profile('h200'))

    def daemon_args(self):
        return [ALLOTD, '--foreground', f'--config=-{self.dir}/allot.yaml', '--socket', self.socket, '--state', self.state, '--driver', str(self.folder)]

    def fence(self, free_back=True):
        g = Gpu(self, '-J', 'one', '--vram', '1G:2G').start()
        free, total = g.info()
        self.assertEqual(total, 2 * GIB)
        self.assertLess(free, total)
        self.assertEqual(g('alloc 4G'), OOM)
        for kind in ('alloc', 'managed'):
            self.assertTrue(g(f'{kind} 256M').startswith('ok'), kind)
        self.assertLessEqual(g.info()[0], free - 512 * MIB)
        self.assertEqual(g('fill 0 7'), 'ok')
        self.assertEqual(g('check 0 7'), 'ok same')
        self.assertEqual(g('free 0'), 'ok')
        self.assertEqual(g('free 1'), 'ok')
        if free_back:
            self.assertAlmostEqual(g.info()[0], free, delta=4 * MIB)
        return g

    def over(self, g):
        g.end()
        self.assertTrue(until(lambda: self.held() == 0 and not self.ps(), 5), self.status())


class Old(Driver):
    """a name that the driver lacks answers as the driver would, and the fence stands"""

    def old(self, version):
        (self.folder / 'libcuda.so.1').unlink()
        (self.folder / 'libcuda.so.1').symlink_to(BUILD / f'tests/integration/drivers/libcuda_{version}.so')
        self.start_daemon()
        g = self.fence()
        if version >= 11040:
            self.assertTrue(g('async 64M').startswith('ok'))
            self.assertEqual(g('async 8G'), OOM)
            self.assertTrue(g('create 64M').startswith('ok'))
        else:
            self.assertIn(g('async 64M').split()[1], ('500', '801'))
        self.over(g)

    def test_d8_without_pools_and_physical_memory(self):
        self.old(10010)

    def test_d8_of_cuda_11(self):
        self.old(11040)

    def test_d8_of_cuda_12(self):
        self.old(12000)


class Failing(Driver):
    def test_d17_cuinit_that_fails(self):
        self.start_daemon()
        (self.folder / 'faults').write_text('sticky cuInit=100\n')
        g = Gpu(self, '-J', 'one', '--vram', '1G:2G')
        self.assertEqual(g('init'), 'error 100')
        self.over(g)

    def test_a12_a_context_that_fails(self):
        self.start_daemon()
        (self.folder / 'faults').write_text('times=2 cuDevicePrimaryCtxRetain=999\n')
        g = Gpu(self, '-J', 'one', '--vram', '1G:2G')
        self.assertEqual(g('init'), 'error 999')
        self.assertTrue(until(lambda: self.held() == 0, 3), self.status())
        self.assertEqual(g('init'), 'error 999')
        self.assertEqual(g('init'), 'ok')
        self.over(g)

    def test_a12_allocations_that_fail(self):
        self.start_daemon()
        (self.folder / 'faults').write_text('# none\n')
        g = Gpu(self, '-J', 'one', '--vram', '1G:2G').start()
        free = g.info()[0]
        (self.folder / 'faults').write_text('sticky cuMemAlloc_v2=2; sticky cuMemCreate=999\n')
        for _ in range(3):
            self.assertTrue(g('alloc 64M').startswith('error'))
            self.assertEqual(g('create 64M'), 'error 999')
        (self.folder / 'faults').write_text('# none\n')
        self.assertAlmostEqual(g.info()[0], free, delta=4 * MIB)
        self.assertTrue(g('alloc 1G').startswith('ok'))
        self.over(g)


class Slow(Driver):
    def test_a3_a_call_under_way_is_no_saving_of_the_driver(self):
        """NVML shows the memory seconds after it was charged: nobody else may have it meanwhile"""
        (self.folder / 'faults').write_text('# none\n')
        self.start_daemon()
        g = Gpu(self, '-J', 'one', '--vram', '1G:4G').start()
        self.assertTrue(g('alloc 512M').startswith('ok'))
        before = self.settled()
        (self.folder / 'faults').write_text('sticky delay=4s cuMemAlloc_v2\n')
        g.tell('alloc 1G')
        self.assertTrue(until(lambda: self.held() >= before + GIB, 1.5))
        least, start = before + GIB, time.monotonic()
        while time.monotonic() - start < 3:
            least = min(least, self.held())
        self.assertGreaterEqual(least, before + GIB)
        self.assertTrue(g.hear().startswith('ok'))
        self.over(g)


class OtherNvml(Driver):
    def faults(self, *words):
        (self.folder / 'nvml-faults').write_text('\n'.join(words) + '\n')

    def lists(self, *versions):
        kinds = 'Compute', 'Graphics', 'MPSCompute'
        return [f'error=nvmlDeviceGet{k}RunningProcesses{v}:NVML_ERROR_FUNCTION_NOT_FOUND' for k in kinds for v in versions]

    def test_a7_older_lists(self):
        for versions in (('_v3',), ('_v3', '_v2')):
            with self.subTest(versions):
                self.faults(*self.lists(*versions))
                self.start_daemon()
                self.over(self.fence())
                self.stop_daemon()

    def test_e18_no_lists_at_all(self):
        """nothing is known of processes: estimates stand, and nothing hangs"""
        self.faults(*self.lists('_v3', '_v2', ''))
        self.start_daemon()
        self.over(self.fence())

    def test_wsl_the_lists_do_not_say_how_much(self):
        self.faults('no-process-memory')
        self.start_daemon()
        g = self.fence()
        for item in self.ps():
            self.assertLess(item['vram_used_bytes'], 2 * GIB)
            self.assertLess(abs(item['drift_bytes'] or 0), 2 * GIB)
        for gpu in self.status():
            self.assertLess(abs(gpu['vram_drift_bytes'] or 0), 2 * GIB)
            self.assertLess(gpu['vram_unmanaged_bytes'], GIB)
        free = g.info()[0]
        self.assertTrue(g('alloc 512M').startswith('ok'))
        os.kill(g.pid, 9)
        start = time.monotonic()
        self.assertTrue(until(lambda: self.held() == 0 and not self.ps(), 5), self.status())
        self.assertLess(time.monotonic() - start, 3)
        self.assertGreater(free, 0)

    def test_f1_a_card_that_falls_off_the_bus_and_comes_back(self):
        self.start_daemon()
        g = Gpu(self, '-J', 'one', '--vram', '1G:2G').start()
        self.faults('lost')
        time.sleep(1.5)
        self.assertEqual(len(self.status()), 1)
        self.ps()
        self.faults('')
        self.assertTrue(until(lambda: g('alloc 256M').startswith('ok'), 5))
        self.over(g)

    def test_e21_nvml_hangs(self):
        self.start_daemon()
        g = Gpu(self, '-J', 'one', '--vram', '1G:2G').start()
        self.faults('hang')
        time.sleep(1.2)
        start = time.monotonic()
        self.assertTrue(g('alloc 256M').startswith('ok'))
        self.assertEqual(g('alloc 4G'), OOM)
        self.status()
        self.assertLess(time.monotonic() - start, 3)
        self.faults('')
        self.over(g)


class Missing(Driver):
    def said_by(self, *args):
        p = subprocess.Popen([*self.daemon_args(), *args], env=self.env, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                             text=True)
        self.children.append(p)
        return p

    def test_no_nvml(self):
        (self.folder / 'libnvidia-ml.so.1').unlink()
        p = self.said_by()
        if until(lambda: p.poll() is not None or self.cli('status').returncode == 0, 5) and p.poll() is None:
            r = self.run_job('--vram', '1G', '--', 'true', timeout=20)
            self.assertNotEqual(r.returncode, 0)
            said = r.stderr + self.cli('doctor').stdout
            p.terminate()
        else:
            said = p.stderr.read()
        self.assertIn('libnvidia-ml', said)

    def test_no_driver(self):
        (self.folder / 'libcuda.so.1').unlink()
        p = self.said_by()
        if until(lambda: p.poll() is not None or self.cli('status').returncode == 0, 5) and p.poll() is None:
            g = Gpu(self, '-J', 'one', '--vram', '1G')
            said = g('init') + g.end() + self.cli('doctor').stdout
            p.terminate()
        else:
            said = p.stderr.read()
        self.assertIn('libcuda', said)

    def test_a_folder_that_is_not_there(self):
        self.folder = self.dir / 'nowhere'
        p = self.said_by()
        self.assertTrue(until(lambda: p.poll() is not None, 5))
        self.assertIn('nowhere', p.stderr.read())


if __name__ == '__main__':
    tap.main()
