#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each kind of GPU memory: charged when it appears, given back when it goes (tests/programs/hook_cases.c)."""
import tap
import world

CASES = str(world.BUILD / 'tests/programs/hook_cases')


class Case(world.World):
    def case(self, name, *options, before=()):
        out = self.run_job(*(options or ('--vram', '2G')), '--', *before, CASES, name)
        self.assertEqual(out.returncode, 0, out.stderr + self.said())
        self.assertTrue(world.until(lambda: self.held() == 0, 5), self.status())
        return out.stderr


class Hooks(Case):
    def test_linear_memory(self):
        self.assertEqual(self.case('linear'), '')

    def test_a10_d17_d18_refusals_and_foreign_pointers(self):
        said = self.case('refusals').splitlines()
        self.assertEqual(len(said), 6, said)
        for line in said:
            self.assertIn('out of memory', line)

    def test_a1_small_ones_do_not_drift(self):
        self.case('drift')

    def test_a27_pools_are_charged_by_what_they_reserve(self):
        self.case('pool')

    def test_a5_what_a_pool_keeps_makes_room(self):
        self.case('pool_trim')

    def test_pools_with_threads(self):
        self.case('pool_threads')

    def test_a11_freed_by_the_other_call(self):
        self.case('cross_free')

    def test_a8_a16_physical_memory_counts_once(self):
        self.assertEqual(self.case('vmm'), '')

    def test_a15_memory_in_the_host(self):
        self.assertEqual(self.case('vmm_host'), '')

    def test_arrays(self):
        self.case('arrays')

    def test_graphs(self):
        self.case('graph')

    def test_contexts_take_their_memory_along(self):
        self.case('contexts', '--vram', '4G')

    def test_primary_context_reset(self):
        self.case('primary_reset', '--vram', '4G')


class OtherDriver:
    """a driver whose own calls go through the dynamic linker, and so meet our hooks, and which reads its environment
    itself, and so shows every card"""

    def setUp(self):
        super().setUp()
        link = next(self.dir.rglob('sim/libcuda.so.1'))
        link.unlink()
        link.symlink_to(world.BUILD / 'sim/nosym/libcuda.so.1')


class ThroughTheLinker(OtherDriver, Hooks):
    """all of it once more"""


class FourCards(Case):
    PROFILE = 'four'

    def test_a13_the_block_remembers_its_card(self):
        self.case('two_cards', '--vram', '2G', '--gpus', '2')


class FourCardsShown(OtherDriver, Case):
    PROFILE = 'four'

    def test_a_card_outside_the_lease(self):
        """seen, and refused"""
        said = self.case('outside', '--vram', '2G', before=('env', '-u', 'CUDA_VISIBLE_DEVICES'))
        self.assertIn("not one of this job's GPUs", said)


if __name__ == '__main__':
    tap.main()
