#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line as people and scripts use it: odd words, odd descriptors, odd surroundings."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

import cgroups
import others
import tap
import world
from world import ALLOT, GIB, MIB, alive, until


class Words(world.World):
    def refused(self, *args, code=125, **env):
        r = self.run_job(*args, '--', 'true', **env)
        self.assertEqual(r.returncode, code, r.stderr)
        self.assertEqual(r.stdout, '')
        self.assertEqual(len(r.stderr.splitlines()), 1, r.stderr)
        return r.stderr

    def test_a_refusal_names_the_option_and_the_word(self):
        for option, word in (('--gpus', '17'), ('--gpus', 'x'), ('--vram', '8'), ('--vram', '-5G'), ('--class', 'fast'),
                             ('--gpu', ''), ('--socket', ''), ('--wait-timeout', '-5s'), ('--when-full', 'wait=0'),
                             ('--name', 'x' * 64), ('--fail-policy', 'ajar')):
            said = self.refused(option, word)
            self.assertIn(option, said)
            self.assertIn(f"'{word.removeprefix('wait=')}'", said)

    def test_a_beginning_that_fits_two_options_is_said_to(self):
        self.assertIn('may be one of', self.refused('--w', '5s'))

    def test_flags_stand_above_the_environment(self):
        r = self.run_job('--vram', '2G', '--', 'sh', '-c', 'echo $ALLOT_VRAM_LIMIT', ALLOT_VRAM='lots',
                         CUDA_DEVICE_MEMORY_LIMIT='lots')
        self.assertEqual((r.returncode, r.stdout), (0, f'{2 * GIB}\n'), r.stderr)

    def test_the_foreign_limit(self):
        for word, limit in (('8g', 8 * GIB), (str(8 * GIB), 8 * GIB), ('8192m', 8 * GIB), ('3000M', 3000 * MIB)):
            r = self.run_job('--', 'sh', '-c', 'echo $ALLOT_VRAM_LIMIT', CUDA_DEVICE_MEMORY_LIMIT=word)
            self.assertEqual(r.stdout, f'{limit}\n', word)
        for word in ('0', '0m', '-1', 'lots', '8q', '8192', '12345678901234567890123'):
            said = self.refused(CUDA_DEVICE_MEMORY_LIMIT=word)
            self.assertIn(f"CUDA_DEVICE_MEMORY_LIMIT: ", said)
            self.assertIn(f"'{word}'", said)

    def limit_of(self, *args, **variables):
        return self.run_job(*args, '--', 'sh', '-c', 'echo $ALLOT_VRAM_LIMIT', **variables)

    def test_the_foreign_limit_of_one_gpu(self):
        name = 'CUDA_DEVICE_MEMORY_LIMIT'
        self.assertEqual(self.limit_of(**{name + '_0': '3000m'}).stdout, f'{3000 * MIB}\n')
        self.assertEqual(self.limit_of(**{name: '8g', name + '_0': '1g'}).stdout, f'{GIB}\n')
        self.assertEqual(self.limit_of(**{name: '8g', name + '_1': '1g'}).stdout, f'{8 * GIB}\n')
        self.assertEqual(self.limit_of('--vram', '2G', **{name + '_0': 'lots'}).stdout, f'{2 * GIB}\n')
        for index in (0, 5):  # what is beside the job's GPUs must be readable, too
            said = self.refused(**{name: '8g', f'{name}_{index}': 'lots'})
            self.assertIn(f"{name}_{index}: ", said)
            self.assertIn("'lots'", said)

    def test_a_share_of_time_is_not_promised_silently(self):
        self.assertIn("ALLOT_COMPUTE: '50'", self.refused(ALLOT_COMPUTE='50'))

    def test_set_changes_nothing_when_a_later_word_is_bad(self):
        self.start_job('-J', 'a', '--vram', '2G', '--', 'sleep', '20')
        job = until(lambda: self.ps('a'))[0]['job']
        for bad in ('class=fast', 'vram=8', 'when-full=never', 'name='):
            r = self.cli('set', job, 'vram=1G', bad)
            self.assertEqual(r.returncode, 2, r.stderr)
            self.assertIn(bad.split('=')[0], r.stderr)
        self.assertEqual(self.ps('a')[0]['vram_limit_bytes'], 2 * GIB)

    def test_set_beyond_the_card_is_5(self):
        self.start_job('-J', 'a', '--vram', '2G', '--', 'sleep', '20')
        job = until(lambda: self.ps('a'))[0]['job']
        r = self.cli('set', job, 'vram=500G')
        self.assertEqual(r.returncode, 5)
        self.assertIn('500.0 GiB asked for, GPU 0 can ever give 139.8 GiB', r.stderr)
        self.assertEqual(self.ps('a')[0]['vram_limit_bytes'], 2 * GIB)

    def test_options_without_a_verb_are_those_of_status(self):
        self.assertEqual(json.loads(self.cli('-o', 'json').stdout)['kind'], 'GPUList')
        self.assertIn('Usage: allot run', self.cli('help', 'run').stdout)
        self.assertEqual(self.cli('help', 'rum').returncode, 2)
        self.assertEqual(self.cli('-V').stdout, self.cli('version').stdout)

    def test_what_comes_later_is_no_typing_error(self):
        for verb in ('queue', 'submit', 'freeze'):
            r = self.cli(verb, '1')
            self.assertEqual(r.returncode, 3)
            self.assertIn('not in this version', r.stderr)
        for option in ('--compute', '--idle-timeout', '--swappable'):
            self.assertIn('not in this version', self.refused(f'{option}=5'))

    def test_csv_of_nothing_still_has_its_header(self):
        self.assertTrue(self.cli('ps', '-o', 'csv').stdout.startswith('job,name,user,pid,'))

    def test_json_has_the_names_of_the_interface(self):
        self.start_job('-J', 'a', '--vram', '2G', '--', 'sleep', '20')
        item = until(lambda: self.ps('a'))[0]
        for name, kind in (('job', int), ('name', str), ('user', str), ('pid', int), ('command', str), ('gpu', str),
                           ('gpu_index', int), ('vram_used_bytes', int), ('vram_request_bytes', int),
                           ('vram_limit_bytes', int), ('compute_min_pct', int), ('compute_max_pct', int),
                           ('class', str), ('state', str)):
            self.assertIs(type(item[name]), kind, name)
        self.assertIsNone(item['compute_got_pct'])
        gpu = self.status()[0]
        for name in ('vram_total_bytes', 'vram_used_bytes', 'vram_allocatable_bytes', 'vram_requested_bytes', 'vram_limits_bytes',
                     'vram_unmanaged_bytes', 'waiting', 'gpu_index', 'utilization_pct', 'temperature_c'):
            self.assertIs(type(gpu[name]), int, name)
        self.assertEqual(gpu['jobs'], [item['job']])
        self.assertIsInstance(gpu['power_w'], float)

    def test_names_that_are_no_text(self):
        for name in (b'\xff\xfe', 'a\x1b[31mb\nc', 'cut \u540d'.encode()[:-1], 'rtl\u202ename', '\u00fcn\u00efc\u00f6de'):
            p = self.start_job('-J', 'x', '--', 'sleep', '20')
            self.children.remove(p)
            p.kill()
            p.communicate()
            p = subprocess.Popen([ALLOT, 'run', '-J', name, '--', 'sh', '-c', 'sleep 20; : \udcff'], env=self.env,
                                 stdin=subprocess.DEVNULL)
            self.children.append(p)
            items = until(self.ps)
            self.assertTrue(items[0]['name'].isprintable(), items[0]['name'])
            self.assertNotIn('\x1b', self.cli('ps').stdout)
            p.terminate()
            p.wait(10)
            self.assertTrue(until(lambda: not self.ps()))


