#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""show, why, and the exit status of every verb."""
import csv
import io
import json
import os
import signal
import socket
import subprocess
import time
import unittest

import others
import tap
import world
from world import ALLOT, GIB, MIB, Gpu, until


def records(text):
    return list(csv.DictReader(io.StringIO(text)))


class Show(world.World):
    PROFILE = 'h200x2'

    def item(self, *words):
        r = self.cli('show', *words, '-o', 'json')
        self.assertEqual(r.returncode, 0, r.stderr)
        doc = json.loads(r.stdout)
        self.assertEqual(len(doc['items']), 1)
        return doc['kind'], doc['items'][0]

    def test_a_job_with_its_processes(self):
        gpu = Gpu(self, '-J', 'name', '--vram', '1G:2G', '--class', 'batch').start()
        gpu('alloc 512M')
        job = self.ps('name')[0]['job']
        kind, item = self.item(job)
        self.assertEqual(kind, 'Job')
        self.assertEqual(item, self.item('job', job)[1])
        self.assertEqual((item['job'], item['name'], item['class'], item['state']), (job, 'name', 'batch', 'running'))
        self.assertEqual((item['vram_request_bytes'], item['vram_limit_bytes']), (1 * GIB, 2 * GIB))
        self.assertGreaterEqual(item['vram_held_bytes'], 512 * MIB)
        self.assertEqual([p['pid'] for p in item['processes']], [gpu.pid])
        self.assertEqual(item['gpus'][0]['vram_limit_bytes'], 2 * GIB)
        self.assertIsNone(item['exit_code'])
        text = self.cli('show', job).stdout
        for word in ('name', 'running', '2.0 GiB', 'wait=1m', str(gpu.pid)):
            self.assertIn(word, text)
        row = records(self.cli('show', '-o', 'csv', job).stdout)[0]
        self.assertEqual(row['job'], str(job))
        self.assertEqual(json.loads(row['processes'])[0]['pid'], gpu.pid)
        gpu.end()

    def test_a_gpu_by_every_name(self):
        gpu = self.status()[0]
        for word in (gpu['gpu'], gpu['gpu'][:12], gpu['gpu'].lower(), gpu['gpu'][4:16], gpu['pci_bus_id'], gpu['pci_bus_id'][5:]):
            kind, item = self.item(word)
            self.assertEqual((kind, item['gpu']), ('GPUList', gpu['gpu']), word)
        for word in ('0', gpu['gpu']):
            self.assertEqual(self.item('gpu', word)[1]['gpu'], gpu['gpu'])
        self.assertIn('Allocatable', self.cli('show', 'gpu', 0).stdout)

    def test_the_node(self):
        kind, item = self.item('node')
        self.assertEqual((kind, item['socket']), ('Node', self.socket))
        self.assertEqual(item['pid'], self.daemon.pid)
        self.assertEqual(item['gpus_count'], len(self.status()))
        self.assertEqual(item['vram_total_bytes'], sum(g['vram_total_bytes'] for g in self.status()))
        self.assertEqual(set(item), set(self.item()[1]))
        self.assertIn(self.socket, self.cli('show').stdout)

    def test_what_is_not_there(self):
        for words in ((99,), ('job', 99), ('gpu', 99), ('GPU-99999999',), ('0000:99:00.0',)):
            r = self.cli('show', *words)
            self.assertEqual(r.returncode, 6, words)
            self.assertEqual(len(r.stderr.splitlines()), 1)
        for words in ((0,), ('job',), ('job', 'x'), ('user', 'bob'), ('node', 1, 2)):
            self.assertEqual(self.cli('show', *words).returncode, 2, words)


