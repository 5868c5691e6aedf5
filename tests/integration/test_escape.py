#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ways out of the fence (tests/programs/gpu_escape.c): closed, or seen and charged to the job."""
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import unittest

import cgroups
import others
import tap
import world
from world import ALLOT, BUILD, GIB, MIB, Gpu, until

ESCAPE = str(BUILD / 'tests/programs/gpu_escape')
LIMIT = 2 * GIB
SEEN_S = 2.5  # NVML is looked at each second


class Escape(world.World):
    def sim(self):
        return str(next(self.dir.rglob('profile.conf')).parent)

    def start(self, *args, before=(), env=None, limit=('--vram', '1G:2G')):
        p = subprocess.Popen([ALLOT, 'run', '-J', 'thief', *limit, '--', *before, ESCAPE, *map(str, args)],
                             env={**self.env, **(env or {})}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        self.children.append(p)
        self.addCleanup(p.stdin.close)
        return p

    def took(self, p):
        words = p.stdout.readline().split()
        self.assertTrue(words and words[0] == 'took', p.stderr.read() if not words else words)
        return int(words[1]) * MIB, int(words[2])

    def end(self, p, status=0):
        p.stdin.close()
        self.assertEqual(p.wait(10), status)
        self.assertTrue(until(lambda: self.held() == 0 and not self.ps(), 5), self.ps())

    def fenced(self, *args, **kw):
        p = self.start(*args, **kw)
        took, error = self.took(p)
        self.assertEqual(error, 2)
        self.assertGreater(took, GIB)
        self.assertLessEqual(took, LIMIT - 512 * MIB)
        self.assertLessEqual(self.held(), LIMIT + 128 * MIB)
        self.end(p)

    def seen(self, p, bytes_):
        """not stopped, so it must be charged: to the job it comes from, and nobody else pays"""
        start = time.monotonic()
        self.assertTrue(until(lambda: sum(i['vram_used_bytes'] for i in self.ps()) >= bytes_, 5), self.ps())
        self.assertLess(time.monotonic() - start, SEEN_S)

    # ---- a fence that holds ----

    def test_a_grandchild_in_its_own_session(self):
        self.fenced('daemon', before=['sh', '-c', '"$@" <&0 & wait; sleep 9 <&0 >/dev/null & read x; exit 0', 'sh'])

    def test_a_raw_clone(self):
        self.fenced('clone')

    def test_all_descriptors_closed_and_used_again(self):
        self.fenced('closed')

    def test_d5_sixteen_threads_from_cold(self):
        self.fenced('cold')

    def test_a1_what_was_never_taken_cannot_be_given(self):
        self.fenced('give')

    def test_python_starts_it_with_an_empty_environment(self):
        for how in ('import subprocess,sys;sys.exit(subprocess.call(sys.argv[1:],env={}))',
                    'import os,sys;p=os.posix_spawn(sys.argv[1],sys.argv[1:],{});sys.exit(os.waitpid(p,0)[1]>>8)',
                    'import os,sys;os.execve(sys.argv[1],sys.argv[1:],{})'):
            with self.subTest(how):
                self.fenced('take', before=[sys.executable, '-c', how])

    def test_chains_that_shed_everything(self):
        for before in (['env', '-i', 'env', '-i', 'env', '-i'], ['env', '-i', 'setsid', '-w', 'env', '-i'],
                       ['env', 'LD_PRELOAD=libm.so.6'], ['env', 'LD_PRELOAD=/nowhere/x.so'],
                       ['env', 'LD_PRELOAD='], ['env', 'LD_AUDIT=/nowhere/x.so'], ['env', 'LD_BIND_NOW=1'],
                       ['sh', '-c', 'unset LD_PRELOAD ALLOT_SOCKET; exec "$@"', 'sh']):
            with self.subTest(before):
                self.fenced('take', before=before)

    def test_fork_after_cuda_is_the_drivers_error(self):
        p = self.start('fork')
        took, error = self.took(p)
        self.assertEqual((took, error), (0, 3))  # CUDA_ERROR_NOT_INITIALIZED, as bare
        self.end(p)

    # ---- who one is ----

    def test_f2_another_cgroup(self):
        """into the machine's own, or a sibling's: the chain of parents says the same as before"""
        top = cgroups.here()
        if os.geteuid() != 0 or not cgroups.is_writable():
            self.skipTest('needs root and cgroups of version 2 that may be written')
        sibling = top / f'allot-test-{os.getpid()}'
        sibling.mkdir()
        self.addCleanup(lambda: until(lambda: not sibling.exists() or self.gone(sibling)))
        for folder in (top, sibling):
            with self.subTest(folder):
                move = f'echo $$ > {folder}/cgroup.procs || exit 9; exec "$@"'
                self.fenced('take', before=['sh', '-c', move, 'sh', 'setsid', '-w', 'env', '-i'])

    @staticmethod
    def gone(folder):
        try:
            folder.rmdir()
        except OSError:
            return False
        return True

    def test_f2_the_keeper_killed_from_inside(self):
        """whoever kills it goes on under the same wall; its promise was somebody's before and is now, too"""
        kill = 'kill -9 $PPID; exec "$@"'
        p = self.start('take', before=['sh', '-c', 'sleep 0.3; ' + kill, 'sh'])
        words = p.stdout.readline().split()  # ended with the job's rest, or fenced
        if words:
            self.assertIn(words[2], ('2', '802'))  # without a cgroup it may be in no job any more
            self.assertLessEqual(int(words[1]) * MIB, LIMIT)
        p.stdin.close()
        p.wait(10)
        self.assertTrue(until(lambda: not self.ps(), 5), self.ps())

    def test_f2_a_nested_run_gets_no_more(self):
        self.fenced('take', before=[ALLOT, 'run', '--'])
        r = subprocess.run([ALLOT, 'run', '--vram', '1G:2G', '--', ALLOT, 'run', '--vram', '1G:64G', '--', ESCAPE, 'take'],
                           env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        if r.stdout.startswith('took'):
            self.assertLessEqual(int(r.stdout.split()[1]) * MIB, LIMIT)
        else:
            self.assertEqual(r.returncode, 125, r.stderr)

    def test_f2_a_nested_run_is_no_better(self):
        def inside(outer, inner):
            r = self.run_job(*outer, '--', ALLOT, 'run', *inner, '--', ALLOT, 'ps', '-o', 'csv')
            return r.returncode, r.stdout + r.stderr
        for inner in (('--class', 'normal'), ('--class', 'latency'), ('--fail-policy', 'open')):
            code, said = inside(('--class', 'batch'), inner)
            self.assertEqual(code, 125)
            self.assertIn(inner[0], said)
        code, said = inside(('--class', 'batch', '--fail-policy', 'open'), ('--fail-policy', 'open'))
        self.assertEqual(code, 0, said)
        self.assertIn(',batch,', said)
        self.assertNotIn(',normal,', said)  # nor by default
        self.assertEqual(inside(('--class', 'latency'), ('--class', 'batch'))[0], 0)

    def test_f2_set_from_inside_only_narrows(self):
        script = f'{ALLOT} set $ALLOT_JOB_ID vram=1G:32G; echo $? >&2; exec "$@"'
        p = self.start('take', before=['sh', '-c', script, 'sh'])
        took, error = self.took(p)
        self.assertEqual(error, 2)
        self.assertLessEqual(took, LIMIT)
        self.end(p)
        self.assertIn('4\n', p.stderr.read())

    def test_f2_another_name_for_the_job(self):
        for setting in ('ALLOT_JOB_ID=1', 'ALLOT_VRAM_LIMIT=99999999999', 'ALLOT_VRAM=64G', 'ALLOT_GPU_UUIDS=',
                        'ALLOT_SOCKET=/nowhere/s', 'ALLOT_SIM_DIR=/nowhere'):
            with self.subTest(setting):
                p = self.start('take', before=['env', setting])
                words = p.stdout.readline().split()  # nothing at all, or no more than the limit
                self.assertLessEqual(int(words[1]) * MIB if words else 0, LIMIT)
                p.stdin.close()
                p.wait(40)
                self.assertTrue(until(lambda: not self.ps(), 5), self.ps())

    # ---- a page full of lies ----

    def test_a1_a_credit_page_full_of_lies(self):
        honest = Gpu(self, '-J', 'honest', '--vram', '2G').start()
        self.settled()
        free = honest.info()[0]
        for n, value in enumerate((2**64 - 1, 2**63, 0, 0xdeadbeefdeadbeef)):
            with self.subTest(hex(value)):
                p = self.start('credit', value)
                took, _ = self.took(p)
                self.seen(p, took)
                for item in self.ps():
                    self.assertLess(item['vram_used_bytes'], 64 * GIB)
                self.assertEqual(honest.info()[0], free)
                self.assertTrue(honest('alloc 512M').startswith('ok'))
                self.assertEqual(honest(f'free {n}'), 'ok')
                p.stdin.close()
                self.assertEqual(p.wait(10), 0)
                self.assertTrue(until(lambda: not self.ps('thief'), 5), self.ps())

    # ---- what slips past is seen ----

    def test_d23_a_driver_in_a_namespace_of_its_own(self):
        p = self.start('dlmopen', self.sim() + '/libcuda.so.1')
        took, _ = self.took(p)
        self.seen(p, took)
        self.end(p)

    def test_d14_a_copy_of_the_driver(self):
        shutil.copy(self.sim() + '/libcuda.so.1', self.dir / 'other.so')
        p = self.start('copy', self.dir / 'other.so', env={'ALLOT_SIM_DIR': self.sim()})
        took, _ = self.took(p)
        self.seen(p, took)
        self.end(p)

    def test_a_static_program_sheds_the_environment(self):
        source, static = self.dir / 'static.c', self.dir / 'static'
        source.write_text('#include <unistd.h>\nint main(int c, char **v) { char *e[] = {"LD_LIBRARY_PATH=%s", 0};'
                          ' (void)c; return execve(v[1], v + 1, e); }\n' % self.sim())
        made = subprocess.run(['cc', '-static', '-o', static, source], capture_output=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        p = self.start('take', before=[static])
        took, error = self.took(p)
        if error == 2 and took <= LIMIT:
            self.end(p)
            return
        self.seen(p, took)
        self.end(p)

    # ---- stopped in the middle ----

    def test_e1_a_stopped_process_holds_nobody_up(self):
        a = Gpu(self, '-J', 'a', '--vram', '2G').start()
        b = Gpu(self, '-J', 'b', '--vram', '2G').start()
        self.assertTrue(a('alloc 512M').startswith('ok'))
        a.tell('threads 4 64M')
        os.kill(a.pid, signal.SIGSTOP)
        start = time.monotonic()
        for _ in range(20):
            self.assertTrue(b('alloc 32M').startswith('ok'))
        b.info()
        self.status()
        self.assertLess(time.monotonic() - start, 2)
        os.kill(a.pid, signal.SIGCONT)
        self.assertTrue(a.hear().startswith('ok'))


FAKE = textwrap.dedent('''
    import os, socket, sys
    os.setgroups([]); os.setgid(12001); os.setuid(12001)
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind(sys.argv[1])
    s.listen(5)
    print('there', flush=True)
    while True:
        c, _ = s.accept()
        if c.recv(65536):
            print('asked', flush=True)
        c.close()
''')
SEEN = r'''
mount --make-rprivate / && mkdir -p /run/allot && mount --bind "$1" /run/allot || exit 9
shift; exec setpriv --reuid 12001 --regid 12001 --clear-groups "$@"
'''


@unittest.skipIf(others.WHY_NOT or others.WHY_NO_MOUNTS, others.WHY_NOT or others.WHY_NO_MOUNTS)
class Service(world.World):
    """under the machine's service only root's server is believed"""

    def setUp(self):
        super().setUp()
        self.dir.chmod(0o755)
        self.place = self.dir / 'run'
        self.place.mkdir()
        (self.place / 'allotd.sock').symlink_to(self.socket)

    def fake(self):
        path = self.dir / 'fake'
        path.mkdir(exist_ok=True)
        os.chown(path, 12001, 12001)
        (path / 's').unlink(missing_ok=True)
        p = subprocess.Popen([sys.executable, '-c', FAKE, str(path / 's')], stdout=subprocess.PIPE, text=True)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        self.assertEqual(p.stdout.readline(), 'there\n')
        return p, str(path / 's')

    def static(self, path):
        """a program without our library that names the false server: whoever is started by another is set right"""
        source, static = self.dir / 'static.c', self.dir / 'static'
        source.write_text('#include <stdlib.h>\n#include <unistd.h>\nint main(int c, char **v) {'
                          ' (void)c; setenv("ALLOT_SOCKET", "%s", 1); return execv(v[1], v + 1); }\n' % path)
        made = subprocess.run(['cc', '-static', '-o', static, source], capture_output=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        return str(static)

    def asked(self, *before):
        """what a program of the job is told that names the false server, and what that was asked"""
        p, path = self.fake()
        r = subprocess.run(['unshare', '--mount', 'sh', '-c', SEEN, 'sh', str(self.place), ALLOT, 'run', '--vram', '1G:2G',
                            '--', *before, self.static(path), ESCAPE, 'take'], env={**self.env, 'HOME': '/'},
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        p.kill()
        return r, p.stdout.read()

    def test_f2_a_server_of_ones_own(self):
        r, asked = self.asked()
        self.assertNotIn('asked', asked)
        self.assertIn('is served by uid 12001', r.stderr)
        self.assertNotRegex(r.stdout, r'took [1-9]')

    def test_f2_a_server_of_ones_own_that_looks_like_roots(self):
        """in a user namespace that one makes, one's own number is 0"""
        for flag in ('--map-root-user', '--map-current-user', None):
            before = ['unshare', '--user', *([flag] if flag else [])]
            r = subprocess.run([*before, 'true'], user=12001, group=12001, extra_groups=[], capture_output=True, check=False)
            if r.returncode:
                self.skipTest('user namespaces are switched off here')
            with self.subTest(flag):
                r, asked = self.asked(*before)
                self.assertNotIn('asked', asked, r.stderr)
                self.assertIn('is served by uid', r.stderr)
                self.assertNotRegex(r.stdout, r'took [1-9]')

    def test_in_a_user_namespace_the_service_is_still_known(self):
        r = subprocess.run(['unshare', '--mount', 'sh', '-c', SEEN, 'sh', str(self.place), ALLOT, 'run', '--vram', '1G:2G',
                            '--', 'unshare', '--user', '--map-root-user', 'env', '-i', ESCAPE, 'take'],
                           env={**self.env, 'HOME': '/'}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           timeout=60, check=False)
        self.assertRegex(r.stdout, r'took 1\d\d\d 2', r.stderr)


if __name__ == '__main__':
    tap.main()