class Table(world.World):
    PROFILE = 'small4g'

    def on_terminal(self, columns):
        import fcntl
        import struct
        import termios
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
        subprocess.run([ALLOT, 'ps'], env={**self.env, 'NO_COLOR': '1'}, stdout=theirs, check=True)
        os.close(theirs)
        out = os.read(ours, 65536).decode()
        os.close(ours)
        return out

    def test_a_line_fits_the_terminal_and_is_whole_in_a_pipe(self):
        long = 'ein-sehr-l\u00e4nglicher-name-einer-arbeit-und-noch-etwas'
        holder = world.Gpu(self, '-J', long, '--vram', '500M:3G').start()
        self.assertEqual(holder('alloc 2300M').split()[0], 'ok')
        waiter = world.Gpu(self, '-J', 'b', '--vram', '100M:3G').start()
        waiter.tell('alloc 1500M')
        self.assertTrue(until(lambda: [i for i in self.ps('b') if i['state'] == 'waiting-vram']))
        for columns in (80, 120, 200):
            out = self.on_terminal(columns)
            self.assertLessEqual(max(map(len, out.splitlines())), columns, out)
            self.assertIn('waiting-vram', out)
        out = self.cli('ps').stdout
        self.assertIn(f'({long}) holds 2.', out)
        self.assertNotIn('\u2026', out)
        holder.end()
        self.assertEqual(waiter.hear().split()[0], 'ok')
        waiter.end()