class Why(world.World):
    PROFILE = 'small4g'

    def why(self, job):
        r = self.cli('why', job, '-o', 'json')
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout)['items']

    def test_a_job_that_waits_for_its_place(self):
        self.start_job('-J', 'holder', '--vram', '3G', '--', 'sleep', '60')
        holder = until(lambda: self.ps('holder'))[0]['job']
        self.start_job('-J', 'late', '--vram', '2G', '--', 'sleep', '1')
        late = until(lambda: self.ps('late'))[0]['job']
        item = self.why(late)[0]
        self.assertEqual((item['job'], item['waits_for'], item['position'], item['waiting']), (late, 'admission', 1, 1))
        self.assertEqual(item['needed_bytes'], 2 * GIB)
        self.assertLess(item['free_bytes'], 1 * GIB)
        self.assertEqual([(h['job'], h['name'], h['vram_request_bytes']) for h in item['holders']], [(holder, 'holder', 3 * GIB)])
        self.assertIsNone(item['gives_up_in_s'])
        self.assertRegex(item['sentence'], rf'^Job {late} \(late\) has waited .* for 2.0 GiB of GPU 0, where .* can be promised: '
                                           rf'it starts when job {holder} \(holder\), which holds .* ends$')
        text = self.cli('why', late).stdout
        self.assertTrue(text.startswith(f'Job {late} (late) has waited'))
        self.assertIn('Place in line', text)
        self.assertIn('holder', text.splitlines()[-1])
        row = records(self.cli('why', '-o', 'csv', late).stdout)[0]
        self.assertEqual(row['needed_bytes'], str(2 * GIB))
        self.assertEqual(json.loads(row['holders'])[0]['job'], holder)

    def test_an_allocation_that_waits(self):
        holder = Gpu(self, '-J', 'holder', '--vram', '100M:4G').start()
        self.assertEqual(holder('alloc 2500M').split()[0], 'ok')
        waiter = Gpu(self, '-J', 'waiter', '--vram', '100M:4G', '--when-full', 'wait=40s').start()
        waiter.tell('alloc 1500M')
        job = until(lambda: [i for i in self.ps('waiter') if i['state'] == 'waiting-vram'])[0]['job']
        item = self.why(job)[0]
        self.assertEqual((item['waits_for'], item['pid'], item['needed_bytes']), ('vram', waiter.pid, 1500 * MIB))
        self.assertLessEqual(item['gives_up_in_s'], 40)
        self.assertFalse(item['circle'])
        self.assertEqual({h['name'] for h in item['holders']}, {'holder', 'waiter'})
        self.assertIn('it goes on when memory comes back', item['sentence'])
        self.assertEqual(json.loads(self.cli('show', job, '-o', 'json').stdout)['items'][0]['state'], 'waiting-vram')
        holder.end()
        self.assertEqual(waiter.hear().split()[0], 'ok')
        self.assertIsNone(self.why(job)[0]['waits_for'])
        waiter.end()

    def test_a_job_that_does_not_wait(self):
        self.start_job('-J', 'runs', '--vram', '1G', '--', 'sleep', '60')
        job = until(lambda: self.ps('runs'))[0]['job']
        r = self.cli('why', job)
        self.assertEqual(r.returncode, 0)
        self.assertIn('does not wait: it runs and holds', r.stdout)
        item = self.why(job)[0]
        self.assertEqual((item['job'], item['waits_for'], item['position'], item['needed_bytes'], item['holders']),
                         (job, None, None, None, []))
        self.assertIn('does not wait: it runs and holds', item['sentence'])
        self.assertEqual(len(records(self.cli('why', '-o', 'csv', job).stdout)), 1)
        job = self.run_job('-d', '--', 'sh', '-c', 'exit 3').stdout.strip()
        self.cli('wait', job)
        self.assertTrue(until(lambda: 'has ended with 3' in self.cli('why', job).stdout))


    def test_a_refusal_says_once_that_the_card_is_full(self):
        holder = Gpu(self, '-J', 'holder', '--vram', '100M:4G').start()
        self.assertEqual(holder('alloc 2500M').split()[0], 'ok')
        waiter = Gpu(self, '-J', 'waiter', '--vram', '100M:4G', '--when-full', 'wait=300ms').start()
        self.assertNotEqual(waiter('alloc 1500M').split()[0], 'ok')
        said = waiter.end()
        self.assertEqual(said.count('full'), 1, said)
        self.assertRegex(said, r'limit on GPU 0: waited [0-9a-z]+: GPU 0 is full: job ')
        holder.end()


