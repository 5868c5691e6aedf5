#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that processes share: its owner pays, then who still has it open; never both, never nobody."""
import os
import random
import signal

import tap
import world
from world import GIB, MIB, until


class Gpu(world.Gpu):
    PROGRAM = str(world.BUILD / 'tests/programs/gpu_share')

    def make(self, line):
        said = self(line)
        assert said.startswith('ok '), f'{line}: {said}'
        return said.split()[1]

    def do(self, line):
        said = self(line)
        assert said == 'ok', f'{line}: {said}'

    def kill(self):
        """the program alone, not its keeper"""
        os.kill(self.pid, signal.SIGKILL)
        self.p.wait()


class Piped(Gpu):
    """a program that somebody else started, reached through two named pipes"""

    def __init__(self, test, to, back):  # pylint: disable=super-init-not-called
        self.to, self.back = open(to, 'w', buffering=1, encoding='ascii'), open(back, encoding='ascii')
        test.addCleanup(self.to.close)
        test.addCleanup(self.back.close)
        self.pid = None

    def tell(self, line):
        self.to.write(line + '\n')

    def hear(self):
        return self.back.readline().strip()


class Sharing(world.World):
    """each kind of sharing is a function (owner, importer) → (what to free, what to close)"""

    def gpu(self, *options, **kw):
        return Gpu(self, *options, **kw).start()

    def pair(self):
        """two jobs with an equal limit"""
        return self.gpu('--vram', '4G', '--name', 'owner'), self.gpu('--vram', '4G', '--name', 'importer')

    def ipc(self, owner, importer, size='1G'):
        mine = owner.make(f'alloc {size}')
        owner.do(f'fill {mine} 77')
        return mine, importer.make('open ' + owner.make(f'ipc {mine}'))

    def inside(self, gpu):
        """one more program of the same job: a child of the first"""
        ends = str(self.dir / 'in'), str(self.dir / 'out')
        for end in ends:
            os.mkfifo(end)
        gpu.do('spawn ' + ' '.join(ends))
        return Piped(self, *ends).start()

    def box(self, importer):
        path = str(self.dir / f'box{importer.pid}')
        importer.do('bind ' + path)
        return path

    def vmm(self, owner, importer, size='1G'):
        mine = owner.make(f'create {size}')
        owner.do(f'fill {mine} 77')
        owner.do(f'send {mine} {self.box(importer)}')
        return mine, importer.make('receive')

    def external(self, owner, importer, size='1G'):
        mine = owner.make(f'create {size}')
        owner.do(f'fill {mine} 77')
        owner.do(f'send {mine} {self.box(importer)}')
        return mine, importer.make('receive-external')

    def pool(self, owner, importer, size='1G'):
        mine = owner.make(f'pool {size}')
        owner.do(f'fill {mine} 77')
        owner.do(f'send {mine} {self.box(importer)}')
        importer.do('receive-pool')
        return mine, importer.make('import-pointer ' + owner.make(f'pointer {mine}'))

    def of(self, name):
        return sum(i['vram_used_bytes'] or 0 for i in self.ps(name) if i['pid'])

    def comes_to(self, name, want, slack=64 * MIB, seconds=5):
        self.assertTrue(until(lambda: abs(self.of(name) - want) <= slack, seconds),
                        f'{name}: {self.of(name)} instead of {want}\n{self.ps()}{self.said()}')

    def stays_at(self, name, want, slack=64 * MIB):
        for _ in range(8):
            self.comes_to(name, want, slack, 0.5)

    def base(self, importer):
        return world.GIB * 4 - importer.info()[0]

    def unmanaged(self):
        """in whole 64 MiB: of a real card's context, some is shown with no process"""
        return self.status()[0]['vram_unmanaged_bytes'] // (64 * MIB) * 64 * MIB

    # ---- while the owner lives ----

    def importer_is_free(self, kind):
        owner, importer = self.pair()
        before, context = importer.info()[0], self.base(owner)
        mine, theirs = kind(owner, importer)
        self.assertEqual(importer(f'check {theirs} 77'), 'ok same')
        self.comes_to('owner', context + GIB)
        self.assertEqual(importer.info()[0], before)
        # its whole own limit is left to it
        more = importer.make('alloc 3G')
        importer.do(f'free {more}')
        if kind != self.pool:  # what was opened of a pool stays until its importer is gone: measured
            importer.do(f'free {theirs}')
        owner.do(f'free {mine}')
        self.comes_to('owner', context)
        if kind == self.pool:
            importer.end()
        else:
            self.comes_to('importer', context)
            self.assertEqual(importer.info()[0], before)
        self.assertTrue(until(lambda: self.unmanaged() == 0, 3), self.status())

    def test_ipc_costs_the_importer_nothing(self):
        self.importer_is_free(self.ipc)

    def test_a8_vmm_import_costs_nothing(self):
        self.importer_is_free(self.vmm)

    def test_external_memory_costs_nothing(self):
        self.importer_is_free(self.external)

    def test_pool_import_costs_nothing(self):
        self.importer_is_free(self.pool)

    # ---- the owner frees ----

    def owner_frees(self, kind, close):
        owner, importer = self.pair()
        context = self.base(importer)
        mine, theirs = kind(owner, importer)
        owner.do(f'free {mine}')
        # at once, in one step: the owner's limit is its own again, the importer's is short of it
        self.assertAlmostEqual(importer.info()[0], 3 * GIB - context, delta=64 * MIB)
        self.assertAlmostEqual(owner.info()[0], 4 * GIB - context, delta=64 * MIB)
        self.assertEqual(importer('alloc 3G'), 'error 2')
        self.stays_at('importer', context + GIB)
        self.stays_at('owner', context)
        self.assertEqual(self.unmanaged(), 0)
        close(importer, theirs)
        self.comes_to('importer', context)

    def test_ipc_is_inherited_when_the_owner_frees(self):
        self.owner_frees(self.ipc, lambda importer, theirs: importer.do(f'free {theirs}'))

    def test_ipc_by_a_pointer_inside_is_inherited_too(self):
        owner, importer = self.pair()
        context = self.base(importer)
        mine = owner.make('alloc 1G')
        theirs = importer.make('open ' + owner.make(f'ipc-inside {mine}'))
        owner.do(f'free {mine}')
        self.assertAlmostEqual(importer.info()[0], 3 * GIB - context, delta=64 * MIB)
        importer.do(f'close {theirs}')
        self.comes_to('importer', context)

    def test_vmm_is_inherited_when_the_owner_frees(self):
        self.owner_frees(self.vmm, lambda importer, theirs: importer.do(f'free {theirs}'))

    def test_external_memory_is_inherited_when_the_owner_frees(self):
        self.owner_frees(self.external, lambda importer, theirs: importer.do(f'free {theirs}'))

    def test_what_a_pool_leaves_is_inherited(self):
        owner, importer = self.pair()
        context = self.base(importer)
        mine, _ = self.pool(owner, importer)
        owner.do(f'free {mine}')
        self.stays_at('importer', context + GIB)
        self.stays_at('owner', context)
        self.assertEqual(self.unmanaged(), 0)
        self.assertEqual(importer('alloc 3G'), 'error 2')
        importer.end()
        self.assertTrue(until(lambda: self.held() < context + 64 * MIB, 5))

    def test_within_one_job_it_is_not_given_twice(self):
        owner = self.gpu('--vram', '4G', '--name', 'both')
        importer = self.inside(owner)
        context = self.base(owner)  # of both
        mine, theirs = self.ipc(owner, importer, '2G')
        self.assertAlmostEqual(owner.info()[0], 2 * GIB - context, delta=64 * MIB)
        owner.do(f'free {mine}')
        # it is still on the card, so no call takes the job over its limit
        self.assertEqual(owner('alloc 2G'), 'error 2')
        importer.do(f'close {theirs}')
        owner.make('alloc 2G')

    # ---- the owner dies ----

    def owner_dies(self, kind):
        owner, importer = self.pair()
        context = self.base(importer)
        _, theirs = kind(owner, importer)
        owner.kill()
        self.comes_to('importer', context + GIB)
        self.assertEqual(importer(f'check {theirs} 77'), 'ok same')
        self.stays_at('importer', context + GIB)
        self.assertEqual(importer('alloc 3G'), 'error 2')
        self.assertTrue(until(lambda: self.unmanaged() == 0, 3), self.status())
        importer.end()
        self.assertTrue(until(lambda: self.held() == 0, 5), self.status())

    def test_ipc_is_inherited_when_the_owner_is_killed(self):
        self.owner_dies(self.ipc)

    def test_vmm_is_inherited_when_the_owner_is_killed(self):
        self.owner_dies(self.vmm)

    def test_pool_is_inherited_when_the_owner_is_killed(self):
        self.owner_dies(self.pool)

    def test_over_its_limit_by_inheritance_nobody_is_killed(self):
        owner = self.gpu('--vram', '4G', '--name', 'owner')
        importer = self.gpu('--vram', '2G', '--name', 'importer')
        mine, theirs = self.ipc(owner, importer, '3G')
        owner.do(f'free {mine}')
        self.assertEqual(importer.info()[0], 0)
        self.assertEqual(importer('alloc 16M'), 'error 2')
        self.assertEqual(importer(f'check {theirs} 77'), 'ok same')
        importer.do(f'close {theirs}')
        importer.make('alloc 1G')

    def test_the_last_importer_inherits_then_the_one_before(self):
        owner, first = self.pair()
        second = self.gpu('--vram', '4G', '--name', 'second')
        context = self.base(first)
        mine = owner.make('alloc 1G')
        handle = owner.make(f'ipc {mine}')
        first.make('open ' + handle)
        theirs = second.make('open ' + handle)
        owner.kill()
        self.comes_to('second', context + GIB)
        self.stays_at('importer', context)
        second.do(f'close {theirs}')
        self.comes_to('importer', context + GIB)
        self.stays_at('second', context)
        first.kill()
        self.assertTrue(until(lambda: self.held() <= context + 64 * MIB, 5), self.status())

    def test_sharing_onwards_and_back(self):
        """a handle that was imported is retained, its mapping goes, and the owner imports its own"""
        owner, importer = self.pair()
        context = self.base(importer)
        mine, theirs = self.vmm(owner, importer)
        kept = importer.make(f'retain {theirs}')
        owner.do(f'send {mine} {self.box(owner)}')
        again = owner.make('receive')
        owner.do(f'free {mine}')
        self.stays_at('importer', context)  # the owner has it open itself, but was not the first
        owner.do(f'free {again}')
        self.comes_to('importer', context + GIB)
        importer.do(f'free {theirs}')
        self.stays_at('importer', context + GIB)
        importer.do(f'free {kept}')
        self.comes_to('importer', context)
        self.comes_to('owner', context)

    def test_descriptors_are_no_way_around_the_limit(self):
        gpu = self.gpu('--vram', '4G', '--name', 'hoarder')
        context, box = self.base(gpu), self.box(gpu)
        for _ in range(6):  # each of them is only in a descriptor that is under way
            mine = gpu.make('create 1G')
            gpu.do(f'send {mine} {box}')
            gpu.do(f'free {mine}')
        got = [gpu('receive') for _ in range(6)]
        self.assertEqual([g[:2] for g in got], ['ok'] * 3 + ['er'] * 3, got)
        self.assertEqual(set(got[3:]), {'error 2'})
        self.comes_to('hoarder', context + 3 * GIB)
        for said in got[:3]:
            gpu.do('free ' + said.split()[1])
        self.comes_to('hoarder', context)

    # ---- any order, any death ----

    def truth(self, watch):
        """NVML's figures, by pid"""
        said = watch('nvml').split()
        return {int(p.split(':')[0]): int(p.split(':')[1]) for p in said[2:]}

    def agrees(self, watch):
        real = self.truth(watch)
        shown = {i['pid']: i['vram_used_bytes'] for i in self.ps() if i['pid'] and i['job']}
        return set(shown) == set(real) and all(abs(shown[p] - real[p]) <= 64 * MIB for p in real)

    def test_any_order_and_any_death_end_at_what_nvml_shows(self):
        rand = random.Random(20261201)
        watch = Gpu(self, bare=True, env={**self.env, 'LD_LIBRARY_PATH': self.driver()})
        jobs = [self.gpu('--vram', '20G', '--name', f'j{i}') for i in range(4)]
        boxes = {g.pid: self.box(g) for g in jobs}
        things = []  # (whose, id, how it is freed); somebody else may have opened it
        for step in range(120):
            owner, importer = rand.sample(jobs, 2)
            what = rand.random()
            if what < 0.15 and len(jobs) > 2:
                owner.kill()
                jobs.remove(owner)
                things = [t for t in things if t[0] is not owner]
                jobs.append(self.gpu('--vram', '20G', '--name', f'n{step}'))
                boxes[jobs[-1].pid] = self.box(jobs[-1])
            elif what < 0.4 and things:
                whose, thing = things.pop(rand.randrange(len(things)))
                whose.do(f'free {thing}')
            elif what < 0.7:
                mine = owner.make(f'alloc {rand.randrange(64, 512)}M')
                theirs = importer.make('open ' + owner.make(f'ipc {mine}'))
                things += [(owner, mine), (importer, theirs)]
            else:
                mine = owner.make(f'create {rand.randrange(64, 512)}M')
                owner.do(f'send {mine} {boxes[importer.pid]}')
                things += [(owner, mine), (importer, importer.make('receive'))]
        self.assertTrue(until(lambda: self.agrees(watch), 8, 0.2), f'{self.truth(watch)}\n{self.ps()}')
        for whose, thing in things:
            whose.do(f'free {thing}')
        self.assertTrue(until(lambda: self.agrees(watch), 8, 0.2), f'{self.truth(watch)}\n{self.ps()}')
        for gpu in jobs:
            gpu.kill()
        self.assertTrue(until(lambda: self.held() == 0 and self.unmanaged() == 0, 8), self.status())

    # ---- with programs that nobody manages ----

    def driver(self):
        if world.REAL:
            return self.env.get('LD_LIBRARY_PATH', '')
        return str(next(self.dir.rglob('sim/libcuda.so.1')).parent)

    def test_an_owner_outside_of_any_job(self):
        importer = self.gpu('--vram', '4G', '--name', 'importer')
        context = self.base(importer)
        outside = Gpu(self, bare=True, env={**self.env, 'LD_LIBRARY_PATH': self.driver()})
        outside.start()
        _, theirs = self.ipc(outside, importer)
        self.assertEqual(importer(f'check {theirs} 77'), 'ok same')
        self.stays_at('importer', context)
        outside.kill()
        # NVML says whose it is now
        self.comes_to('importer', context + GIB)
        importer.do(f'close {theirs}')
        self.comes_to('importer', context)

    def test_an_importer_outside_of_any_job(self):
        owner = self.gpu('--vram', '4G', '--name', 'owner')
        context = self.base(owner)
        outside = Gpu(self, bare=True, env={**self.env, 'LD_LIBRARY_PATH': self.driver()})
        outside.start()
        mine, _ = self.ipc(owner, outside)
        owner.do(f'free {mine}')
        self.comes_to('owner', context)
        self.assertTrue(until(lambda: self.unmanaged() >= GIB, 5), self.status())

    # ---- allotd goes away ----

    def test_after_a_restart_nvml_settles_it(self):
        owner, importer = self.pair()
        context = self.base(importer)
        mine, theirs = self.ipc(owner, importer)
        self.kill_daemon()
        self.start_daemon()
        owner.do(f'free {mine}')
        self.comes_to('importer', context + GIB)
        self.comes_to('owner', context)
        importer.do(f'close {theirs}')
        self.comes_to('importer', context)
        self.comes_to('owner', context)


if __name__ == '__main__':
    tap.main()