class Surroundings(world.World):
    def shell(self, script, **kw):
        return subprocess.run(['sh', '-c', script], env={**self.env, 'A': ALLOT}, capture_output=True, text=True, timeout=30,
                              check=False, **kw)

    def test_closed_descriptors_stay_the_commands(self):
        for closed, gone in (('<&-', '0'), ('>&-', '1'), ('2>&-', '2'), ('<&- >&- 2>&-', '0 1 2')):
            out = self.dir / 'fds'
            r = self.shell(f"$A run -- sh -c 'for i in 0 1 2; do [ -e /proc/$$/fd/$i ] || echo $i; done > {out}.new; "
                           f"mv {out}.new {out}; exit 5' {closed}; echo $? > {out}.rc")
            self.assertEqual((self.dir / 'fds.rc').read_text(), '5\n', (closed, r.stderr, self.said()))
            # the redirection of the loop itself shows as 1
            self.assertEqual(set(out.read_text().split()), set(gone.split()) - {'1'}, closed)

    def test_output_that_cannot_be_written_is_told(self):
        for verb in ('status', 'ps', 'version', 'doctor', '--help', 'status -o json', 'ps -o csv'):
            r = self.shell(f'$A {verb} > /dev/full')
            self.assertEqual(r.returncode, 1, verb)
            self.assertIn('No space left', r.stderr)
            self.assertEqual(self.shell(f'$A {verb} >&-').returncode, 1, verb)

    def test_in_a_pipeline(self):
        r = self.shell('echo in | $A run -- cat | cat')
        self.assertEqual((r.returncode, r.stdout, r.stderr), (0, 'in\n', ''))

    def test_a_folder_and_a_lost_interpreter_do_not_wait_for_a_place(self):
        lost = self.dir / 'lost'
        lost.write_text('#!/no/such/interpreter\n')
        lost.chmod(0o755)
        r = self.run_job('--', self.dir)
        self.assertEqual((r.returncode, len(r.stderr.splitlines())), (126, 1))
        self.assertIn('directory', r.stderr)
        r = self.run_job('--', lost)
        self.assertEqual(r.returncode, 126)
        self.assertIn('/no/such/interpreter', r.stderr)

    def test_no_folder_no_home(self):
        r = self.shell('mkdir $HOME/gone && cd $HOME/gone && rmdir $HOME/gone && exec env -u HOME -u XDG_RUNTIME_DIR $A run -- echo ok')
        self.assertEqual((r.returncode, r.stdout), (0, 'ok\n'), r.stderr)

    def test_much_of_everything(self):
        r = subprocess.run([ALLOT, 'run', '--', 'sh', '-c', 'echo $#; env | grep -c ^V_', 'sh', *['x' * 100000] * 10], text=True,
                           env={**self.env, **{f'V_{i}': 'v' * 20 for i in range(10000)}}, capture_output=True, check=False)
        self.assertEqual((r.returncode, r.stdout.split()), (0, ['10', '10000']), r.stderr)

    def test_a_run_in_a_run(self):
        r = self.run_job('--vram', '2G', '--', ALLOT, 'run', '--', ALLOT, 'run', '--vram', '1G', '--', 'sh', '-c',
                         'echo $ALLOT_VRAM_LIMIT; exit 9')
        self.assertEqual((r.returncode, r.stdout), (9, f'{GIB}\n'), r.stderr)


