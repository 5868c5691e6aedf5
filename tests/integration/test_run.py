#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`allot run` and the keeper: exit statuses, signals, the tree, words on stderr."""
import os
import signal
import subprocess
import sys
import time
import unittest

import tap
import world
from world import ALLOT, GIB, STANDIN, alive, until


class ExitStatus(world.World):
    def test_the_commands_own(self):
        for n in (0, 1, 7, 255):
            self.assertEqual(self.run_job('--', 'sh', '-c', f'exit {n}').returncode, n)

    def test_128_and_the_signal(self):
        self.assertEqual(self.run_job('--', 'sh', '-c', 'kill -9 $$').returncode, 137)
        self.assertEqual(self.run_job('--', 'sh', '-c', 'kill -TERM $$').returncode, 143)

    def test_not_found_and_not_executable(self):
        r = self.run_job('--', 'no-such-command-here')
        self.assertEqual(r.returncode, 127)
        self.assertIn('no-such-command-here', r.stderr)
        plain = self.dir / 'plain'
        plain.write_text('x')
        self.assertEqual(self.run_job('--', plain).returncode, 126)
        self.assertEqual(self.run_job('--', self.dir).returncode, 126)

    def test_usage_is_125_with_the_word(self):
        for args, word in ((('--vram', '8'), "'8'"), (('--vram', '0G'), '0G'), (('--vram', '8X'), 'X'),
                           (('--vram', '8G:4G'), '8G:4G'), (('--class', 'latancy'), "'latency'"), (('--when-full', 'w'), "'w'"),
                           (('--gpus', '0'), "'0'"), (('--vrm', '8G'), "'--vram'"), (('--wait-timeout', '5'), "'5'")):
            r = self.run_job(*args, '--', 'true')
            self.assertEqual(r.returncode, 125, args)
            self.assertIn(word, r.stderr)
        self.assertEqual(self.run_job().returncode, 125)

    def test_a17_a_bad_environment_is_no_default(self):
        for var in ('ALLOT_VRAM', 'CUDA_DEVICE_MEMORY_LIMIT', 'ALLOT_CLASS'):
            r = self.run_job('--', 'true', **{var: 'lots'})
            self.assertEqual(r.returncode, 125)
            self.assertIn(var, r.stderr)

    def test_never_fits_is_refused_at_once(self):
        r = self.run_job('--vram', '9T', '--', 'true', timeout=10)
        self.assertEqual(r.returncode, 125)
        self.assertIn('9.0 TiB', r.stderr.replace('9216.0 GiB', '9.0 TiB'))


class Environment(world.World):
    def test_what_a_job_sees(self):
        r = self.run_job('-J', 'nightly', '--vram', '2G:3G', '--', 'env')
        env = dict(line.split('=', 1) for line in r.stdout.splitlines() if '=' in line)
        self.assertEqual(env['ALLOT_JOB_NAME'], 'nightly')
        self.assertEqual(env['ALLOT_VRAM_REQUEST'], str(2 * GIB))
        self.assertEqual(env['ALLOT_VRAM_LIMIT'], str(3 * GIB))
        self.assertEqual(env['CUDA_DEVICE_ORDER'], 'PCI_BUS_ID')
        self.assertTrue(env['ALLOT_GPU_UUIDS'].startswith('GPU-'))
        self.assertGreater(int(env['ALLOT_JOB_ID']), 0)
        self.assertTrue(env['LD_PRELOAD'].split(':')[0].endswith('/liballot-cuda.so'))

    def test_l1_stdout_belongs_to_the_program(self):
        r = self.run_job('--vram', '2G', '--', STANDIN, 'embedding', '0')
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertTrue(all(line.startswith('embedding:') for line in r.stdout.splitlines()), r.stdout)
        self.assertEqual(r.stderr, '')

    def test_a_users_preload_stays_behind_ours(self):
        r = self.run_job('--', 'sh', '-c', 'echo $LD_PRELOAD', LD_PRELOAD='libm.so.6')
        self.assertTrue(r.stdout.strip().endswith(':libm.so.6'), r.stdout)

    def test_d21_a_missing_library_stops_the_run(self):
        import shutil
        copy = self.dir / 'inst'
        shutil.copytree(world.BUILD / 'bin', copy / 'bin')
        r = subprocess.run([copy / 'bin/allot', 'run', '--', 'true'], env=self.env, capture_output=True, text=True, check=False)
        self.assertEqual(r.returncode, 125)
        self.assertIn('liballot-cuda.so', r.stderr)


