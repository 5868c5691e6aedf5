#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs in the background: their id, their output, their exit status, whatever happens around them."""
import json
import os
import pathlib
import pty
import signal
import stat
import subprocess
import time

import tap
import world
from world import ALLOT, GIB, alive, until


class Background(world.World):
    PROFILE = 'small4g'

    def detach(self, *args, **env):
        r = self.run_job('-d', *args, **env)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertRegex(r.stdout, r'^[0-9]+\n$')
        return int(r.stdout)

    def show(self, job):
        r = self.cli('show', job, '-o', 'json')
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout)['items'][0]

    def ended(self, job):
        return until(lambda: self.show(job)['state'] == 'ended')


class Log(Background):
    def test_output_and_exit_code_while_it_runs_and_afterwards(self):
        job = self.detach('-J', 'a', '--', 'sh', '-c', 'echo out; echo err >&2; while [ ! -e go ]; do sleep 0.05; done; echo last; exit 7',
                          PWD=str(self.dir))
        go = pathlib.Path('go')
        self.addCleanup(lambda: go.unlink(missing_ok=True))
        self.assertEqual(until(lambda: self.cli('logs', job).stdout == 'out\nerr\n'), True, self.cli('logs', job))
        self.assertEqual(self.show(job)['state'], 'running')
        self.assertIsNone(self.show(job)['exit_code'])
        go.touch()
        self.assertEqual(self.cli('wait', job).returncode, 7)
        self.assertEqual(self.cli('logs', job).stdout, 'out\nerr\nlast\n')
        self.assertTrue(self.ended(job))
        self.assertEqual(self.show(job)['exit_code'], 7)

    def test_the_log_is_the_owners_alone(self):
        job = self.detach('--', 'true')
        path = pathlib.Path(self.show(job)['log'])
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertEqual(path.parent, self.dir / '.local/state/allot/logs')

    def test_the_starter_holds_nothing_open(self):
        # $(allot run -d …) returns though the job runs on
        begin = time.monotonic()
        r = subprocess.run(['sh', '-c', f'id=$({ALLOT} run -d -- sleep 30 2>&1); echo "got $id"'], env=self.env,
                           capture_output=True, text=True, timeout=20)
        self.assertRegex(r.stdout, 'got [0-9]+')
        self.assertLess(time.monotonic() - begin, 15)
        self.cli('cancel', r.stdout.split()[1])

    def test_follow_ends_with_the_job(self):
        job = self.detach('--', 'sh', '-c', 'for i in 1 2 3 4 5; do echo $i; sleep 0.1; done; exit 3')
        r = self.cli('logs', '-f', job, timeout=20)
        self.assertEqual((r.returncode, r.stdout), (0, '1\n2\n3\n4\n5\n'))

    def test_the_last_lines(self):
        job = self.detach('--', 'sh', '-c', 'seq 1 100000; printf end')
        self.assertEqual(self.cli('wait', job).returncode, 0)
        for n, said in ((0, ''), (1, 'end'), (3, '99999\n100000\nend')):
            self.assertEqual(self.cli('logs', '-n', n, job).stdout, said)
        self.assertEqual(self.cli('logs', '--tail=1000000', job).stdout.count('\n'), 100000)

    def test_it_never_grows_beyond_its_bound_and_keeps_the_newest(self):
        job = self.detach('--log-max', '256K', '--', 'sh', '-c', 'seq 1 200000')
        self.assertEqual(self.cli('wait', job).returncode, 0)
        path = pathlib.Path(self.show(job)['log'])
        sizes = [p.stat().st_size for p in (path, path.parent / (path.name + '.1'))]
        self.assertLessEqual(sum(sizes), 256 << 10)
        self.assertLessEqual(max(sizes), 128 << 10)
        lines = self.cli('logs', job).stdout.splitlines()
        self.assertEqual(lines[-1], '200000')
        # without a gap over the change of files
        numbers = [int(n) for n in lines[1:]]
        self.assertEqual(numbers, list(range(numbers[0], 200001)))
        self.assertEqual(self.cli('logs', '-n', '18000', job).stdout.splitlines(), [str(n) for n in range(182001, 200001)])

    def test_one_endless_line(self):
        job = self.detach('--log-max', '64K', '--', 'sh', '-c', 'head -c 1000000 /dev/zero | tr "\\0" x; printf end')
        self.assertEqual(self.cli('wait', job).returncode, 0)
        path = pathlib.Path(self.show(job)['log'])
        sizes = [p.stat().st_size for p in (path, path.parent / (path.name + '.1'))]
        self.assertLessEqual(sum(sizes), 64 << 10)
        said = self.cli('logs', job).stdout
        self.assertTrue(said.endswith('xxend'))
        self.assertGreaterEqual(len(said), 32 << 10)

    def test_follow_over_the_change_of_files(self):
        job = self.detach('--log-max', '64K', '--', 'sh', '-c', 'i=0; while [ $i -lt 40 ]; do seq 1 500; i=$((i+1)); sleep 0.05; done')
        said = self.cli('logs', '-f', job, timeout=40).stdout
        self.assertTrue(said.endswith('499\n500\n'))
        self.assertGreater(said.count('\n'), 10000)

    def test_a_file_size_limit_loses_output_and_says_so(self):
        job = self.run_job('-d', '--', 'sh', '-c', 'ulimit -f unlimited; seq 1 300000').stdout
        self.assertEqual(self.cli('wait', job.strip()).returncode, 0)
        r = subprocess.run(['bash', '-c', f'ulimit -f 64; exec {ALLOT} run -d -- sh -c "seq 1 100000; exit 5"'], env=self.env,
                           capture_output=True, text=True, timeout=20)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(self.cli('wait', r.stdout.strip()).returncode, 5)  # it was not held up
        path = pathlib.Path(self.show(r.stdout.strip())['log'])
        self.assertLessEqual(path.stat().st_size, 64 << 10)

    def test_a_log_removed_by_hand(self):
        job = self.detach('--', 'sh', '-c', 'echo a; sleep 0.5; seq 1 100; exit 4')
        os.unlink(self.show(job)['log'])
        self.assertEqual(self.cli('wait', job).returncode, 4)
        r = self.cli('logs', job)
        self.assertEqual(r.returncode, 6)
        self.assertIn('not there any more', r.stderr)

    def test_a_job_in_the_foreground_has_none(self):
        self.start_job('-J', 'f', '--', 'sleep', '20')
        job = until(lambda: self.ps('f'))[0]['job']
        r = self.cli('logs', job)
        self.assertEqual(r.returncode, 6)
        self.assertIn('background', r.stderr)

    def test_old_logs_are_removed_and_those_in_use_stay(self):
        running = self.detach('-J', 'live', '--', 'sleep', '20')
        live = pathlib.Path(self.show(running)['log'])
        old = live.parent / 'old-20200101T000000Z-1.log'
        other = live.parent / 'notes.txt'
        for p in (old, other):
            p.write_text('x')
        for p in (old, other, live):
            os.utime(p, (1, 1))
        self.detach('--', 'true')
        self.assertFalse(old.exists())
        self.assertTrue(live.exists())
        self.assertTrue(other.exists())
        self.cli('cancel', running)

    def test_no_folder_for_the_log(self):
        (self.dir / 'file').write_text('')
        r = self.run_job('-d', '--', 'true', XDG_STATE_HOME=str(self.dir / 'file'))
        self.assertEqual(r.returncode, 125)
        self.assertIn('XDG_STATE_HOME', r.stderr)
        self.assertEqual(r.stdout, '')