class Daemon(world.World):
    """what the end of a job must not take along"""

    def test_a_restarted_allotd_outlives_the_job_that_restarted_it(self):
        for end in ('itself', 'cancel'):
            p = self.start_job('-J', 'a', '--', 'sh', '-c', 'read x < ' + str(self.fifo()))
            job = until(lambda: self.ps('a'))[0]['job']
            os.kill(self.daemon_pid(), signal.SIGKILL)
            self.assertTrue(until(self.daemon_pid), self.said())
            self.assertTrue(until(lambda: self.cli('ps').returncode == 0 and self.ps('a')))
            pid = self.daemon_pid()
            start = time.monotonic()
            if end == 'cancel':
                self.assertEqual(self.cli('cancel', job).returncode, 0)
            else:
                (self.dir / 'fifo').write_text('x\n')
            p.wait(10)
            self.assertLess(time.monotonic() - start, 1.0, p.stderr.read())
            self.assertTrue(alive(pid), end)
            self.assertEqual(self.daemon_pid(), pid)
            self.assertIsNone(cgroups.job_of(cgroups.of(pid)))  # it was born in the job's

    def fifo(self):
        path = self.dir / 'fifo'
        if path.exists():
            path.unlink()
        os.mkfifo(path)
        return path

    def test_a_waiter_outlives_allotd(self):
        self.start_job('-J', 'a', '--vram', '139G', '--', 'sleep', '1.5')
        self.assertTrue(until(lambda: self.ps('a')))
        p = self.start_job('-J', 'b', '--vram', '20G', '--', 'echo', 'got it')
        self.assertTrue(until(lambda: self.status()[0]['waiting'] == 1))
        os.kill(self.daemon_pid(), signal.SIGKILL)
        out, said = p.communicate(timeout=20)
        self.assertEqual((p.returncode, out), (0, 'got it\n'), said)

    def test_a_cancel_without_a_keeper_ends_in_kill(self):
        gpu = world.Gpu(self, '-J', 'a', '--vram', '1G', before=('sh', '-c', 'trap "" TERM; exec "$0"')).start()
        job = self.ps('a')[0]['job']
        gpu.p.kill()
        gpu.p.wait()
        os.kill(gpu.pid, signal.SIGSTOP)
        self.assertEqual(self.cli('cancel', job).returncode, 0)
        self.assertTrue(alive(gpu.pid))
        self.assertTrue(until(lambda: not alive(gpu.pid), 14))
        self.assertTrue(until(lambda: not self.ps('a')))

    def test_the_exit_status_does_not_wait_for_allotd(self):
        p = self.start_job('--', 'sh', '-c', 'sleep 1; exit 7')
        self.assertTrue(until(self.ps))
        os.kill(self.daemon.pid, signal.SIGSTOP)
        start = time.monotonic()
        self.assertEqual(p.wait(10), 7)
        self.assertLess(time.monotonic() - start, 2.0)
        os.kill(self.daemon.pid, signal.SIGCONT)


class Start(world.World):
    """allotd's own words: what it cannot serve it refuses, and says where it stands"""

    def allotd(self, *args, **kw):
        return subprocess.run([world.ALLOTD, *map(str, args)], env=self.env, capture_output=True, text=True, timeout=20,
                              check=False, stdin=subprocess.DEVNULL, **kw)

    def elsewhere(self, name='other'):
        (self.dir / name).mkdir(exist_ok=True)
        return '--socket', self.dir / name / 's', '--state', self.dir / name / 'state'

    def test_one_allotd_for_the_simulated_cards_of_a_folder(self):
        """a second one took the first one's profile away"""
        r = self.allotd('--sim=small4g', '--socket', self.dir / 's2', '--state', self.dir / 'state2')
        self.assertEqual(r.returncode, 1)
        self.assertIn(f'pid {self.daemon.pid}', r.stderr)
        self.assertEqual(self.cli('status').stdout.count('H200'), 1)

    def test_a_bad_profile_is_refused_with_its_line(self):
        bad = self.dir / 'bad.conf'
        bad.write_text('[device]\nname = x\nmemory = lots\n')
        r = self.allotd(f'--sim={bad}', *self.elsewhere())
        self.assertEqual(r.returncode, 1)
        self.assertIn("bad.conf:3: ", r.stderr)
        r = self.allotd('--sim=smal4g', *self.elsewhere())
        self.assertEqual(r.returncode, 1)
        self.assertIn("'small4g'", r.stderr)

    def test_a_driver_folder_without_a_driver(self):
        (self.dir / 'empty').mkdir()
        for folder in ('empty', 'nowhere'):
            r = self.allotd('--driver', self.dir / folder, *self.elsewhere())
            self.assertEqual(r.returncode, 1)
            self.assertIn(folder, r.stderr)

    def test_empty_paths(self):
        for option in ('--socket', '--state', '--driver'):
            r = self.allotd(option, '')
            self.assertEqual(r.returncode, 2)
            self.assertIn(f"{option} ''", r.stderr)

    def test_neither_folder_nor_descriptors_of_the_starter(self):
        """keepers start it again by its words, from elsewhere; a lock of a script must not live on in it"""
        place = self.dir / 'rel'
        place.mkdir()
        with open(self.dir / 'lock', 'w', encoding='utf-8') as lock:
            r = self.allotd('--sim', '--socket', 's', '--state', './state', cwd=place, pass_fds=[lock.fileno()])
        self.assertEqual(r.returncode, 0, r.stderr)
        self.socket = str(place / 's')
        pid = self.daemon_pid()
        try:
            words = pathlib.Path(f'/proc/{pid}/cmdline').read_text(encoding='utf-8').split('\0')
            self.assertEqual([w.split('=', 1)[1][0] for w in words if w.startswith(('--socket', '--state'))], ['/', '/'])
            self.assertNotIn(str(self.dir / 'lock'), [os.readlink(f) for f in pathlib.Path(f'/proc/{pid}/fd').iterdir()])
            self.assertEqual(os.readlink(f'/proc/{pid}/cwd'), '/')
        finally:
            os.kill(pid, signal.SIGTERM)
            self.assertTrue(until(lambda: not alive(pid)))
            self.socket = str(self.dir / 's')

    def cli(self, *args, **kw):
        return super().cli(*args, **{'ALLOT_SOCKET': self.socket, **kw})