class Tree(world.World):
    def test_e16_cancel_ends_the_whole_tree(self):
        pids = self.dir / 'pids'
        script = f'(setsid sh -c "echo \\$\\$ >> {pids}; trap \'\' TERM; exec sleep 60" &) ; sleep 61 & echo $! >> {pids}; wait'
        p = self.start_job('-J', 'tree', '--', 'sh', '-c', script)
        self.assertTrue(until(lambda: pids.exists() and len(pids.read_text().split()) == 2))
        job = until(lambda: [i for i in self.ps('tree')])[0]['job']
        r = self.cli('cancel', job)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertTrue(until(lambda: p.poll() is not None, 20))
        for pid in map(int, pids.read_text().split()):
            self.assertTrue(until(lambda: not alive(pid), 3), pid)

    def test_what_the_command_leaves_is_ended(self):
        pid_file = self.dir / 'pid'
        r = self.run_job('--', 'sh', '-c', f'setsid sleep 60 & echo $! > {pid_file}; exit 3', timeout=20)
        self.assertEqual(r.returncode, 3)
        self.assertFalse(alive(int(pid_file.read_text())))

    def test_signals_are_passed_on(self):
        p = self.start_job('--', sys.executable, '-c',
                           'import signal,sys,time\nsignal.signal(signal.SIGUSR1, lambda *a: sys.exit(9))\n'
                           'print("ready", flush=True)\ntime.sleep(30)')
        self.assertEqual(p.stdout.readline(), 'ready\n')
        p.send_signal(signal.SIGUSR1)
        self.assertEqual(p.wait(10), 9)

    def test_no_signal_ends_the_keeper_alone(self):
        for sig in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGPWR):
            with self.subTest(sig):
                p = self.start_job('--', sys.executable, '-c',
                                   f'import signal,sys,time\nsignal.signal({int(sig)}, lambda *a: sys.exit(9))\n'
                                   'print("ready", flush=True)\ntime.sleep(30)')
                self.assertEqual(p.stdout.readline(), 'ready\n')
                p.send_signal(sig)
                self.assertEqual(p.wait(10), 9)

    def test_a_terminal_works(self):
        import pty
        pid, fd = pty.fork()
        if pid == 0:
            os.execve(ALLOT, [ALLOT, 'run', '--', 'sh', '-c', 'trap "echo caught; exit 5" INT; echo ready; while :; do sleep 0.1; done'],
                      self.env)
        out = b''
        while b'ready' not in out:
            out += os.read(fd, 1000)
        os.write(fd, b'\x03')
        end = time.monotonic() + 10
        while b'caught' not in out and time.monotonic() < end:
            try:
                out += os.read(fd, 1000)
            except OSError:
                break
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 5)
        self.assertIn(b'caught', out)
        os.close(fd)


class Waiting(world.World):
    PROFILE = 'small4g'

    def test_k14_a_second_job_waits_and_says_why(self):
        first = self.start_job('-J', 'first', '--vram', '3G', '--', 'sleep', '2')
        self.assertTrue(until(lambda: self.ps('first')))
        second = self.start_job('-J', 'second', '--vram', '2G', '--', 'true')
        self.assertTrue(until(lambda: [i for i in self.ps('second') if i['state'] == 'waiting-admission']))
        self.assertEqual(self.status()[0]['waiting'], 1)
        self.assertEqual(second.wait(10), 0)
        self.assertEqual(first.wait(10), 0)
        said = second.stderr.read()
        self.assertIn('waiting', said)
        self.assertIn('2.0 GiB', said)

    def test_immediate_and_timeout_are_75(self):
        self.start_job('-J', 'first', '--vram', '3G', '--', 'sleep', '20')
        self.assertTrue(until(lambda: self.ps('first')))
        self.assertEqual(self.run_job('--vram', '2G', '--immediate', '--', 'true').returncode, 75)
        start = time.monotonic()
        self.assertEqual(self.run_job('--vram', '2G', '--wait-timeout', '500ms', '--', 'true').returncode, 75)
        self.assertLess(time.monotonic() - start, 5)

    def test_a_waiter_that_gives_up_leaves_nothing(self):
        self.start_job('-J', 'first', '--vram', '3G', '--', 'sleep', '20')
        self.assertTrue(until(lambda: self.ps('first')))
        second = self.start_job('-J', 'second', '--vram', '2G', '--', 'true')
        self.assertTrue(until(lambda: self.status()[0]['waiting'] == 1))
        second.kill()
        self.assertTrue(until(lambda: self.status()[0]['waiting'] == 0))