class Unlike(world.World):
    """a part of cards that are not alike"""
    PROFILE = 'four'

    def test_the_variables_hold_on_every_card(self):
        r = self.run_job('-J', 'u', '--gpus', '4', '--vram', '10%:20%', '--', 'sh', '-c',
                         f'echo $ALLOT_VRAM_REQUEST $ALLOT_VRAM_LIMIT; {ALLOT} show $ALLOT_JOB_ID -o json')
        self.assertEqual(r.returncode, 0, r.stderr)
        request, limit = map(int, r.stdout.split('\n')[0].split())
        job = json.loads(r.stdout.split('\n', 1)[1])['items'][0]
        self.assertEqual(len({g['vram_limit_bytes'] for g in job['gpus']}) > 1, True)
        self.assertEqual(limit, min(g['vram_limit_bytes'] for g in job['gpus']))
        self.assertEqual(request, min(g['vram_request_bytes'] for g in job['gpus']))
        self.assertEqual((job['vram_request_bytes'], job['vram_limit_bytes']), (request, limit))


# what each verb needs to be asked properly about a job that is not there
VERBS = {
    'ps': (), 'status': (), 'show': ('99',), 'why': ('99',), 'logs': ('99',), 'wait': ('99',), 'set': ('99', 'vram=1G'),
    'cancel': ('99',), 'doctor': (), 'version': (), 'config': ('show',), 'adopt': ('--pid', '1'),
    'completion': ('bash',),
}
READ = ('ps', 'status', 'show', 'why', 'wait', 'doctor', 'version')