class Trouble(world.World):
    """the driver hangs, a card is lost, descriptors run out: verbs answer and say so"""

    def faults(self, words):
        path = self.dir / 'sim/nvml-faults'
        path.with_suffix('.new').write_text(words)
        path.with_suffix('.new').rename(path)

    def quick(self, *args):
        start = time.monotonic()
        r = self.cli(*args)
        self.assertLess(time.monotonic() - start, 2.0, args)
        return r

    def checks(self):
        return {c['check']: c for c in json.loads(self.quick('doctor', '-o', 'json').stdout)['items'] if c['verdict'] == 'fail'}

    def test_nvml_hangs(self):
        self.faults('hang')
        self.assertTrue(until(lambda: self.status()[0]['stale']))
        self.assertIn('NVML does not answer', self.quick('status').stdout)
        self.assertIsNone(self.status()[0]['utilization_pct'])
        self.assertEqual(self.quick('ps').returncode, 0)
        self.assertEqual(self.quick('run', '--vram', '1G', '--', 'true').returncode, 0)
        failed = self.checks()
        self.assertEqual(list(failed), ['nvml'])
        self.assertIn('nvidia-smi', failed['nvml']['fix'])
        self.faults('')
        self.assertTrue(until(lambda: not self.status()[0]['stale']))
        self.assertEqual(self.checks(), {})

    def test_a_lost_gpu(self):
        self.faults('lost')
        self.assertTrue(until(lambda: self.status()[0]['stale']))
        self.assertIn('GPU LOST', self.quick('status').stdout)
        self.assertIsNone(self.status()[0]['power_w'])
        self.assertEqual(self.quick('doctor').returncode, 1)
        self.assertIn('Xid', self.checks()['gpu']['fix'])
        r = self.quick('run', '--wait-timeout', '500ms', '--', 'true')
        self.assertEqual(r.returncode, 75)
        self.assertIn('GPU 0', r.stderr)

    def test_one_question_without_an_answer_moves_no_figure(self):
        """the old question counts the driver's reserve as used, and it appeared as unmanaged"""
        before = self.status()[0]
        self.faults('error=nvmlDeviceGetMemoryInfo_v2:NVML_ERROR_UNKNOWN')
        time.sleep(2.5)
        after = self.status()[0]
        for name in ('vram_unmanaged_bytes', 'vram_grantable_bytes', 'vram_allocatable_bytes'):
            self.assertEqual(after[name], before[name], name)
        self.assertIn(after['vram_used_bytes'], (None, before['vram_used_bytes']))

    def test_a_stopped_allotd_is_not_waited_for_forever(self):
        os.kill(self.daemon.pid, signal.SIGSTOP)
        try:
            r = self.cli('ps')
            self.assertEqual(r.returncode, 7)
            self.assertIn('does not answer', r.stderr)
        finally:
            os.kill(self.daemon.pid, signal.SIGCONT)

    def test_no_descriptors_left(self):
        self.stop_daemon()
        self.daemon = subprocess.Popen(['prlimit', '--nofile=32:32', *self.daemon_args()], env=self.env, stderr=self.log)
        self.assertTrue(until(lambda: self.cli('ps').returncode == 0))
        jobs = [self.start_job('--', 'sleep', '2') for _ in range(24)]
        said = [p.communicate(timeout=30)[1] for p in jobs]
        refused = [s for p, s in zip(jobs, said) if p.returncode == 125]
        self.assertTrue(refused)
        for s in refused:
            self.assertIn('its limit is 32', s)
        self.assertEqual({p.returncode for p in jobs}, {0, 125})
        self.assertEqual(self.run_job('--', 'true').returncode, 0)

    def test_another_version_is_said_in_words(self):
        import socket
        import struct
        import threading
        path = str(self.dir / 'v2')
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.bind(path)
        s.listen(5)
        self.addCleanup(s.close)

        def serve():
            for _ in range(3):
                c, _ = s.accept()
                m = bytearray(c.recv(65536))
                m[4:6] = struct.pack('<H', 77)
                c.send(m)
                c.close()
        threading.Thread(target=serve, daemon=True).start()
        for verb, code in ((['ps'], 1), (['run', '--', 'true'], 125), (['doctor'], 1)):
            r = self.cli(*verb, ALLOT_SOCKET=path)
            self.assertEqual(r.returncode, code)
            self.assertRegex(r.stderr + r.stdout, r'allotd speaks protocol 77, this allot \S+ protocol \d+: install the same')