class Storm(Background):
    def test_many_at_once(self):
        starters = [subprocess.Popen([ALLOT, 'run', '-d', '--vram', '1G', '--', 'sh', '-c', f'echo {i}; exit {i}'], env=self.env,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                     text=True) for i in range(24)]
        ids = [int(p.communicate(timeout=60)[0]) for p in starters]
        self.assertEqual(len(set(ids)), 24)
        for i, job in enumerate(ids):
            self.assertEqual(self.cli('wait', '-t', '60s', job).returncode, i)
            self.assertEqual(self.cli('logs', job).stdout.splitlines()[-1], str(i))
        self.assertTrue(until(lambda: not self.ps()))

    def test_many_wait_for_one(self):
        job = self.detach('--', 'sh', '-c', 'sleep 1; exit 3')
        waiters = [subprocess.Popen([ALLOT, 'wait', str(job)], env=self.env, stdin=subprocess.DEVNULL) for _ in range(20)]
        self.children += waiters
        for p in waiters[::3]:  # who does not want to wait any more
            p.kill()
        self.assertEqual({p.wait(30) for p in waiters}, {3, -signal.SIGKILL})
        self.assertEqual(self.cli('wait', job).returncode, 3)


class Waiting(Background):
    def test_the_id_comes_while_it_waits_and_the_log_says_for_what(self):
        holder = self.start_job('--vram', '3G', '--', 'sleep', '60')
        self.assertTrue(until(lambda: self.ps('sleep')))
        job = self.detach('-J', 'late', '--vram', '2G', '--', 'sh', '-c', 'echo ran')
        self.assertEqual(self.show(job)['state'], 'waiting-admission')
        r = self.cli('wait', job, '-t', '300ms')
        self.assertEqual(r.returncode, 75)
        self.assertIn('has not ended after', r.stderr)
        holder.terminate()
        self.assertEqual(self.cli('wait', job).returncode, 0)
        self.assertIn('ran\n', self.cli('logs', job).stdout)

    def test_immediate_is_75_and_prints_no_id(self):
        self.start_job('--vram', '3G', '--', 'sleep', '60')
        self.assertTrue(until(lambda: self.ps('sleep')))
        r = self.run_job('-d', '--immediate', '--vram', '2G', '--', 'true')
        self.assertEqual((r.returncode, r.stdout), (75, ''))
        self.assertEqual(os.listdir(self.dir / '.local/state/allot/logs'), [])

    def test_an_id_that_nobody_heard_is_no_job(self):
        logs = self.dir / '.local/state/allot/logs'
        os.kill(self.daemon.pid, signal.SIGSTOP)
        p = self.start_job('-d', '--', 'touch', str(self.dir / 'ran'))
        self.assertTrue(until(lambda: logs.exists() and os.listdir(logs)))
        time.sleep(0.2)
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(10), -signal.SIGINT)
        os.kill(self.daemon.pid, signal.SIGCONT)
        self.assertTrue(until(lambda: not os.listdir(logs) and not self.ps()))
        self.assertFalse((self.dir / 'ran').exists())

    def test_what_can_never_fit_is_refused_by_the_starter(self):
        r = self.run_job('-d', '--vram', '500G', '--', 'true')
        self.assertEqual((r.returncode, r.stdout), (125, ''))
        self.assertIn('can ever give', r.stderr)
        self.assertEqual(self.run_job('-d', '--', 'no-such-command').returncode, 127)

    def test_wait_timeout_and_cancel_have_their_codes(self):
        self.start_job('--vram', '3G', '--', 'sleep', '60')
        self.assertTrue(until(lambda: self.ps('sleep')))
        job = self.detach('--wait-timeout', '300ms', '--vram', '2G', '--', 'true')
        self.assertEqual(self.cli('wait', job).returncode, 75)
        job = self.detach('--vram', '2G', '--', 'true')
        self.assertEqual(self.cli('cancel', job).returncode, 0)
        self.assertEqual(self.cli('wait', job).returncode, 125)
        self.assertIn('cancelled', self.cli('logs', job).stdout)

    def test_a_waiter_keeps_its_id_over_kill_9_of_allotd(self):
        self.start_job('--vram', '3G', '--', 'sleep', '2')
        self.assertTrue(until(lambda: self.ps('sleep')))
        job = self.detach('-J', 'late', '--vram', '2G', '--', 'sh', '-c', 'echo ran; exit 9')
        waiter = subprocess.Popen([ALLOT, 'wait', str(job)], env=self.env, stderr=subprocess.PIPE, text=True)
        self.children.append(waiter)
        time.sleep(0.2)
        self.kill_daemon()
        self.start_daemon()
        self.assertEqual(waiter.wait(30), 9)
        self.assertEqual(self.show(job)['name'], 'late')
        self.assertIn('ran\n', self.cli('logs', job).stdout)


