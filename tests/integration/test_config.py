#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""allot config, and what allotd's configuration and the environment give to `allot run`"""
import json
import os
import re
import signal
import subprocess
import unittest

import others
import tap
import world
from world import ALLOT, BUILD, GIB, MIB, until

BAD = 'jobs:\n  vramm: 8G\n  class: fast\ndaemon: {away_grace: 1s}\n'
LIMIT = ('--', 'sh', '-c', 'echo $ALLOT_VRAM_LIMIT')


class Files(world.World):
    """no allotd is needed to look a file over"""
    START = False

    def write(self, text, name='f.yaml', mode=0o644):
        path = self.dir / name
        path.write_text(text)
        path.chmod(mode)
        return path

    def test_check_tells_every_mistake_with_its_place(self):
        path = self.write(BAD)
        r = self.cli('config', 'check', path)
        self.assertEqual((r.returncode, r.stdout), (2, ''))
        self.assertEqual([line.split(': ')[0] for line in r.stderr.splitlines()],
                         [f'{path}:2:3', f'{path}:3:10', f'{path}:4:10'])
        self.assertIn("did you mean 'vram'?", r.stderr)
        self.assertIn("does not belong to 'daemon' but to 'jobs'", r.stderr)

    def test_check_for_programs(self):
        path = self.write(BAD)
        r = self.cli('config', 'check', '-o', 'json', path)
        self.assertEqual((r.returncode, r.stderr), (2, ''))
        items = json.loads(r.stdout)['items']
        self.assertEqual([(i['file'], i['line'], i['column']) for i in items],
                         [(str(path), 2, 3), (str(path), 3, 10), (str(path), 4, 10)])
        r = self.cli('config', 'check', '-o', 'json', self.write('jobs:\n'))
        self.assertEqual((r.returncode, json.loads(r.stdout)['items']), (0, []))

    def test_check_without_a_file(self):
        where = ['--user']
        r = self.cli('config', 'check', *where)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn('is not there', r.stdout)
        (self.dir / 'allot').mkdir()
        path = self.write('daemon:\n  socket_mode: 0666\n', 'allot/allot.yaml')
        r = self.cli('config', 'check', *where)
        self.assertEqual(r.returncode, 2)
        self.assertIn(f'{path}:2:16', r.stderr)
        self.assertEqual(self.cli('config', '--system', 'check', path).returncode, 0)

    def test_files_that_are_none(self):
        self.assertEqual(self.cli('config', 'check', self.dir / 'none').returncode, 6)
        self.assertIn('no regular file', self.cli('config', 'check', self.dir).stderr)
        r = self.cli('config', 'check', self.write('jobs:\n', mode=0o666))
        self.assertEqual(r.returncode, 4)
        self.assertIn('everybody may write', r.stderr)
        r = self.cli('config', 'check', self.write('#' * (1 << 20) + '\n'))
        self.assertEqual(r.returncode, 1)
        self.assertIn('larger than 1 MiB', r.stderr)

    def test_the_default_file(self):
        for mode in ('--system', '--user'):
            r = self.cli('config', 'default', mode)
            self.assertEqual(r.returncode, 0)
            path = self.write(r.stdout)
            self.assertEqual(self.cli('config', 'check', mode, path).returncode, 0)
            shown = json.loads(self.cli('config', 'show', path, mode, '-o', 'json').stdout)['items']
            self.assertGreater(len(shown), 15)
            for item in shown:
                self.assertEqual(item['value'] if item['value'] != '[]' else None, item['default'], item)

    def test_show_a_file(self):
        path = self.write('# x\njobs:\n  class: batch\ngpus:\n  - id: 3\n    reserve: 1G\n')
        items = {i['key']: i for i in json.loads(self.cli('config', 'show', path, '-o', 'json').stdout)['items']}
        self.assertEqual(items['jobs.class'], {'key': 'jobs.class', 'value': 'batch', 'default': 'normal',
                                               'source': 'file', 'file': str(path), 'line': 3,
                                               'needs_restart': False, 'note': None})
        self.assertEqual(items['gpus[3].reserve']['line'], 6)
        self.assertEqual((items['jobs.kill_grace']['source'], items['jobs.kill_grace']['line']), ('default', None))
        self.assertIs(items['daemon.state']['needs_restart'], True)
        self.assertRegex(self.cli('config', 'show', path).stdout, f'jobs.class +batch +{path}:3')
        self.assertEqual(self.cli('config', 'show', self.write(BAD)).returncode, 2)

    def test_show_without_allotd(self):
        r = self.cli('config', 'show', '--user')
        self.assertEqual(r.returncode, 0)
        self.assertIn('no allotd runs', r.stderr)
        self.assertRegex(r.stdout, 'jobs.class +normal +default')

    def test_the_man_page_is_the_table(self):
        """every option stands in allot.yaml(5), in its section, with its default, and no other does"""
        page = (world.ROOT / 'docs/man/allot.yaml.5.scd').read_text()
        said, section = {}, None
        for block in page.partition('# OPTIONS')[2].partition('# FILES')[0].split('\n\n'):
            if block.strip().startswith('## '):
                section = block.strip()[3:]
            name = re.match(r'\s*\*(\w+):\* ', block)
            if name:
                default = re.search(r'Default: (\S+)$', block.strip())
                said[f'{section}.{name[1]}'] = default and default[1]
        items = json.loads(self.cli('config', 'show', self.write(''), '-o', 'json').stdout)['items']
        self.assertEqual(set(said), {i['key'] for i in items})
        for item in items:
            if item['default'] is not None or item['value'] is not None:
                self.assertEqual(said[item['key']], item['default'] or item['value'], item['key'])

    def test_doctor_names_a_mistake(self):
        (self.dir / 'allot').mkdir()
        self.dir.chmod(0o755)
        path = self.write(BAD, 'allot/allot.yaml')
        if os.geteuid() == 0 and others.WHY_NOT:
            self.skipTest(others.WHY_NOT)
        other = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] if os.geteuid() == 0 else []
        r = subprocess.run([*other, ALLOT, 'doctor', '-o', 'json'], env=self.env, capture_output=True, text=True,
                           timeout=60, check=False, stdin=subprocess.DEVNULL)
        checks = [c for c in json.loads(r.stdout)['items'] if c['check'] == 'config']
        self.assertEqual(len(checks), 1)
        self.assertEqual(checks[0]['verdict'], 'fail')
        self.assertIn(f'{path}:2:3: ', checks[0]['found'])

    def test_words(self):
        r = self.cli('config', 'chek')
        self.assertEqual(r.returncode, 2)
        self.assertIn("did you mean 'check'?", r.stderr)
        for words in ((), ('check', 'a', 'b'), ('default', 'a'), ('reload', 'a')):
            self.assertEqual(self.cli('config', *words).returncode, 2, words)
        self.assertEqual(self.cli('config', 'reload').returncode, 7)


