#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults that others met (tests/field_reports.tsv) and that belong to no other program of tests."""
import os
import re
import sys
import time

import tap
import world
from test_limit import OOM
from world import GIB, MIB, Gpu, alive, until

HERE = os.path.dirname(os.path.abspath(__file__))
TWO = [os.path.join(HERE, 'test_limit.py'), '--two']

# with a signal handler that interrupts system calls, at every moment of attaching and allocating
STORM = '''
import ctypes, signal
signal.signal(signal.SIGALRM, lambda *a: None)
signal.siginterrupt(signal.SIGALRM, True)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
cu = ctypes.CDLL('libcuda.so.1')
dev, ctx, p = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
def must(r):
    if r:
        raise SystemExit(f'error {r}')
must(cu.cuInit(0))
must(cu.cuDeviceGet(ctypes.byref(dev), 0))
must(cu.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), dev))
must(cu.cuCtxSetCurrent(ctx))
for i in range(300):
    must(cu.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(80 << 20)))
    must(cu.cuMemFree_v2(p))
signal.setitimer(signal.ITIMER_REAL, 0)
print('quiet')
'''


class Reports(world.World):
    def test_a14_the_second_process_sees_what_the_first_holds(self):
        a = Gpu(self, '--vram', '6G', before=TWO)
        self.assertEqual(a.hear(), 'ready')
        self.assertEqual(a('1 init'), 'ok')
        self.assertTrue(a('1 alloc 3G').startswith('ok'))
        self.assertEqual(a('2 init'), 'ok')
        free, total = map(int, a('2 info').split()[1:])
        self.assertEqual(total, 6 * GIB)
        self.assertLess(free, 3 * GIB)

    def test_a12_what_fails_beside_an_allocation_leaves_nothing(self):
        for call in ('cuMemGetInfo_v2', 'cuCtxGetDevice', 'cuPointerGetAttribute', 'cuPointerGetAttributes',
                     'cuMemGetAddressRange_v2', 'cuDeviceGetAttribute', 'cuStreamIsCapturing', 'cuCtxGetId'):
            env = {**self.env, 'ALLOT_SIM_FAULTS': f'after=20 sticky {call}=999'}
            g = Gpu(self, '-J', call, '--vram', '4G', env=env).start()
            self.assertTrue(until(lambda: self.held() > 0))
            start = self.settled_held()
            for kind in ('alloc 512M', 'managed 512M', 'create 512M') * 8:
                said = g(kind)
                if said.startswith('ok'):
                    self.assertEqual(g(f'free {said.split()[1]}'), 'ok', (call, kind))
            self.assertTrue(until(lambda: self.held() <= start + 64 * MIB, 3), (call, self.held(), start))
            g.end()
            self.assertTrue(until(lambda: self.held() == 0, 5), call)

    def settled_held(self):
        """when two looks in a row are alike"""
        last = -1
        for _ in range(50):
            held = self.held()
            if held == last:
                break
            last = held
            time.sleep(0.1)
        return last

    def test_a28_many_handles_need_no_descriptors(self):
        g = Gpu(self, '--vram', '4G', before=['sh', '-c', 'ulimit -n 40; exec "$0"']).start()
        for n in range(300):
            self.assertTrue(g('create 2M').startswith('ok'), n)
        self.assertLess(len(os.listdir(f'/proc/{g.pid}/fd')), 40)

    def test_b7_freed_memory_is_there_at_once(self):
        g = Gpu(self, '--vram', '4G').start()
        free, _ = g.info()
        for _ in range(20):
            said = g('alloc 2G')
            self.assertTrue(said.startswith('ok'), said)
            self.assertEqual(g(f'free {said.split()[1]}'), 'ok')
            self.assertEqual(g.info()[0], free)

    def test_b8_a_refusal_names_who_holds_it(self):
        a = Gpu(self, '-J', 'pair', '--vram', '4G', before=TWO)
        self.assertEqual(a.hear(), 'ready')
        for n in (1, 2):
            self.assertEqual(a(f'{n} init'), 'ok')
        self.assertTrue(a('1 alloc 2G').startswith('ok'))
        holder = a('1 pid').split()[1]
        self.assertEqual(a('2 alloc 2G'), OOM)
        a.tell('1 quit')
        a.p.terminate()
        said = a.p.stderr.read()
        self.assertRegex(said, rf'pid {holder} holds 2\.\d GiB')

    def test_e4_nobody_elses_process_is_ended(self):
        sim = next(p.parent for p in self.dir.rglob('libcuda.so.1'))
        env = {k: v for k, v in self.env.items() if k != 'ALLOT_SOCKET'}
        env.update(LD_LIBRARY_PATH=str(sim), ALLOT_SIM_DIR=str(sim))
        bare = Gpu(self, bare=True, env=env).start()
        self.assertTrue(bare('alloc 1G').startswith('ok'))
        g = Gpu(self, '-J', 'mine', '--vram', '2G').start()
        self.assertEqual(self.cli('cancel', self.ps('mine')[0]['job']).returncode, 0)
        self.assertTrue(until(lambda: not alive(g.pid), 15))
        self.assertNotEqual(self.cli('cancel', bare.pid).returncode, 0)
        self.stop_daemon()
        self.assertTrue(alive(bare.pid))
        self.assertTrue(bare('alloc 1G').startswith('ok'))

    def test_e5_interrupted_calls_go_on(self):
        r = self.run_job('--vram', '2G', '--', sys.executable, '-c', STORM, timeout=60)
        self.assertEqual((r.returncode, r.stdout.strip()), (0, 'quiet'), r.stderr)

    def test_e11_children_without_a_context_do_not_matter(self):
        g = Gpu(self, '-J', 'loader', '--vram', '2G', before=['sh', '-c', 'sleep 30 & "$0"; kill $!']).start()
        self.assertTrue(g('alloc 1G').startswith('ok'))
        rows = self.ps('loader')
        self.assertEqual([r['pid'] for r in rows], [g.pid], rows)

    def test_l3_a_hint_looks_at_the_state(self):
        """who waits is told for whom; with room nothing is said at all"""
        r = self.run_job('--vram', '1G', '--', 'true')
        self.assertEqual((r.returncode, r.stderr), (0, ''))
        g = Gpu(self, '-J', 'holder', '--vram', '100G').start()
        r = self.run_job('--vram', '80G', '--wait-timeout', '1s', '--', 'true')
        self.assertEqual(r.returncode, 75, r.stderr)
        self.assertTrue(re.search(r'holder', r.stderr), r.stderr)
        g.end()


class TwoCards(world.World):
    PROFILE = 'four'

    def test_a6_two_processes_on_two_cards(self):
        """with a limit as large as the card nothing is refused that the bare driver gives"""
        a = Gpu(self, '--gpus', '2', '--vram', '99%', before=TWO)
        self.assertEqual(a.hear(), 'ready')
        for n, card in ((1, 0), (2, 1)):
            self.assertEqual(a(f'{n} init'), 'ok')
            self.assertEqual(a(f'{n} device {card}'), 'ok')
        for n in (1, 2):
            free = int(a(f'{n} info').split()[1])
            self.assertTrue(a(f'{n} alloc {free // MIB - 600}M').startswith('ok'), n)


if __name__ == '__main__':
    tap.main()
