#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wall: a job is held to its limit, over all its processes, whatever it does."""
import os
import signal
import sys
import time

import tap
import world
from world import ALLOT, GIB, MIB, Gpu, alive, until

OOM = 'error 2'


class Wall(world.World):
    def test_a22_a24_the_context_counts(self):
        g = Gpu(self, '--vram', '4G').start()
        free, total = g.info()
        self.assertEqual(total, 4 * GIB)
        self.assertEqual(g('total'), f'ok {4 * GIB}')
        self.assertLess(free, 4 * GIB - 256 * MIB)
        n = 0
        while g('alloc 64M').startswith('ok'):
            n += 1
            self.assertLess(n, 70)
        self.assertGreaterEqual(n, free // (64 * MIB) - 1)
        self.assertLessEqual(n * 64 * MIB, free)

    def test_d18_the_error_is_cudas_and_one_line_says_why(self):
        g = Gpu(self, '-J', 'train', '--vram', '2G').start()
        self.assertEqual(g('alloc 8G'), OOM)
        self.assertTrue(g('alloc 256M').startswith('ok'))
        said = g.end().strip().splitlines()
        self.assertEqual(len(said), 1, said)
        for word in ('(train)', 'out of memory', '8.0 GiB', '2.0 GiB', 'limit'):
            self.assertIn(word, said[0])

    def test_a3_two_processes_share_one_limit(self):
        a = Gpu(self, '-J', 'pair', '--vram', '6G', before=[sys.executable, os.path.abspath(__file__), '--two'])
        self.assertEqual(a.hear(), 'ready')
        self.assertEqual(a('1 init'), 'ok')
        self.assertEqual(a('2 init'), 'ok')
        self.assertTrue(a('1 alloc 3G').startswith('ok'))
        self.assertEqual(a('2 alloc 3G'), OOM)
        free1, free2 = (int(a(f'{n} info').split()[1]) for n in (1, 2))
        self.assertEqual(free1, free2)
        self.assertTrue(a('2 alloc 1G').startswith('ok'))
        self.assertEqual(len(self.ps('pair')), 2)

    def test_a13_managed_memory_hides_no_context(self):
        """NVML shows it with the card, never with a process: what the context takes must stay charged beside it"""
        g = Gpu(self, '-J', 'uvm', '--vram', '4G').start()
        self.settled()
        before, _ = g.info()
        kept = g('managed 2G').split()[1]
        time.sleep(1.5)
        self.assertAlmostEqual(g.info()[0] / MIB, before / MIB - 2048, delta=4)
        self.assertEqual(g(f'fill {kept} 5'), 'ok')
        self.assertEqual(g(f'check {kept} 5'), 'ok same')
        time.sleep(2.5)
        self.assertAlmostEqual(g.info()[0] / MIB, before / MIB - 2048, delta=4)
        self.assertLess(self.status()[0]['vram_unmanaged_bytes'], GIB)
        self.assertLess(abs(self.status()[0]['vram_drift_bytes']), 64 * MIB)
        self.assertEqual(g('managed 2G'), OOM)
        self.assertEqual(g(f'free {kept}'), 'ok')
        self.assertAlmostEqual(g.info()[0] / MIB, before / MIB, delta=4)

    def test_a13_a_modules_variables_are_charged_before_it_is_loaded(self):
        g = Gpu(self, '--vram', '4G').start()
        self.settled()
        before, _ = g.info()
        self.assertEqual(g('module 6G'), OOM)
        self.assertAlmostEqual(g.info()[0] / MIB, before / MIB, delta=4)
        said = g('module 1G')
        self.assertTrue(said.startswith('ok'), said)
        self.assertLessEqual(g.info()[0], before - 1024 * MIB)
        self.settled()
        free, _ = g.info()
        self.assertGreater(free, before - 1536 * MIB)
        self.assertLess(abs(self.status()[0]['vram_drift_bytes']), 64 * MIB)
        self.assertEqual(g('alloc 3G'), OOM)
        self.assertEqual(g(f'free {said.split()[1]}'), 'ok')
        self.settled()
        self.assertGreater(g.info()[0], before - 256 * MIB)  # what the driver keeps for modules

    def test_a13_a_contexts_limits_are_memory(self):
        g = Gpu(self, '--vram', '6G').start()
        self.settled()
        before, _ = g.info()
        self.assertEqual(g('limit stack 128K'), OOM)  # of every thread: some 30 GiB
        self.assertEqual(g('limit heap 8G'), OOM)
        self.assertAlmostEqual(g.info()[0] / MIB, before / MIB, delta=4)
        self.assertEqual(g('limit stack 4K'), 'ok')
        stacks = before - g.info()[0]
        self.assertGreater(stacks, 128 * MIB)
        self.assertEqual(g('limit heap 1G'), 'ok')  # taken by the driver when a kernel uses it
        time.sleep(2.5)
        self.assertAlmostEqual((before - g.info()[0] - stacks) / MIB, 1024 - 8, delta=16)
        self.assertLess(abs(self.status()[0]['vram_drift_bytes']), 64 * MIB)
        self.assertEqual(g('limit stack 1K'), 'ok')
        self.assertAlmostEqual((before - g.info()[0]) / MIB, 1024 - 8, delta=64)

    def test_a13_every_kind_of_memory_counts_and_comes_back(self):
        g = Gpu(self, '--vram', '4G').start()
        start, _ = g.info()
        for kind, cost in (('alloc 512M', 512), ('managed 512M', 512), ('create 512M', 512), ('array 8192 8192', 256)):
            said = g(kind)
            self.assertTrue(said.startswith('ok'), (kind, said))
            free, _ = g.info()
            self.assertAlmostEqual((start - free) / MIB, cost, delta=34, msg=kind)
            self.assertEqual(g(f'free {said.split()[1]}'), 'ok')
            self.assertAlmostEqual(g.info()[0] / MIB, start / MIB, delta=34, msg=kind)

    def test_a15_a16_host_memory_is_not_vram(self):
        g = Gpu(self, '--vram', '1G').start()
        free, _ = g.info()
        self.assertTrue(g('host 2G').startswith('ok'))
        self.assertEqual(g.info()[0], free)

    def test_a3_threads_at_the_edge(self):
        g = Gpu(self, '--vram', '2G').start()
        free, _ = g.info()
        self.assertTrue(g('threads 16 96M').startswith('ok'))
        self.assertEqual(g.info()[0], free)

    def test_a1_many_small_ones_leave_nothing(self):
        g = Gpu(self, '--vram', '2G').start()
        free, _ = g.info()
        for size in ('4K', '100K', '3M'):
            self.assertEqual(g(f'threads 4 {size}'), 'ok 0')
        self.assertAlmostEqual(g.info()[0], free, delta=4 * MIB)

    def test_a5_without_a_limit_nothing_is_refused(self):
        g = Gpu(self).start()
        free, total = g.info()
        self.assertTrue(g(f'alloc {free // MIB - 64}M').startswith('ok'))

    def test_a18_a_limit_above_the_card_is_the_card(self):
        g = Gpu(self, '--vram', '1G:4T').start()
        _, total = g.info()
        self.assertLessEqual(total, self.status()[0]['vram_total_bytes'])


class Lowered(world.World):
    def test_a2_below_use_free_reads_0_and_nothing_is_killed(self):
        g = Gpu(self, '-J', 'big', '--vram', '1G:8G').start()
        self.assertTrue(g('alloc 4G').startswith('ok'))
        job = self.ps('big')[0]['job']
        r = self.cli('set', job, 'vram=1G:2G')
        self.assertEqual(r.returncode, 0, r.stderr)
        free, total = g.info()
        self.assertEqual(free, 0)
        self.assertEqual(total, 2 * GIB)
        self.assertEqual(g('alloc 16M'), OOM)
        self.assertEqual(g('fill 0 7'), 'ok')
        self.assertEqual(g('check 0 7'), 'ok same')
        self.assertEqual(g('free 0'), 'ok')
        self.assertTrue(g('alloc 16M').startswith('ok'))


class Inside(world.World):
    """field reports F2 and D: nothing from inside raises a limit"""

    def limit_of(self, *before, **kw):
        g = Gpu(self, '--vram', '2G', before=before, **kw)
        g.start()
        total = g.info()[1]
        self.assertEqual(g('alloc 4G'), OOM)
        g.end()
        return total

    def test_env_i(self):
        self.assertEqual(self.limit_of('env', '-i'), 2 * GIB)

    def test_unset_preload(self):
        self.assertEqual(self.limit_of('env', '-u', 'LD_PRELOAD', '-u', 'ALLOT_SOCKET'), 2 * GIB)
        self.assertEqual(self.limit_of('sh', '-c', 'unset LD_PRELOAD; exec "$0"'), 2 * GIB)

    def test_setsid_and_nested_shells(self):
        self.assertEqual(self.limit_of('setsid', '-w'), 2 * GIB)
        self.assertEqual(self.limit_of('sh', '-c', 'bash -c "env -i sh -c \\"$0\\"" "$0"'), 2 * GIB)

    def test_other_limits_in_the_environment(self):
        self.assertEqual(self.limit_of('env', 'ALLOT_VRAM_LIMIT=99999999999', 'ALLOT_VRAM=64G', 'ALLOT_JOB_ID=1'), 2 * GIB)

    def test_another_socket(self):
        g = Gpu(self, '--vram', '2G', before=['env', 'ALLOT_SOCKET=/nonexistent'])
        said = g('init')
        self.assertNotEqual(said, '')
        if said == 'ok':
            self.assertEqual(g('alloc 4G'), OOM)

    def test_a_nested_run_lives_in_the_parents_lease(self):
        self.assertEqual(self.limit_of(ALLOT, 'run', '--'), 2 * GIB)
        g = Gpu(self, '--vram', '2G', before=[ALLOT, 'run', '--vram', '1G', '--'])
        g.start()
        self.assertEqual(g.info()[1], GIB)

    def test_a_nested_run_cannot_have_more(self):
        r = self.run_job('--vram', '2G', '--', ALLOT, 'run', '--vram', '4G', '--', 'true', timeout=20)
        self.assertEqual(r.returncode, 125, r.stderr)

    def test_set_upward_from_inside_is_refused(self):
        r = self.run_job('-J', 'self', '--vram', '2G', '--', 'sh', '-c', f'{ALLOT} set $ALLOT_JOB_ID vram=8G')
        self.assertEqual(r.returncode, 4, r.stderr)


class Outside(world.World):
    def bare_env(self):
        env = dict(self.env)
        del env['ALLOT_SOCKET']
        if world.REAL:
            return env
        sims = [p for p in self.dir.rglob('profile.conf')] + [p for p in (self.dir / 'state').parent.rglob('libcuda.so.1')]
        env['LD_LIBRARY_PATH'] = str(sims[0].parent)
        env['ALLOT_SIM_DIR'] = str(sims[0].parent)
        return env

    def test_a9_an_unmanaged_program_is_seen_and_subtracted(self):
        before = self.status()[0]['vram_allocatable_bytes']
        g = Gpu(self, env=self.bare_env(), bare=True).start()
        self.assertTrue(g('alloc 8G').startswith('ok'))
        start = time.monotonic()
        self.assertTrue(until(lambda: self.status()[0]['vram_unmanaged_bytes'] >= 8 * GIB, 5))
        self.assertLess(time.monotonic() - start, 3)
        self.assertLessEqual(self.status()[0]['vram_allocatable_bytes'], before - 8 * GIB)
        rows = [i for i in self.ps() if i['state'] == 'unmanaged']
        self.assertEqual([r['pid'] for r in rows], [g.pid])
        g.end()
        self.assertTrue(until(lambda: self.status()[0]['vram_unmanaged_bytes'] == 0, 5))


class Death(world.World):
    def test_e1_kill_9_of_a_holder_gives_everything_back(self):
        g = Gpu(self, '-J', 'victim', '--vram', '8G').start()
        self.assertTrue(g('alloc 4G').startswith('ok'))
        os.kill(g.pid, signal.SIGKILL)
        start = time.monotonic()
        self.assertTrue(until(lambda: self.held() == 0 and not self.ps('victim'), 5), self.ps())
        self.assertLess(time.monotonic() - start, 3)

    def test_kill_9_of_the_keeper(self):
        g = Gpu(self, '-J', 'orphan', '--vram', '8G').start()
        self.assertTrue(g('alloc 4G').startswith('ok'))
        os.kill(g.p.pid, signal.SIGKILL)
        self.assertTrue(g('alloc 1G').startswith('ok'))
        self.assertEqual(g('alloc 4G'), OOM)
        self.assertGreaterEqual(self.held(), 5 * GIB)
        g.tell('quit')
        self.assertTrue(until(lambda: not alive(g.pid), 5))
        self.assertTrue(until(lambda: self.held() == 0 and not self.ps(), 5), self.ps())

    def test_kill_9_of_allotd_loses_nothing(self):
        g = Gpu(self, '-J', 'stayer', '--vram', '8G').start()
        self.assertTrue(g('alloc 4G').startswith('ok'))
        held = self.settled()
        free = g.info()[0]
        self.kill_daemon()
        self.assertTrue(until(lambda: self.cli('status').returncode == 0, 10), 'no keeper started it again')
        self.assertTrue(until(lambda: self.held() == held, 5), (self.held(), held))
        self.assertTrue(until(lambda: g.info()[0] == free, 5), (g.info(), free))
        self.assertTrue(g('alloc 2G').startswith('ok'))
        self.assertEqual(g('alloc 4G'), OOM)
        self.assertEqual(g('free 0'), 'ok')
        self.assertTrue(g('alloc 4G').startswith('ok'))
        g.end()
        # one that a keeper started goes when nothing is left to do
        self.assertTrue(until(lambda: self.cli('status').returncode == 7 or self.held() == 0, 5))

    def test_d20_exec_is_the_same_job(self):
        g = Gpu(self, '-J', 'exec', '--vram', '2G').start()
        self.assertTrue(g('alloc 1G').startswith('ok'))
        g.tell(f'exec {Gpu.PROGRAM}')
        g.start()
        self.assertTrue(until(lambda: g.info()[0] > GIB, 5))
        self.assertTrue(g('alloc 1G').startswith('ok'))
        self.assertEqual(g('alloc 1G'), OOM)

    def test_e6_fork_before_cuda(self):
        g = Gpu(self, '-J', 'fork', '--vram', '2G')
        g.tell('fork')
        said = {g.hear(), g.hear()}
        self.assertEqual({s.split()[0] for s in said}, {'ok', 'child'})
        g.start()
        self.assertEqual(g.info()[1], 2 * GIB)
        self.assertEqual(g('alloc 4G'), OOM)


class Full(world.World):
    PROFILE = 'small4g'

    def test_k1_an_allocation_waits_for_room(self):
        a = Gpu(self, '-J', 'a').start()
        b = Gpu(self, '-J', 'b').start()
        free = a.info()[0]
        self.assertTrue(a(f'alloc {free // MIB - 300}M').startswith('ok'))
        b.tell('alloc 1G')
        self.assertTrue(until(lambda: any(i['state'] == 'waiting-vram' for i in self.ps('b'))))
        self.assertEqual(a('free 0'), 'ok')
        self.assertTrue(b.hear().startswith('ok'))

    def test_a20_when_full_fail_and_a_bounded_wait(self):
        a = Gpu(self, '-J', 'a').start()
        free = a.info()[0]
        b = Gpu(self, '-J', 'b', '--when-full', 'fail').start()
        c = Gpu(self, '-J', 'c', '--when-full', 'wait=1s').start()
        self.assertTrue(a(f'alloc {free // MIB - 600}M').startswith('ok'))
        start = time.monotonic()
        self.assertEqual(b('alloc 2G'), OOM)
        self.assertLess(time.monotonic() - start, 1.5)
        self.assertEqual(c('alloc 2G'), OOM)
        self.assertGreater(time.monotonic() - start, 0.9)
        self.assertIn('(b)', b.end())

    def test_c5_never_wait_in_a_capture(self):
        a = Gpu(self, '-J', 'a').start()
        b = Gpu(self, '-J', 'b').start()
        free = a.info()[0]
        self.assertTrue(a(f'alloc {free // MIB - 300}M').startswith('ok'))
        self.assertEqual(b('begin'), 'ok')
        start = time.monotonic()
        self.assertTrue(b('alloc 1G').startswith('error'))
        self.assertLess(time.monotonic() - start, 2)

    def test_a_promise_never_waits(self):
        a = Gpu(self, '-J', 'a', '--vram', '1G:4G').start()
        b = Gpu(self, '-J', 'b').start()
        free = b.info()[0]
        self.assertTrue(b(f'alloc {free // MIB - 64}M').startswith('ok'))
        start = time.monotonic()
        self.assertTrue(a('alloc 512M').startswith('ok'))
        self.assertLess(time.monotonic() - start, 1)


def two():
    """two gpu_shells under one roof: '1 CMD' and '2 CMD' go to the one or the other"""
    import subprocess
    shells = [subprocess.Popen([sys.argv[-1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) for _ in range(2)]
    args = sys.stdin
    print('ready', flush=True)
    for line in args:
        which, _, cmd = line.partition(' ')
        shell = shells[int(which) - 1]
        shell.stdin.write(cmd)
        shell.stdin.flush()
        print(shell.stdout.readline().strip(), flush=True)


if __name__ == '__main__':
    if '--two' in sys.argv:
        two()
    else:
        tap.main()