class Terminal(world.World):
    """in an interactive shell: Ctrl-Z, fg, bg, Ctrl-C, the line is cut"""

    def setUp(self):
        super().setUp()
        import pty
        self.shell, self.fd = pty.fork()
        if self.shell == 0:
            os.execvpe('bash', ['bash', '--norc', '--noprofile', '-i'], {**self.env, 'A': ALLOT, 'PS1': '>', 'TERM': 'dumb'})
        self.hear('>')

    def tearDown(self):
        os.close(self.fd)
        os.kill(self.shell, signal.SIGKILL)
        os.waitpid(self.shell, 0)
        super().tearDown()

    def hear(self, want, seconds=10):
        import select
        out, end = '', time.monotonic() + seconds
        while want not in out and time.monotonic() < end:
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    out += os.read(self.fd, 4096).decode(errors='replace')
                except OSError:
                    break
        self.assertIn(want, out)
        return out

    def type(self, text):
        os.write(self.fd, text.encode())

    def last_status(self, code):
        self.type('echo st""atus=$?.\n')
        self.hear(f'status={code}.')

    def test_stop_go_on_and_interrupt(self):
        self.type("$A run -J a -- sh -c 'echo st\"\"arted; while :; do sleep 0.1; done'\n")
        self.hear('started')
        self.type('\x1a')
        self.hear('Stopped')
        self.assertEqual(len(self.ps('a')), 1)
        self.type('fg\n')
        self.hear('sleep 0.1')
        time.sleep(0.2)
        self.type('\x03')
        self.last_status(130)

    def test_a_stopped_job_can_be_cancelled(self):
        self.type('$A run -J a -- sleep 60\n')
        job = until(lambda: self.ps('a'))[0]['job']
        time.sleep(0.3)
        self.type('\x1a')
        self.hear('Stopped')
        self.assertEqual(self.cli('cancel', job).returncode, 0)
        self.assertTrue(until(lambda: not self.ps('a'), 3))

    def test_a_waiter_is_interrupted(self):
        self.start_job('-J', 'first', '--vram', '139G', '--', 'sleep', '20')
        self.assertTrue(until(lambda: self.ps('first')))
        self.type('$A run -J a --vram 20G -- true\n')
        self.hear('waiting')
        self.type('\x03')
        self.last_status(130)
        self.assertTrue(until(lambda: self.status()[0]['waiting'] == 0))

    def test_the_line_is_cut(self):
        self.type('nohup $A run -J stays -- sleep 20 > /dev/null 2>&1 &\n')
        self.assertTrue(until(lambda: self.ps('stays')))
        self.type('$A run -J goes -- sleep 20\n')
        self.assertTrue(until(lambda: self.ps('goes')))
        os.close(self.fd)
        self.fd = os.open('/dev/null', os.O_RDONLY)
        self.assertTrue(until(lambda: not self.ps('goes'), 5))
        job = self.ps('stays')[0]['job']
        self.assertEqual(self.cli('cancel', job).returncode, 0)

    def test_it_is_in_the_foreground(self):
        self.type('$A run -- python3 -c "import os; print(\'fg\', os.tcgetpgrp(0) == os.getpgrp(), os.isatty(0))"\n')
        self.hear('fg True True')


