#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may share out a GPU: root's allotd and users' own, side by side and after each other."""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

import others
import tap
import world
from world import ALLOT, ALLOTD, BUILD, until

ANN, BOB = 12001, 12002
ROOTS = pathlib.Path('/run/allot/gpus')


@unittest.skipIf(others.WHY_NOT, others.WHY_NOT)
class Claim(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix='allot-test.'))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.dir.chmod(0o755)
        self.driver = self.dir / 'driver'
        self.driver.mkdir()
        (self.driver / 'libcuda.so.1').symlink_to(BUILD / 'sim/libcuda.so.1')
        (self.driver / 'libnvidia-ml.so.1').symlink_to(BUILD / 'sim/libnvidia-ml.so.1')
        profile = world.own_profile('small4g')
        (self.driver / 'profile.conf').write_text(profile)
        for name in ('state', 'alive', 'timeline'):  # the simulated card is everybody's, as a real one is
            (self.driver / name).touch()
            (self.driver / name).chmod(0o666)
        self.driver.chmod(0o1777)
        self.gpu = re.search(r'GPU-[0-9a-f-]{36}', profile).group(0)
        self.daemons = 0

    def start(self, uid, *more):
        """an allotd of this user; it serves, or says why not"""
        self.daemons += 1
        home = self.dir / f'home{self.daemons}'
        home.mkdir()
        os.chown(home, uid, uid)
        log = open(home / 'log', 'w+', encoding='utf-8')
        self.addCleanup(log.close)
        p = subprocess.Popen([ALLOTD, '--foreground', *more, '--socket', str(home / 's'), '--state', str(home / 'state'),
                              '--driver', str(self.driver)], env={'HOME': str(home), 'PATH': os.environ['PATH']},
                             stderr=log, stdin=subprocess.DEVNULL, user=uid, group=uid, extra_groups=[])
        p.socket, p.said = str(home / 's'), (home / 'log').read_text
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)

        def settled():
            return p.poll() is not None or self.doctor(p)
        self.assertTrue(until(settled, 20), p.said())
        return p

    def doctor(self, p):
        out = subprocess.run([ALLOT, 'doctor', '-o', 'json'], env={**os.environ, 'ALLOT_SOCKET': p.socket},
                             capture_output=True, text=True, timeout=20, check=False)
        items = json.loads(out.stdout or '{"items":[]}')['items']
        daemon = [i for i in items if i['check'] == 'daemon' and i['verdict'] == 'ok']
        return items if daemon and ', 1 GPUs' in daemon[0]['found'] else None

    def serves(self, p):
        self.assertIsNone(p.poll(), p.said())
        return self.doctor(p)

    def refused(self, p, *words):
        self.assertEqual(p.wait(10), 1)
        for word in (self.gpu, *words):
            self.assertIn(word, p.said())

    def claim(self, p):
        return [i for i in self.serves(p) if i['check'] == 'claim']

    def test_two_of_the_systems(self):
        first = self.start(0)
        self.refused(self.start(0), 'uid 0', f'pid {first.pid}')
        self.assertEqual(self.claim(first), [])

    def test_two_of_the_systems_one_killed(self):
        first = self.start(0)
        first.kill()
        first.wait()
        self.serves(self.start(0))

    def test_roots_own_beside_the_systems(self):
        first = self.start(0, '--user')
        self.refused(self.start(0), f'pid {first.pid}')

    def test_two_users(self):
        ann = self.start(ANN)
        self.refused(self.start(BOB), f'uid {ANN}', f'pid {ann.pid}')
        self.refused(self.start(ANN), f'uid {ANN}', f'pid {ann.pid}')
        ann.kill()
        ann.wait()
        self.serves(self.start(BOB))

    def test_a_user_then_the_system(self):
        ann = self.start(ANN)
        system = self.start(0)
        claim = self.claim(system)
        self.assertEqual([i['verdict'] for i in claim], ['warn'])
        for word in (f'uid {ANN}', f'pid {ann.pid}', self.gpu):
            self.assertIn(word, claim[0]['found'])
            self.assertIn(word, system.said())
        self.serves(ann)
        # the name is free again, and yet the GPU is not: root's word stands beside it
        ann.kill()
        ann.wait()
        self.refused(self.start(BOB), 'system', f'pid {system.pid}')
        system.kill()
        system.wait()
        self.serves(self.start(BOB))

    def test_the_system_then_a_user(self):
        system = self.start(0)
        self.refused(self.start(ANN), 'system', 'uid 0', f'pid {system.pid}')

    def squat(self, kind, listens):
        code = ('import os,socket,sys\n'
                f'os.setgroups([]); os.setgid({BOB}); os.setuid({BOB})\n'
                f's = socket.socket(socket.AF_UNIX, socket.{kind})\n'
                f's.bind("\\0allotd-{self.gpu}")\n'
                + ('s.listen(1)\n' if listens else '') + 'print("there", flush=True); sys.stdin.read()')
        p = subprocess.Popen(['python3', '-c', code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        for stream in (p.stdin, p.stdout):
            self.addCleanup(stream.close)
        self.assertEqual(p.stdout.readline(), 'there\n')
        return p

    def test_a_squatter_does_not_stop_the_system(self):
        for kind, listens in (('SOCK_SEQPACKET', True), ('SOCK_SEQPACKET', False)):
            with self.subTest(listens=listens):
                squatter = self.squat(kind, listens)
                system = self.start(0)
                found = self.claim(system)[0]['found']
                self.assertIn(f'uid {BOB}', found)
                self.assertIn(f'pid {squatter.pid}', found)
                self.refused(self.start(ANN), f'pid {system.pid}')
                for p in (system, squatter):
                    p.kill()
                    p.wait()

    def test_a_squatter_is_named_to_a_user(self):
        squatter = self.squat('SOCK_SEQPACKET', True)
        self.refused(self.start(ANN), f'uid {BOB}', f'pid {squatter.pid}')

    def test_the_lock_cannot_be_taken_by_a_user(self):
        system = self.start(0)
        lock = ROOTS / f'{self.gpu}.lock'
        self.assertEqual((lock.stat().st_uid, lock.stat().st_mode & 0o777), (0, 0o600))
        self.assertEqual((ROOTS.stat().st_uid, ROOTS.stat().st_mode & 0o022), (0, 0))
        for path, mode in ((lock, os.O_RDONLY), (lock.with_suffix('.holder'), os.O_WRONLY), (ROOTS / 'new', os.O_CREAT)):
            code = f'import os; os.setuid({ANN})\nos.open("{path}", {mode})'
            r = subprocess.run(['python3', '-c', code], capture_output=True, text=True, check=False)
            self.assertIn('PermissionError', r.stderr)
        self.serves(system)

    def test_nothing_is_left_of_a_gentle_end(self):
        system = self.start(0)
        self.assertEqual(len(list(ROOTS.glob(f'{self.gpu}.*'))), 2)
        system.terminate()
        system.wait(10)
        self.assertEqual(list(ROOTS.glob(f'{self.gpu}.*')), [])
        self.serves(self.start(ANN))

    def test_a_false_holder_is_not_believed(self):
        """a pid that is not root's allotd any more holds nobody up"""
        self.start(0).kill()
        (ROOTS / f'{self.gpu}.holder').write_text(f'{os.getpid()} 1\n')
        self.serves(self.start(ANN))

    def test_another_socket_family_is_no_claim(self):
        """the name of the same letters as a file, which anybody may make"""
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.bind(str(self.dir / f'allotd-{self.gpu}'))
        self.addCleanup(s.close)
        self.serves(self.start(ANN))

    def test_a_strangers_folder_of_simulated_cards(self):
        place = self.dir / 'shared'
        (place / 'sim').mkdir(parents=True)
        os.chown(place / 'sim', BOB, BOB)
        r = subprocess.run([ALLOTD, '--foreground', '--socket', str(place / 's'), '--state', str(self.dir / 'state'), '--sim'],
                           capture_output=True, text=True, timeout=20, check=False)
        self.assertEqual(r.returncode, 1)
        self.assertIn(str(place / 'sim'), r.stderr)

    def tearDown(self):
        for path in ROOTS.glob(f'{self.gpu}.*'):
            path.unlink()


if __name__ == '__main__':
    tap.main()