class Wait(Background):
    def test_codes(self):
        for command, code in (('true', 0), ('exit 3', 3), ('kill -9 $$', 137), ('kill -TERM $$', 143)):
            job = self.detach('--', 'sh', '-c', command)
            self.assertEqual(self.cli('wait', job).returncode, code, command)

    def test_several_give_the_first_that_failed(self):
        jobs = [self.detach('--', 'sh', '-c', f'sleep 0.{i}; exit {c}') for i, c in ((3, 0), (2, 5), (1, 6))]
        self.assertEqual(self.cli('wait', *jobs).returncode, 5)
        self.assertEqual(self.cli('wait', jobs[0]).returncode, 0)
        r = self.cli('wait', *jobs, '-o', 'json')
        self.assertEqual([i['exit_code'] for i in json.loads(r.stdout)['items']], [0, 5, 6])
        r = self.cli('wait', '-o', 'csv', *jobs)
        self.assertEqual(r.stdout.splitlines()[0], 'job,name,user,state,exit_code,signal,started_at,ended_at,log')

    def test_a_job_in_the_foreground(self):
        p = self.start_job('-J', 'f', '--', 'sh', '-c', 'sleep 0.5; exit 4')
        job = until(lambda: self.ps('f'))[0]['job']
        self.assertEqual(self.cli('wait', job).returncode, 4)
        p.wait()

    def test_nobody_saw_it(self):
        job = self.detach('--', 'sleep', '60')
        keeper = self.show(job)['keeper_pid']
        os.kill(keeper, signal.SIGKILL)
        for p in self.left_behind():
            if p != self.daemon.pid and 'sleep' in pathlib.Path(f'/proc/{p}/cmdline').read_text():
                os.kill(p, signal.SIGKILL)
        r = self.cli('wait', '-t', '10s', job)
        self.assertEqual(r.returncode, 125)
        self.assertIn('nobody saw', r.stderr)

    def test_no_such_job_is_6_before_anything_is_waited_for(self):
        job = self.detach('--', 'sleep', '30')
        begin = time.monotonic()
        self.assertEqual(self.cli('wait', job, 99).returncode, 6)
        self.assertLess(time.monotonic() - begin, 10)
        self.cli('cancel', job)