class Gpus(world.World):
    PROFILE = 'four'

    def seen(self, *args):
        r = self.run_job(*args, '--', 'sh', '-c', 'echo $CUDA_VISIBLE_DEVICES $ALLOT_GPU_UUIDS $CUDA_DEVICE_ORDER')
        self.assertEqual(r.returncode, 0, r.stderr)
        visible, ours, order = r.stdout.split()
        self.assertEqual((visible, order), (ours, 'PCI_BUS_ID'))
        return [self.uuids.index(u) for u in ours.split(',')]

    def test_which_gpus(self):
        gpus = self.status()
        self.uuids = [g['gpu'] for g in gpus]
        pci = [g['pci_bus_id'] for g in gpus]
        self.assertEqual(self.seen('-g', '1,3'), [1, 3])
        self.assertEqual(self.seen('-g', f'{self.uuids[2]},0'), [2, 0])  # in the order they are named
        self.assertEqual(len(self.seen('-g', '1,3', '--gpus', '1')), 1)
        self.assertEqual(self.seen('--gpus', '4'), [0, 1, 2, 3])
        self.assertEqual(self.seen(), [2])
        for word in (self.uuids[1][:9], self.uuids[1][4:], self.uuids[1].upper(), pci[1], pci[1].upper(), pci[1][5:]):
            self.assertEqual(self.seen('-g', word), [1], word)
        for word, code in (('4', 125), ('0,0', 125), ('GPU-', 125), ('1,', 125), (f'1,{self.uuids[1]}', 125)):
            r = self.run_job('-g', word, '--', 'true')
            self.assertEqual((r.returncode, len(r.stderr.splitlines())), (code, 1), word)
        r = self.run_job('--gpus', '2', '--vram', '60G', '--', 'true')
        self.assertIn('only 1 can ever give as much', r.stderr)
        self.assertEqual(self.run_job('-g', '1,2', '--', ALLOT, 'run', '-g', '0', '--', 'true').returncode, 125)


class Place(world.World):
    """a preload that the loader would leave out must not be a run without a limit"""

    def test_a_path_that_cannot_be_preloaded(self):
        for name in ('a blank', 'a:colon', 'a$dollar'):
            shutil.copytree(world.BUILD / 'bin', self.dir / name / 'bin')
            shutil.copytree(world.BUILD / 'lib', self.dir / name / 'lib')
            r = subprocess.run([self.dir / name / 'bin/allot', 'run', '--', 'echo', 'ran'], env=self.env, capture_output=True,
                               text=True, check=False)
            self.assertEqual((r.returncode, r.stdout), (125, ''), name)
            self.assertIn('cannot be preloaded', r.stderr)
            self.assertIn(name, r.stderr)

    def test_a_library_that_cannot_be_loaded(self):
        for i, (name, bytes_) in enumerate((('cuda', b''), ('nvml', os.urandom(5000)), ('cuda', 200), ('cuda', 100_000),
                                           ('nvml', 20_000))):
            place = self.dir / f'broken{i}'
            shutil.copytree(world.BUILD / 'bin', place / 'bin')
            shutil.copytree(world.BUILD / 'lib', place / 'lib')
            library = place / f'lib/liballot-{name}.so'
            whole = library.read_bytes()
            library.unlink()
            library.write_bytes(whole[:bytes_] if isinstance(bytes_, int) else bytes_)
            r = subprocess.run([place / 'bin/allot', 'run', '--', 'echo', 'ran'], env=self.env, capture_output=True, text=True,
                               check=False)
            self.assertEqual((r.returncode, r.stdout), (125, ''), r.stderr)
            self.assertIn(f'liballot-{name}.so', r.stderr)
            self.assertIn('Nothing was started', r.stderr)

    def test_a_runtime_folder_of_another(self):
        if others.WHY_NOT:
            self.skipTest(others.WHY_NOT)
        (self.dir / 'closed').mkdir(mode=0o700)
        self.dir.chmod(0o755)
        env = {k: v for k, v in self.env.items() if k != 'ALLOT_SOCKET'}
        r = subprocess.run(['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', ALLOT, 'run', '--', 'true'],
                           env={**env, 'XDG_RUNTIME_DIR': str(self.dir / 'closed')}, capture_output=True, text=True, check=False)
        self.assertEqual(r.returncode, 4)
        self.assertIn('XDG_RUNTIME_DIR', r.stderr)


class NobodyElse(world.World):
    START = False

    def test_the_hint_does_not_name_the_verb_that_failed(self):
        r = self.run_job('--', 'true')
        self.assertEqual(r.returncode, 125)
        self.assertIn(f'allotd --socket {self.socket}', r.stderr)

    def test_a_runtime_folder_that_cannot_be(self):
        env = {k: v for k, v in self.env.items() if k != 'ALLOT_SOCKET'}
        r = subprocess.run([ALLOT, 'run', '--', 'true'], env={**env, 'XDG_RUNTIME_DIR': '/nonexistent/folder'},
                           capture_output=True, text=True, check=False)
        self.assertEqual(r.returncode, 125)
        self.assertIn('XDG_RUNTIME_DIR', r.stderr)
        self.assertEqual(len(r.stderr.splitlines()), 1, r.stderr)

    def test_only_root_or_we_can_be_our_allotd(self):
        """who makes the folder first is not thereby believed"""
        if others.WHY_NOT:
            self.skipTest(others.WHY_NOT)
        import socket
        self.dir.chmod(0o755)
        place = self.dir / 'run'
        (place / 'allot').mkdir(parents=True)
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.bind(str(place / 'allot/allotd.sock'))
        s.listen(5)
        os.chmod(place / 'allot/allotd.sock', 0o777)
        self.addCleanup(s.close)
        env = {k: v for k, v in self.env.items() if k != 'ALLOT_SOCKET'}
        for verb, code in ((['ps'], 4), (['run', '--', 'true'], 4)):
            r = subprocess.run(['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', ALLOT, *verb],
                               env={**env, 'XDG_RUNTIME_DIR': str(place)}, capture_output=True, text=True, check=False, timeout=20)
            self.assertEqual(r.returncode, code, r.stderr)
            self.assertIn('uid 0 listens', r.stderr)