class Running(world.World):
    def say(self, text):
        (self.dir / 'allot.yaml').write_text(text)

    def limit_of(self, *args, **env):
        r = self.run_job(*args, *LIMIT, **env)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout.strip()

    def test_jobs_get_what_it_says(self):
        self.say('jobs:\n  vram: 1G:2G\n  class: batch\n')
        self.assertEqual(self.cli('config', 'reload').stdout,
                         'jobs.vram: none → 1GiB:2GiB\njobs.class: normal → batch\n')
        self.assertEqual(self.limit_of(), str(2 * GIB))
        # what somebody says goes before it
        self.assertEqual(self.limit_of('--vram', '3G'), str(3 * GIB))
        self.assertEqual(self.limit_of(ALLOT_VRAM='4G'), str(4 * GIB))
        self.assertEqual(self.limit_of(CUDA_DEVICE_MEMORY_LIMIT='3000m'), str(3000 * MIB))
        self.start_job('-J', 'a', '--', 'sleep', '20')
        self.start_job('-J', 'b', '--class', 'latency', '--', 'sleep', '20')
        self.assertEqual(until(lambda: self.ps('a'))[0]['class'], 'batch')
        self.assertEqual(until(lambda: self.ps('b'))[0]['class'], 'latency')
        # and a run inside a job is held by that job
        inside = self.run_job('--vram', '512M', '--', ALLOT, 'run', *LIMIT)
        self.assertEqual((inside.returncode, inside.stdout.strip()), (0, str(512 * MIB)), inside.stderr)

    def test_waiting_ends_when_it_says(self):
        self.say('jobs:\n  wait_timeout: 300ms\n')
        self.cli('config', 'reload')
        self.start_job('-J', 'all', '--vram', '90%', '--', 'sleep', '20')
        until(lambda: self.ps('all'))
        self.assertEqual(self.run_job('--vram', '50%', '--', 'true', timeout=20).returncode, 75)

    def test_show(self):
        self.say('jobs:\n  class: batch\n')
        self.cli('config', 'reload')
        items = {i['key']: i for i in json.loads(self.cli('config', 'show', '--json').stdout)['items']}
        self.assertEqual((items['jobs.class']['value'], items['jobs.class']['line']), ('batch', 2))
        self.assertEqual(items['daemon.socket']['source'], 'flag')
        self.assertEqual(items['daemon.log_level']['source'], 'environment')

    def test_a_reload_with_mistakes(self):
        self.say(BAD)
        r = self.cli('config', 'reload')
        self.assertEqual((r.returncode, r.stdout), (2, ''))
        self.assertEqual(len(r.stderr.splitlines()), 4)
        self.assertIn('3 mistakes', r.stderr)
        self.assertIn('nothing is changed', r.stderr)
        self.say('')
        self.assertEqual(self.cli('config', 'reload').stdout, 'read again: nothing is changed\n')