class Survives(Background):
    def test_hang_up_and_interrupt_of_the_terminal(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve('/bin/sh', ['sh', '-c', f'{ALLOT} run -d -- sh -c "sleep 1; echo lived; exit 6"; read x'],
                      self.env)
        said = b''
        while b'\n' not in said:
            said += os.read(terminal, 100)
        os.write(terminal, b'\x03')
        os.close(terminal)
        os.waitpid(pid, 0)
        job = int(said.split()[0])
        self.assertEqual(self.cli('wait', job).returncode, 6)
        self.assertEqual(self.cli('logs', job).stdout, 'lived\n')

    def test_it_has_a_session_of_its_own_and_no_stdin(self):
        job = self.detach('--', 'sh', '-c', 'cat; cut -d " " -f 6 /proc/$$/stat; tty; exit 0')
        keeper = self.show(job)['keeper_pid']
        self.assertEqual(self.cli('wait', job).returncode, 0)
        said = self.cli('logs', job).stdout.split('\n')
        self.assertEqual(int(said[0]), keeper)
        self.assertIn('not a tty', said[1])

    def test_kill_9_of_allotd_while_it_runs(self):
        job = self.detach('--', 'sh', '-c', 'echo a; sleep 1.5; echo b; exit 8')
        self.kill_daemon()
        self.start_daemon()
        self.assertEqual(self.cli('wait', job).returncode, 8)
        self.assertEqual(self.cli('logs', job).stdout, 'a\nb\n')

    def test_it_ends_while_no_allotd_is_there(self):
        job = self.detach('--', 'sh', '-c', 'echo a; sleep 0.3; exit 8')
        keeper = self.show(job)['keeper_pid']
        os.kill(self.daemon.pid, signal.SIGSTOP)  # it hears nothing, and then it dies
        time.sleep(1)
        self.assertTrue(alive(keeper))
        self.kill_daemon()
        self.start_daemon()
        self.assertEqual(self.cli('wait', job).returncode, 8)
        self.assertTrue(until(lambda: not alive(keeper)))

    def test_the_exit_code_is_known_after_a_restart(self):
        job = self.detach('--', 'sh', '-c', 'exit 12')
        self.assertEqual(self.cli('wait', job).returncode, 12)
        self.kill_daemon()
        self.start_daemon()
        self.assertEqual(self.cli('wait', job).returncode, 12)
        self.assertEqual(self.show(job)['state'], 'ended')

    def test_follow_over_a_restart(self):
        job = self.detach('--', 'sh', '-c', 'for i in 1 2 3 4 5 6; do echo $i; sleep 0.3; done')
        p = subprocess.Popen([ALLOT, 'logs', '-f', str(job)], env=self.env, stdout=subprocess.PIPE, text=True)
        self.children.append(p)
        time.sleep(0.4)
        self.kill_daemon()
        self.start_daemon()
        self.assertEqual(p.communicate(timeout=30)[0], '1\n2\n3\n4\n5\n6\n')
        self.assertEqual(p.returncode, 0)

    def test_cancel_ends_it_with_what_it_started(self):
        job = self.detach('--', 'sh', '-c', 'trap "" TERM; sleep 61 & sleep 62')
        self.assertTrue(until(lambda: self.show(job)['state'] == 'running'))
        self.assertEqual(self.cli('cancel', '-s', 'KILL', job).returncode, 0)
        self.assertEqual(self.cli('wait', job).returncode, 137)

    def test_a_job_inside_a_job(self):
        outer = self.detach('--vram', '2G', '--', 'sh', '-c', f'{ALLOT} run -d --vram 1G -- sh -c "echo in; exit 3" > id; {ALLOT} wait $(cat id)',
                            PWD=str(self.dir))
        self.addCleanup(lambda: pathlib.Path('id').unlink(missing_ok=True))
        self.assertEqual(self.cli('wait', outer).returncode, 3)


if __name__ == '__main__':
    tap.main()