class Verbs(world.World):
    def test_nearest_words(self):
        r = self.cli('statsu')
        self.assertEqual(r.returncode, 2)
        self.assertIn("'status'", r.stderr)
        self.assertEqual(self.cli('set', '1', 'vran=2G').returncode, 2)
        self.assertIn("'vram'", self.cli('set', '1', 'vran=2G').stderr)

    def test_no_such_job_is_6(self):
        self.assertEqual(self.cli('cancel', '4242').returncode, 6)
        self.assertEqual(self.cli('set', '4242', 'vram=2G').returncode, 6)

    def test_help_of_every_verb(self):
        for verb in ('run', 'ps', 'status', 'set', 'cancel', 'doctor', 'version'):
            r = self.cli(verb, '--help')
            self.assertEqual(r.returncode, 0)
            self.assertIn(f'Usage: allot {verb}', r.stdout)

    def test_numbers_have_the_digits_they_were_meant_to_have(self):
        for form in ('json', 'csv'):
            for _ in range(5):
                out = self.cli('status', '-o', form).stdout
                self.assertRegex(out, r'\b\d+\.\d')
                self.assertNotRegex(out, r'\d\.\d{10}')

    def test_csv_has_a_header(self):
        out = self.cli('status', '-o', 'csv').stdout.splitlines()
        self.assertTrue(out[0].startswith('gpu,gpu_index,'))
        self.assertEqual(len(out), 2)

    def test_doctor_is_content(self):
        r = self.cli('doctor')
        self.assertEqual(r.returncode, 0, r.stdout)


class NoDaemon(world.World):
    START = False

    def test_the_exit_status_is_7(self):
        r = self.cli('ps')
        self.assertEqual(r.returncode, 7)
        self.assertIn(self.socket, r.stderr)

    def test_a_socket_named_from_here_is_known_elsewhere(self):
        self.start_daemon()
        os.chdir(self.dir)  # its cwd is nobody else's in this process
        self.addCleanup(os.chdir, '/')
        for named in ((), ('--socket', './s')):
            r = self.run_job(*named, '--vram', '1G', '--', 'sh', '-c',
                             f'cd /; {ALLOT} ps && printf "init\\nquit\\n" | {world.Gpu.PROGRAM}', ALLOT_SOCKET='s')
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertTrue(r.stdout.endswith('ok\n'), r.stdout + r.stderr)

    @unittest.skipIf(world.REAL, 'the machine has a GPU')
    def test_the_way_from_no_gpu_to_the_simulator(self):
        """what doctor says can be done as it stands there"""
        empty = subprocess.Popen([*self.daemon_args()[:-1]], env=self.env, stderr=self.log, stdin=subprocess.DEVNULL)
        self.children.append(empty)
        self.assertTrue(until(lambda: self.cli('ps').returncode == 0), self.said())
        self.assertTrue(until(lambda: 'no GPU here' in self.run_job('--', 'true').stderr))
        self.assertIn(f'without a GPU: kill {empty.pid}, then allotd --sim', self.cli('doctor').stdout)
        second = subprocess.run(self.daemon_args(), env=self.env, capture_output=True, text=True, timeout=20, check=False)
        self.assertEqual(second.returncode, 1)
        self.assertIn(f'pid {empty.pid}', second.stderr)
        self.assertIn('end it first', second.stderr)
        empty.terminate()
        empty.wait(10)
        self.start_daemon()
        self.assertEqual(self.run_job('--', 'true').returncode, 0)

    def test_an_explicit_socket_starts_no_daemon(self):
        r = self.run_job('--', 'true')
        self.assertEqual(r.returncode, 125)
        self.assertFalse(os.path.exists(self.socket))


if __name__ == '__main__':
    tap.main()