class Permission(world.World):
    def test_a_socket_that_may_not_be_opened_is_4(self):
        if others.WHY_NOT:
            self.skipTest(others.WHY_NOT)
        self.dir.chmod(0o755)
        os.chmod(self.socket, 0o600)
        for verb in (['ps'], ['run', '--', 'true'], ['cancel', '1']):
            r = subprocess.run(['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', ALLOT, *verb], env=self.env,
                               capture_output=True, text=True, check=False)
            self.assertEqual(r.returncode, 4, r.stderr)
            self.assertIn('may not be opened', r.stderr)


@unittest.skipIf(others.WHY_NOT, others.WHY_NOT)
class Users(world.World):
    """the service of root, used by others"""
    ALICE, BOB = 65533, 65534

    def setUp(self):
        super().setUp()
        self.dir.chmod(0o755)

    def by(self, uid, *args, **kw):
        return subprocess.run(self.words(uid, *args), env=self.env, capture_output=True, text=True, timeout=30, check=False, **kw)

    def words(self, uid, *args):
        return ['setpriv', f'--reuid={uid}', f'--regid={uid}', '--clear-groups', *map(str, args)]

    def test_simulated_cards_are_everybodys(self):
        """other users' programs fell back to a card of their own and found it forbidden"""
        held = []
        for uid in (self.ALICE, self.BOB):
            gpu = world.Gpu(self, before=self.words(uid, ALLOT, 'run', '--vram', '2G', '--'), bare=True).start()
            self.assertEqual(gpu.info()[1], 2 * GIB)
            held.append(gpu)
        self.assertEqual({i['user'] for i in self.ps()}, {'nobody', '65533'})
        self.assertTrue(all(i['vram_used_bytes'] for i in self.ps()))
        for gpu in held:
            gpu.end()

    def test_nobody_changes_anothers_job(self):
        p = subprocess.Popen(self.words(self.ALICE, ALLOT, 'run', '-J', 'hers', '--vram', '2G', '--', 'sleep', '20'), env=self.env)
        self.children.append(p)
        job = until(lambda: self.ps('hers'))[0]['job']
        for verb in (('cancel', job), ('set', job, 'vram=1G')):
            r = self.by(self.BOB, ALLOT, *verb)
            self.assertEqual(r.returncode, 4, r.stderr)
            self.assertIn(f'uid {self.ALICE}', r.stderr)
        self.assertIn('hers', self.by(self.BOB, ALLOT, 'ps').stdout)
        self.assertEqual(self.by(self.ALICE, ALLOT, 'cancel', job).returncode, 0)
        self.assertEqual(p.wait(10), 143)

    def test_the_libraries_cannot_be_exchanged(self):
        for name in ('libcuda.so.1', 'libnvidia-ml.so.1', 'profile.conf'):
            self.assertNotEqual(self.by(self.BOB, 'mv', '/dev/null', self.dir / 'sim' / name).returncode, 0)
            self.assertNotEqual(self.by(self.BOB, 'rm', '-f', self.dir / 'sim' / name).returncode, 0)

    def test_a_closed_folder_is_no_absent_daemon(self):
        """a second daemon was started silently"""
        script = (f'mount -t tmpfs none /run && mkdir /run/allot && chmod 700 /run/allot && '
                  f'exec {" ".join(self.words(self.BOB, ALLOT, "run", "--", "true"))}')
        r = subprocess.run(['unshare', '-m', 'sh', '-c', script], capture_output=True, text=True, timeout=30, check=False,
                           env={k: v for k, v in self.env.items() if k != 'ALLOT_SOCKET'})
        if 'unshare' in r.stderr or 'mount' in r.stderr:
            self.skipTest('needs a mount namespace')
        self.assertEqual(r.returncode, 4, r.stderr)
        self.assertIn('may not be opened', r.stderr)


if __name__ == '__main__':
    tap.main()
