#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several GPUs: which a job sees, and that it has no others.

Two are enough, so these run on a machine with two real cards too (ALLOT_REAL_GPU)."""
import json
import time

import tap
import world
from world import ALLOT, BUILD, GIB, MIB, REAL, Gpu

PAIR = str(BUILD / 'tests/programs/gpu_pair')
SEEN = str(BUILD / 'tests/programs/gpu_seen')
NO_DEVICE, INVALID_DEVICE = 100, 101  # CUDA
INVALID_ARGUMENT, NOT_FOUND = 2, 6    # NVML


class Cards(world.World):
    """two cards at least; self.gpus as `allot status` lists them"""
    PROFILE = 'h200' if REAL else 'h200x2'
    ONE_CARD = False

    def setUp(self):
        super().setUp()
        self.gpus = self.status()
        self.uuids = [g['gpu'] for g in self.gpus]
        if len(self.gpus) < 2:
            self.tearDown()
            self.skipTest('needs two GPUs')

    def look(self, *options, job=(), before=(), **env):
        """gpu_seen in a job: (CUDA's devices, NVML's devices, {option: {library: code}}), as places in self.gpus"""
        r = self.run_job(*job, '--', *before, SEEN, *options, **env)
        self.assertEqual(r.returncode, 0, r.stderr)
        seen, asked = {'cuda': [], 'nvml': []}, {}
        for line in r.stdout.splitlines():
            words = line.split()
            if words[0].startswith('--'):
                asked.setdefault(words[0], {})[words[1]] = int(words[2])
            elif words[1] == 'none':
                seen[words[0]] = int(words[2])
            else:
                self.assertEqual(int(words[1]), len(seen[words[0]]), line)
                seen[words[0]].append(self.uuids.index(words[2]))
        return seen['cuda'], seen['nvml'], asked

    def cuda(self, *args, **kw):
        return self.look(*args, **kw)[0]


class Seen(Cards):

    def test_f6_f7_only_the_lease_is_there(self):
        """whatever the program does to its environment"""
        other = self.gpus[0]
        for n in (0, 1):
            self.assertEqual(self.look(job=('-g', n))[:2], ([n], [n]))
        one = ('-g', '1')
        for how in (('env', '-u', 'CUDA_VISIBLE_DEVICES'), ('env', '-u', 'CUDA_DEVICE_ORDER', '-u', 'CUDA_VISIBLE_DEVICES'),
                    ('env', '-i'), ('env', 'CUDA_VISIBLE_DEVICES=0'), ('env', f'CUDA_VISIBLE_DEVICES={self.uuids[1][:12]}'),
                    ('env', '-i', 'CUDA_VISIBLE_DEVICES=0,1'), ('env', 'CUDA_VISIBLE_DEVICES=GPU-'),
                    ('env', 'ALLOT_GPU_UUIDS=' + other['gpu'], 'CUDA_VISIBLE_DEVICES=0')):
            self.assertEqual(self.look(job=one, before=how)[:2], ([1], [1]), how)
        for value in ('1', other['gpu'], other['gpu'][:12], '', '-1', 'NoDevFiles', f'{other["gpu"]},0', ',0', 'x', ' ' + self.uuids[1]):
            self.assertEqual(self.look(job=one, before=('env', f'CUDA_VISIBLE_DEVICES={value}'))[:2], (NO_DEVICE, [1]), value)
            self.assertEqual(self.cuda('--set', value, job=one), NO_DEVICE, value)
        self.assertEqual(self.cuda('--set', '0,0', job=one), INVALID_DEVICE)
        self.assertEqual(self.cuda('--unset', job=one), [1])
        self.assertEqual(self.cuda('--threads', '16', '--unset', job=one), [1])

    def test_f6_others_are_not_found_and_not_had(self):
        other, mine = self.gpus[0], self.gpus[1]
        _, _, asked = self.look('--pci', other['pci_bus_id'], '--uuid', other['gpu'], '--context', '1', job=('-g', '1'))
        self.assertEqual(asked, {'--pci': {'cuda': INVALID_DEVICE, 'nvml': NOT_FOUND}, '--uuid': {'nvml': NOT_FOUND},
                                 '--context': {'cuda': INVALID_DEVICE}})
        _, _, asked = self.look('--pci', mine['pci_bus_id'], '--uuid', mine['gpu'], '--context', '0', job=('-g', '1'))
        self.assertEqual(asked, {'--pci': {'cuda': 0, 'nvml': 0}, '--uuid': {'nvml': 0}, '--context': {'cuda': 0}})

    def test_g6_both_in_any_order(self):
        both = ('-g', '0,1')
        self.assertEqual(self.look(job=both)[:2], ([0, 1], [0, 1]))
        # as they are named; NVML keeps its own order, and so does an index once the list is gone
        self.assertEqual(self.look(job=('-g', '1,0'))[:2], ([1, 0], [0, 1]))
        self.assertEqual(self.cuda(job=both, before=('env', 'CUDA_VISIBLE_DEVICES=1,0')), [1, 0])
        self.assertEqual(self.cuda(job=both, before=('env', 'CUDA_VISIBLE_DEVICES=1')), [1])
        self.assertEqual(self.cuda(job=both, before=('env', f'CUDA_VISIBLE_DEVICES={self.uuids[1]},{self.uuids[0]}')), [1, 0])
        # the first entry says whether all are names or numbers
        self.assertEqual(self.cuda(job=both, before=('env', f'CUDA_VISIBLE_DEVICES={self.uuids[1]},0')), [1])
        self.assertEqual(self.cuda(job=both, before=('env', f'CUDA_VISIBLE_DEVICES=0,{self.uuids[1]}')), [0])
        self.assertEqual(self.cuda(job=both, before=('env', 'CUDA_VISIBLE_DEVICES=1,7,0')), [1])

    def test_a_nested_job_has_a_part_of_it(self):
        r = ('-g', '0,1', '--', ALLOT, 'run', '-g', '1')
        self.assertEqual(self.look(job=r)[:2], ([1], [1]))
        self.assertEqual(self.look(job=('-g', '1', '--', ALLOT, 'run'))[:2], ([1], [1]))


class Wish(Cards):
    """CUDA_VISIBLE_DEVICES as it stood before `allot run`"""

    def wished(self, value, *job, **env):
        r = self.run_job(*job, '--', 'sh', '-c', 'echo $ALLOT_GPU_UUIDS $CUDA_VISIBLE_DEVICES', CUDA_VISIBLE_DEVICES=value, **env)
        self.assertEqual(r.returncode, 0, r.stderr)
        ours, visible = r.stdout.split()
        self.assertEqual(ours, visible)
        return [self.uuids.index(u) for u in ours.split(',')]

    def test_it_picks_the_gpus(self):
        for value, gpus in (('1', [1]), ('0', [0]), ('1,0', [1, 0]), ('0,1', [0, 1]), (self.uuids[1], [1]), ('1,-1,0', [1]),
                            (f'{self.uuids[1][:16]},{self.uuids[0]}', [1, 0]), (f'{self.uuids[1]},0', [1]),
                            (f'0,{self.uuids[0]}', [0]), (' 1 ', [1]), ('1x', [1])):
            self.assertEqual(self.wished(value), gpus, value)
        self.assertEqual(len(self.wished('0,1', '--gpus', '1')), 1)
        self.assertEqual(self.wished('0', '-g', '1'), [1])  # what is said stands above it
        self.assertEqual(self.cuda(CUDA_VISIBLE_DEVICES='1'), [1])

    def test_one_that_names_none_is_refused(self):
        for value in ('', '-1', 'x', '64', 'GPU-', '0,0', f'{self.uuids[0]},{self.uuids[0]}', self.uuids[0].lower(), 'a' * 600):
            r = self.run_job('--', 'true', CUDA_VISIBLE_DEVICES=value)
            self.assertEqual((r.returncode, len(r.stderr.splitlines())), (125, 1), value)
            self.assertIn('CUDA_VISIBLE_DEVICES', r.stderr)
        r = self.run_job('--gpus', '2', '--', 'true', CUDA_VISIBLE_DEVICES='0,9')
        self.assertEqual(r.returncode, 125)
        self.assertIn('names 1', r.stderr)
        self.assertEqual(self.ps(), [])

    def test_inside_a_job_it_counts_the_lease(self):
        def nested(value):
            r = self.run_job('-g', '1', '--', 'env', f'CUDA_VISIBLE_DEVICES={value}', ALLOT, 'run', '--', SEEN)
            return r.returncode, [self.uuids.index(w.split()[2]) for w in r.stdout.splitlines() if w.startswith('cuda')]
        self.assertEqual(nested('0'), (0, [1]))
        self.assertEqual(nested('1'), (125, []))
        self.assertEqual(nested(self.uuids[0]), (125, []))
        # the list that allot has set is nobody's wish: one of the two is picked
        self.assertEqual(len(self.cuda(job=('-g', '0,1', '--', ALLOT, 'run'))), 1)


class Pair(Cards):
    """two accounts, and what is done on one card while the other is current (tests/programs/gpu_pair.c)"""

    def case(self, name):
        r = self.run_job('-g', '0,1', '--vram', '3G', '--', PAIR, name)
        self.assertEqual(r.returncode, 0, r.stderr + self.said())
        self.assertTrue(world.until(lambda: self.held() == 0, 5), self.status())
        return r.stderr

    def test_a13_g3_a_block_is_credited_where_it_lives(self):
        self.assertEqual(self.case('linear'), '')

    def test_a13_an_allocation_on_a_stream_of_the_other_card(self):
        self.assertEqual(self.case('async'), '')

    def test_a_pool_that_the_other_card_reaches(self):
        self.assertEqual(self.case('pool'), '')

    def test_a16_memory_mapped_on_both_is_charged_once(self):
        self.assertEqual(self.case('vmm'), '')

    def test_a_graph_that_allocates_on_both(self):
        self.assertEqual(self.case('graph'), '')

    def test_managed_memory_is_charged_where_it_was_made(self):
        self.assertEqual(self.case('managed'), '')

    def test_copies_and_access_between_them(self):
        self.assertEqual(self.case('peer'), '')

    def test_a_context_of_the_other_card_ends(self):
        self.assertEqual(self.case('context'), '')

    def test_g1_g4_the_limit_holds_in_any_order(self):
        """and the charge goes to the card that CUDA means, not to one of the same number"""
        for visible, card in (('1,0', 1), ('1', 1), (self.uuids[1][:14], 1), ('0', 0)):
            g = Gpu(self, '-J', 'one', '-g', '0,1', '--vram', '2G', before=('env', f'CUDA_VISIBLE_DEVICES={visible}')).start()
            self.assertEqual(g('alloc 3G'), 'error 2')
            self.assertTrue(g('alloc 1G').startswith('ok'))
            self.assertEqual([i['gpu_index'] for i in self.ps('one')], [card], visible)
            self.assertGreaterEqual(self.status()[card]['vram_held_bytes'], GIB)
            self.assertEqual(self.status()[1 - card]['vram_held_bytes'], 0)
            g.end()
            self.assertTrue(world.until(lambda: self.held() == 0, 5), self.status())

    def test_g3_each_has_its_own_wall(self):
        self.assertEqual(self.case('wall').count('out of memory'), 2)


class Waiting(Cards):
    """real processes that wait for each other over two cards"""

    def holder(self, name, card, left, *options):
        """it holds all of a card but so much, and has a context on the other"""
        g = Gpu(self, '-J', name, '-g', '0,1', *options)
        self.assertEqual(g('init'), 'ok')
        self.assertEqual(g('device 1'), 'ok')
        self.assertEqual(g(f'device {card}'), 'ok')
        self.fill(g, left)
        return g

    def fill(self, g, left):
        free = g.info()[0]
        self.assertTrue(g(f'alloc {(free - left) // MIB}M').startswith('ok'))

    def ask(self, g, card, size):
        self.assertEqual(g(f'device {card}'), 'ok')
        g.tell(f'alloc {size}')
        return g

    def waiting(self, name):
        return [i for i in self.ps(name) if i['state'] == 'waiting-vram']

    def test_k1_a_circle_over_two_cards_is_broken(self):
        a = self.holder('a', 0, GIB)
        c = self.holder('c', 1, GIB)
        self.ask(a, 1, '4G')
        self.assertTrue(world.until(lambda: self.waiting('a')), self.ps())
        self.assertEqual([i['gpu_index'] for i in self.waiting('a')], [1])
        begin = time.monotonic()
        self.ask(c, 0, '4G')
        self.assertEqual(c.hear(), 'error 2')  # the youngest
        self.assertLess(time.monotonic() - begin, 20)
        self.assertTrue(self.waiting('a'), self.ps())
        self.assertIn('waited for each other', c.end())
        self.assertTrue(a.hear().startswith('ok'))  # what c held is there now
        a.end()

    def test_k1_who_is_about_to_end_is_no_part_of_it(self):
        a = self.holder('a', 0, 2 * GIB)  # of which two contexts take one, and d a half
        d = Gpu(self, '-J', 'd', '-g', '0')
        self.assertEqual(d('init'), 'ok')
        self.assertTrue(d('alloc 512M').startswith('ok'))
        c = self.holder('c', 1, GIB)
        self.ask(a, 1, '4G')
        self.assertTrue(world.until(lambda: self.waiting('a')), self.ps())
        self.ask(c, 0, '1G')
        self.assertTrue(world.until(lambda: self.waiting('c')), self.ps())
        time.sleep(3)
        self.assertTrue(self.waiting('a') and self.waiting('c'), self.ps())
        d.end()
        self.assertTrue(c.hear().startswith('ok'))
        c.end()
        self.assertTrue(a.hear().startswith('ok'))
        a.end()

    def test_two_cards_are_had_at_once(self):
        """who waits for both holds neither, and nobody behind takes what it waits for"""
        total = self.gpus[0]['vram_allocatable_bytes']
        half = f'{total * 6 // 10 // MIB}M'
        small = f'{total // 5 // MIB}M'
        a = Gpu(self, '-J', 'a', '-g', '0', '--vram', half).start()
        c = Gpu(self, '-J', 'c', '-g', '1', '--vram', half).start()
        wide = self.start_job('-J', 'wide', '--gpus', '2', '--vram', half, '--', 'sleep', '60')
        self.assertTrue(world.until(lambda: self.ps('wide')), self.said())
        shown = json.loads(self.cli('show', self.ps('wide')[0]['job'], '-o', 'json').stdout)['items'][0]
        self.assertEqual(shown['vram_request_bytes'], int(half[:-1]) * MIB)
        late = self.start_job('-J', 'late', '--vram', small, '--', 'sleep', '60')
        self.assertTrue(world.until(lambda: self.ps('late')), self.said())
        self.assertEqual([g['waiting'] for g in self.status()[:2]], [2, 2])
        self.assertIn(' 2 waiting\n', self.cli('status').stdout)  # two jobs, however many GPUs
        a.end()
        time.sleep(1.5)
        why = self.cli('why', self.ps('wide')[0]['job']).stdout
        self.assertIn('of GPU 1 (and of 1 more), where', why)  # on the other there is room
        self.assertNotIn('Or:', why)
        self.assertEqual([i['state'] for i in self.ps('wide') + self.ps('late')], ['waiting-admission'] * 2)
        self.assertEqual(self.status()[0]['vram_requested_bytes'], 0)
        c.end()
        self.assertTrue(world.until(lambda: all(i['state'] == 'running' for i in self.ps('wide') + self.ps('late'))), self.ps())
        self.assertTrue(all(self.ps('wide')[0]['job'] in g['jobs'] for g in self.status()[:2]))
        for p in (wide, late):
            p.terminate()


class Views(Cards):

    def test_a_job_that_holds_nothing_is_listed_on_all_its_cards(self):
        """and a process that has a context on one of them, on that one"""
        p = self.start_job('-J', 'bare', '-g', '1,0', '--', 'sleep', '60')
        self.assertTrue(world.until(lambda: [i['gpu_index'] for i in self.ps('bare')] == [1, 0], 5), self.ps())
        self.assertEqual(len({i['pid'] for i in self.ps('bare')}), 1)
        p.terminate()
        g = Gpu(self, '-J', 'idle', '-g', '0,1')
        self.assertEqual(g('init'), 'ok')
        self.assertTrue(world.until(lambda: [i['vram_used_bytes'] > 0 for i in self.ps('idle')] == [True], 5), self.ps())
        g.end()

    def test_each_card_has_its_own_figures(self):
        g = Gpu(self, '-J', 'both', '-g', '0,1', '--vram', '2G:4G').start()
        self.assertTrue(g('alloc 256M').startswith('ok'))
        self.assertEqual(g('device 1'), 'ok')
        self.assertTrue(g('alloc 1G').startswith('ok'))
        self.settled()
        rows = sorted(self.ps('both'), key=lambda i: i['gpu_index'])
        self.assertEqual([i['gpu_index'] for i in rows], [0, 1])
        self.assertEqual([i['gpu'] for i in rows], self.uuids[:2])
        self.assertEqual({i['pid'] for i in rows}, {g.pid})
        self.assertEqual({(i['vram_request_bytes'], i['vram_limit_bytes']) for i in rows}, {(2 * GIB, 4 * GIB)})
        for card in self.status()[:2]:
            row = rows[card['gpu_index']]
            self.assertEqual(card['jobs'], [row['job']])
            self.assertEqual(card['vram_requested_bytes'], 2 * GIB)
            self.assertEqual(card['vram_limits_bytes'], 4 * GIB)
            self.assertEqual(card['vram_held_bytes'], row['vram_used_bytes'])
        self.assertLess(abs(rows[1]['vram_used_bytes'] - rows[0]['vram_used_bytes'] - 768 * MIB), 64 * MIB)
        g.end()


if __name__ == '__main__':
    tap.main()