class Codes(world.World):
    """the exit codes of the interface, verb by verb"""
    PROFILE = 'small4g'

    def verbs(self):
        said = self.cli('--help').stdout.split('Verbs:\n')[1].split('\n\n')[0]
        return [line.split()[0] for line in said.splitlines()]

    def test_every_verb_stands_here(self):
        self.assertEqual(set(self.verbs()) - {'run'}, set(VERBS) & set(self.verbs()))

    def test_0_and_the_help(self):
        for verb in self.verbs():
            r = self.cli(verb, '--help')
            self.assertEqual(r.returncode, 0, verb)
            self.assertIn(f'Usage: allot {verb}', r.stdout)

    def test_2_usage(self):
        for verb in self.verbs():
            if verb == 'run':
                continue
            r = self.cli(verb, '--no-such-option')
            self.assertEqual(r.returncode, 2, verb)
            self.assertIn(f'allot {verb}: ', r.stderr)
            self.assertEqual(len(r.stderr.splitlines()), 1, r.stderr)
            self.assertEqual(self.cli(verb, '--socket', '').returncode, 2, verb)
        for verb in READ:
            self.assertEqual(self.cli(verb, '-o', 'xml', *VERBS[verb]).returncode, 2, verb)
        for verb in ('why', 'logs', 'wait', 'set', 'cancel'):
            self.assertEqual(self.cli(verb).returncode, 2, verb)
            self.assertEqual(self.cli(verb, '7x', 'vram=1G').returncode, 2, verb)
            self.assertEqual(self.cli(verb, '0', 'vram=1G').returncode, 2, verb)
        for verb in ('ps', 'status', 'doctor', 'version'):
            self.assertEqual(self.cli(verb, 'word').returncode, 2, verb)

    def test_3_a_verb_of_later(self):
        self.assertEqual(self.cli('submit').returncode, 3)

    def test_6_no_such_job(self):
        for verb in ('show', 'why', 'logs', 'wait', 'set', 'cancel'):
            r = self.cli(verb, *VERBS[verb])
            self.assertEqual(r.returncode, 6, verb)
            self.assertIn('99', r.stderr)
            self.assertEqual(r.stdout, '')

    def test_4_not_permitted(self):
        if others.WHY_NOT:
            self.skipTest(others.WHY_NOT)
        job = self.run_job('-d', '--', 'sleep', '30').stdout.strip()
        for path in (self.dir, self.dir / 's'):
            os.chmod(path, 0o777)
        nobody = lambda verb, *words: subprocess.run(
            ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', ALLOT, verb, *words], env=self.env,
            capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
        if nobody('ps').returncode:
            self.skipTest('this allotd serves its own user only')
        for verb, words in (('logs', (job,)), ('cancel', (job,)), ('set', (job, 'vram=1G'))):
            self.assertEqual(nobody(verb, *words).returncode, 4, verb)
        self.cli('cancel', job)

    def test_7_no_daemon(self):
        self.stop_daemon()
        for verb in self.verbs():
            if verb in ('run', 'doctor', 'version', 'config', 'completion'):
                continue
            r = self.cli(verb, *VERBS[verb])
            self.assertEqual(r.returncode, 7, verb)
            self.assertEqual(len(r.stderr.splitlines()), 1, r.stderr)
        self.assertEqual(self.cli('version').returncode, 0)

    def within_two_seconds(self, code):
        verbs = [v for v in self.verbs() if v not in ('run', 'config', 'adopt', 'completion')]
        begin = time.monotonic()
        asked = {v: subprocess.Popen([ALLOT, v, *VERBS[v]], env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True) for v in verbs}
        said = {v: p.communicate(timeout=30) for v, p in asked.items()}
        self.assertLess(time.monotonic() - begin, 2.0 + self.slack * len(verbs))
        for verb, (out, err) in said.items():
            if verb in ('doctor', 'version'):
                continue
            self.assertEqual(asked[verb].returncode, code, verb)
            self.assertIn('does not answer', err, verb)
            self.assertEqual(out, '', verb)

    def setUp(self):
        super().setUp()
        begin = time.monotonic()  # what starting a program costs just now
        self.cli('--help')
        self.slack = 5 * (time.monotonic() - begin)

    def test_a_stopped_allotd_is_told_of_within_two_seconds(self):
        os.kill(self.daemon.pid, signal.SIGSTOP)
        try:
            self.within_two_seconds(7)
        finally:
            os.kill(self.daemon.pid, signal.SIGCONT)

    def test_a_full_queue_of_connections_too(self):
        self.stop_daemon()
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(s.close)
        s.bind(self.socket)
        s.listen(0)
        full = []
        for _ in range(3):
            c = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.addCleanup(c.close)
            c.setblocking(False)
            try:
                c.connect(self.socket)
                full.append(c)
            except BlockingIOError:
                break
        self.within_two_seconds(7)


class Forms(world.World):
    """json and csv of every verb that reads have the same names and as many items"""
    PROFILE = 'small4g'

    def test_they_agree(self):
        self.start_job('-J', 'a', '--vram', '1G', '--', 'sleep', '60')
        job = until(lambda: self.ps('a'))[0]['job']
        done = self.run_job('-d', '--', 'true').stdout.strip()
        self.cli('wait', done)
        self.assertTrue(until(lambda: len(self.ps()) == 1))
        for verb, words in (('ps', ()), ('status', ()), ('show', (job,)), ('show', ('gpu', 0)), ('show', ('node',)),
                            ('wait', (done,)), ('doctor', ()), ('version', ())):
            doc = json.loads(self.cli(verb, '-o', 'json', *words).stdout)
            self.assertEqual(doc['schema'], 'allot/v1')
            text = self.cli(verb, '-o', 'csv', *words).stdout
            rows = list(csv.reader(io.StringIO(text)))
            self.assertEqual(rows[0], list(doc['items'][0]), verb)
            if verb != 'doctor':
                self.assertEqual(len(rows) - 1, len(doc['items']), verb)
            self.assertEqual({len(r) for r in rows}, {len(rows[0])}, verb)
            bare = self.cli(verb, '-o', 'csv', '--no-header', *words).stdout
            self.assertEqual(len(list(csv.reader(io.StringIO(bare)))), len(rows) - 1, verb)
            self.assertEqual(json.loads(self.cli(verb, '--json', *words).stdout)['kind'], doc['kind'])


if __name__ == '__main__':
    tap.main()