@unittest.skipIf(os.path.exists('/run/allot/allotd.sock'), 'this machine has an allotd for everybody')
class Own(world.World):
    """a user's own allotd, started by the first run, reads the user's own file; also when a keeper starts it again"""
    START = False

    def setUp(self):
        super().setUp()
        del self.env['ALLOT_SOCKET']
        self.socket = str(self.dir / 'allot/allotd.sock')
        self.env['XDG_STATE_HOME'] = str(self.dir / 'home')
        driver = self.dir / 'driver'
        driver.mkdir()
        for name in ('libcuda.so.1', 'libnvidia-ml.so.1'):
            (driver / name).symlink_to(BUILD / 'sim' / name)
        (driver / 'profile.conf').write_text(world.own_profile('h200'))
        (self.dir / 'allot').mkdir(mode=0o700, exist_ok=True)
        self.say(f'daemon:\n  driver: {driver}\njobs:\n  vram: 2G\n')

    def say(self, text):
        (self.dir / 'allot/allot.yaml').write_text(text)

    def test_it_reads_the_file(self):
        r = self.run_job(*LIMIT)
        self.assertEqual((r.returncode, r.stdout), (0, f'{2 * GIB}\n'), r.stderr)

    def test_a_keeper_starts_it_again_with_that_file(self):
        job = self.start_job('-J', 'lives', '--', 'sleep', '30')
        self.assertTrue(until(lambda: os.path.exists(self.socket) and self.ps('lives')))
        old = self.daemon_pid()
        del self.env['XDG_CONFIG_HOME']  # neither where the keeper is from nor where we are matters
        os.kill(old, signal.SIGKILL)
        self.assertTrue(until(lambda: self.daemon_pid() not in (None, old)))
        self.assertTrue(until(lambda: self.cli('config', 'show').returncode == 0))
        self.assertRegex(self.cli('config', 'show').stdout, f'jobs.vram +2GiB +{self.dir}/allot/allot.yaml:4')
        job.send_signal(signal.SIGTERM)

    def test_mistakes_are_told_to_who_runs(self):
        self.say(BAD)
        r = self.run_job('--', 'true')
        self.assertEqual(r.returncode, 125)
        self.assertIn("allot.yaml:2:3: unknown key 'vramm'", r.stderr)
        self.assertIn('cannot start', r.stderr)


class TwoCards(world.World):
    PROFILE = 'h200x2'

    def test_foreign_limits_of_two_gpus(self):
        name = 'CUDA_DEVICE_MEMORY_LIMIT'
        both = {name + '_0': '3000m', name + '_1': '3000m'}
        r = self.run_job('--gpus', '2', *LIMIT, **both)
        self.assertEqual(r.stdout.strip(), str(3000 * MIB), r.stderr)
        r = self.run_job('--gpu', '0,1', *LIMIT, **{name: '3000m', name + '_1': '3000M'})
        self.assertEqual(r.stdout.strip(), str(3000 * MIB), r.stderr)
        # of one GPU the second is of no matter
        r = self.run_job(*LIMIT, **{**both, name + '_1': '4g'})
        self.assertEqual(r.stdout.strip(), str(3000 * MIB), r.stderr)
        for variables in ({**both, name + '_1': '4g'}, {name + '_0': '3000m'}, {name: '4g', name + '_1': '3g'}):
            r = self.run_job('--gpus', '2', '--', 'true', **variables)
            self.assertEqual(r.returncode, 125)
            self.assertIn(f'{name}_1', r.stderr)
            self.assertIn('say it by --vram', r.stderr)
        r = self.run_job(*LIMIT, CUDA_VISIBLE_DEVICES='0,1', **both)
        self.assertEqual(r.stdout.strip(), str(3000 * MIB), r.stderr)
        r = self.run_job(*LIMIT, CUDA_VISIBLE_DEVICES='0,1', **{name + '_0': '3000m'})
        self.assertEqual(r.returncode, 125)


if __name__ == '__main__':
    tap.main()
