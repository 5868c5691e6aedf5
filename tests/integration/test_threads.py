#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything under ThreadSanitizer: programs of sixteen threads in jobs, with the shims preloaded as
ever.  Shim, simulated driver, allotd, keeper and command line are of a build with -Db_sanitize=thread
(tools/check.py build threads); whatever any of them complains of is a failure."""
import subprocess
import time

import tap
import world
from world import ALLOT, BUILD, ROOT, Gpu, until

POOLS = str(BUILD / 'tests/programs/gpu_pools')
STORM = str(BUILD / 'tests/programs/gpu_storm')


class Threads(world.World):
    PROFILE = 'small4g'  # the sanitizer leaves a program less room for addresses than a large card takes
    START = False

    def setUp(self):
        super().setUp()
        self.reports = self.dir / 'reports'
        self.reports.mkdir()
        self.env['TSAN_OPTIONS'] = f'log_path={self.reports}/r:exitcode=66:suppressions={ROOT}/tests/tsan.supp'
        self.start_daemon()

    def tearDown(self):
        self.stop_daemon()
        said = '\n'.join(f.read_text(errors='replace')[:6000] for f in sorted(self.reports.iterdir())[:3])
        super().tearDown()
        self.assertEqual(said, '')

    def storm(self, *args, limit='1G:3G'):
        p = subprocess.Popen([ALLOT, 'run', '--vram', limit, '--', STORM, *map(str, args)], env=self.env, text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.children.append(p)
        return p

    def test_sixteen_threads_of_everything(self):
        """inside the limit, and far over it"""
        for seed, demand in ((1, 60), (2, 400)):
            p = self.storm(1, 16, 400, seed, demand)
            self.assertEqual(p.wait(90), 0, p.stderr.read())
            self.assertIn('done 6400', p.stdout.read())
        self.assertTrue(until(lambda: self.held() == 0, 10))

    def test_threads_that_wait_and_are_refused(self):
        g = Gpu(self, '-J', 'one', '--vram', '1G:2G', '--when-full', 'wait=1s').start()
        h = Gpu(self, '-J', 'two', '--vram', '1G:3G').start()
        self.assertTrue(h('alloc 1G').startswith('ok'))
        g.tell('threads 16 150M')
        h.tell('threads 8 100M')
        self.assertTrue(g.hear().startswith('ok'))
        self.assertTrue(h.hear().startswith('ok'))
        for one in g, h:
            one.end()
            self.assertEqual(one.p.returncode, 0)

    def test_allotd_goes_and_comes_under_sixteen_threads(self):
        p = self.storm(1, 16, 1500, 3, 100)
        for _ in range(3):
            time.sleep(0.4)
            self.kill_daemon()
            self.start_daemon()
        self.assertEqual(p.wait(90), 0, p.stderr.read())

    def test_pools_at_the_limit(self):
        """turns that allotd gives out, among the threads of several processes"""
        for mode in ('grow', 'fit'):
            p = subprocess.Popen([ALLOT, 'run', '--vram', '1G:1500M', '--', POOLS, mode, '2', '8', '2'], env=self.env,
                                 text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.children.append(p)
            self.assertEqual(p.wait(90), 0, p.stderr.read())

    def test_forks_beside_threads(self):
        g = Gpu(self, '-J', 'one', '--vram', '1G:3G').start()
        self.assertEqual(g('threads 8 32M'), 'ok 0')
        p = self.storm(3, 4, 200, 5, 60)
        self.assertEqual(p.wait(90), 0, p.stderr.read())
        self.assertEqual(g('threads 8 32M'), 'ok 0')
        g.end()


if __name__ == '__main__':
    tap.main()
