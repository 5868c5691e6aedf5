#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Too little of everything: descriptors, memory, time; and too many who come at once."""
import fcntl
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / 'daemon'))
import others  # noqa: E402
import tap  # noqa: E402
import wire  # noqa: E402
import world  # noqa: E402
from world import ALLOT, ALLOTD, BUILD, MIB, Gpu, alive, until  # noqa: E402

SHELL = str(BUILD / 'tests/programs/gpu_shell')
SOON_S = 3.0


class Limits(world.World):
    def memory_kib(self, field='VmRSS'):
        with open(f'/proc/{self.daemon.pid}/status') as f:
            return next(int(line.split()[1]) for line in f if line.startswith(field + ':'))


class Descriptors(Limits):
    START = False

    def start_with(self, n):
        """an allotd of N descriptors"""
        self.daemon = subprocess.Popen(self.daemon_args(), env=self.env, stderr=self.log, stdin=subprocess.DEVNULL,
                                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))

    def test_an_allotd_with_few_descriptors(self):
        """however few: it serves, or ends and says why; never half"""
        served = []
        for n in (8, 16, 31, 32, 80):
            with self.subTest(n=n):
                self.start_with(n)
                ready = until(lambda: self.daemon.poll() is not None or self.cli('status').returncode == 0, 10)
                self.assertTrue(ready, f'{n}: neither serves nor ends: {self.said()}')
                if self.daemon.poll() is not None:
                    self.assertNotEqual(self.daemon.returncode, 0)
                    self.assertGreater(self.daemon.returncode, 0, f'{n}: died of a signal')
                    self.assertIn(f'may open {n} files', self.said())
                else:
                    served.append(n)
                    r = self.run_job('--vram', '1M', '--', 'true')
                    self.assertIn(r.returncode, (0, 125), r.stderr)
                    self.assertTrue(r.returncode == 0 or r.stderr, n)
                    self.kill_daemon()
                self.daemon = None
        self.assertEqual(served, [32, 80])

    def test_a_program_without_descriptors_when_it_attaches(self):
        """the guest has none left: refused as out of memory with the one line, or it finds one; no crash"""
        self.start_daemon()
        for n in (3, 4, 5, 6, 8, 12):
            with self.subTest(n=n):
                script = f'ulimit -n {n}; exec {SHELL}'
                p = subprocess.run([ALLOT, 'run', '--vram', '1G:2G', '--', 'sh', '-c', script], env=self.env, text=True,
                                   input='init\nalloc 64M\nalloc 4G\nquit\n', capture_output=True, timeout=60, check=False)
                self.assertGreaterEqual(p.returncode, 0, (n, p.stderr))
                self.assertLess(p.returncode, 128, (n, p.stderr))
                said = p.stdout.split('\n')
                if said[0] == 'ok':
                    self.assertNotIn('ok', said[2], (n, 'the limit holds'))
        self.assertTrue(until(lambda: self.held() == 0, 5))

    def test_a_program_that_runs_out_of_them_later(self):
        """it has its connection: what it holds goes on, and nothing is granted without being asked for"""
        self.start_daemon()
        g = Gpu(self, '-J', 'one', '--vram', '1G:2G').start()
        self.assertTrue(g('alloc 64M').startswith('ok'))
        used = len(os.listdir(f'/proc/{g.pid}/fd'))
        resource.prlimit(g.pid, resource.RLIMIT_NOFILE, (used, used))
        self.assertTrue(g('alloc 512M').startswith('ok'))
        self.assertEqual(g('alloc 4G'), 'error 2')
        # its connection is lost and no other can be made: what is inside the credit goes on, the rest is refused
        self.kill_daemon()
        self.start_daemon()
        self.assertIn(g('alloc 512M').split()[0], ('ok', 'error'))
        self.assertEqual(g('alloc 4G'), 'error 2')
        self.assertEqual(g('free 0'), 'ok')
        g.end()


class Memory(Limits):
    START = False

    def limited(self, kib):
        """an allotd whose address space is limited"""
        self.daemon = subprocess.Popen(self.daemon_args(), env=self.env, stderr=self.log, stdin=subprocess.DEVNULL,
                                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (kib * 1024, kib * 1024)))

    def test_an_allotd_with_little_memory(self):
        """it refuses what it cannot do and goes on; what it cannot begin it says"""
        self.start_daemon()
        start_kib = self.memory_kib('VmSize')
        self.kill_daemon()
        for more in (0, 64, 256, 1024, 4096):
            with self.subTest(more=more):
                self.limited(start_kib + more)
                self.assertTrue(until(lambda: self.daemon.poll() is not None or self.cli('status').returncode == 0, 15))
                if self.daemon.poll() is None:
                    self.press()
                    self.kill_daemon()
                else:
                    self.assertEqual(self.daemon.returncode, 1, self.said())
                self.daemon = None

    def press(self):
        conns, pid = [], self.daemon.pid
        for _ in range(300):
            try:
                conn = wire.Conn(self.socket, timeout=2)
                conn.send('PS')
                conns.append(conn)
            except OSError:
                break
        jobs = [self.start_job('--vram', '1M', '--', 'true') for _ in range(5)]
        codes = [p.wait(30) for p in jobs]
        self.assertTrue(all(c in (0, 4, 125) for c in codes), codes)
        self.assertTrue(alive(pid), self.said())
        for conn in conns:
            conn.close()
        self.assertTrue(until(lambda: self.cli('status').returncode == 0, 5), self.said())


class Many(Limits):
    PROFILE = 'h200'

    def test_e7_a_thousand_clients_at_once(self):
        """a thousand connections of a hundred attached programs and of people: bounded memory and latency"""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        before = self.memory_kib()
        # a hundred programs of one job, each with its page, half of them doing something all the time
        script = f'for i in $(seq 100); do {SHELL} </dev/null & done; exec {SHELL}'
        g = Gpu(self, before=[ALLOT, 'run', '-J', 'many', '--vram', '8G', '--', 'sh', '-c', script], bare=True)
        g.p.args = ['many']
        g.start()
        people = [wire.Conn(self.socket) for _ in range(900)]
        for conn in people[::9]:
            self.assertEqual(conn.call('DAEMON').type, 'DAEMON_INFO')
        slowest = 0
        for i in range(200):
            start = time.monotonic()
            conn = people[i * 4]
            self.assertGreaterEqual(len(conn.list('PS', 'PS_ITEM')), 1)
            self.assertTrue(g('alloc 96M').startswith('ok'))
            self.assertEqual(g(f'free {i}'), 'ok')
            slowest = max(slowest, time.monotonic() - start)
        self.assertLess(slowest, 1.0)
        self.assertLess(self.memory_kib() - before, 32 * 1024)
        for conn in people:
            conn.close()
        g.end()
        self.assertTrue(until(lambda: self.held() == 0, 5))

    def test_a_hundred_runs_at_the_same_moment(self):
        """each gets its place and its exit status"""
        jobs = [self.start_job('--vram', '1M', '--', 'sh', '-c', f'exit {i % 100}') for i in range(60)]
        for i, p in enumerate(jobs):
            self.assertEqual(p.wait(60), i % 100, p.stderr.read())
        self.assertTrue(until(lambda: not self.ps(), 5))


class Clocks(Limits):
    """allotd and programs go by CLOCK_MONOTONIC: the wall clock may jump as it likes"""
    START = False

    def test_the_wall_clock_jumps(self):
        """to 1970 and to 2100 and back, under running jobs, while one waits with a time limit"""
        lib = str(BUILD / 'tests/integration/failures/other_clock.so')
        self.jump = self.dir / 'jump'
        self.jump.write_text('0')
        self.env.update(LD_PRELOAD=lib, OTHER_CLOCK=str(self.jump))
        self.start_daemon()
        g = Gpu(self, '-J', 'one', '--vram', '1G:2G').start()
        self.assertTrue(g('alloc 256M').startswith('ok'))
        held = self.settled()
        most = self.status()[0]['vram_grantable_bytes'] // MIB
        start = time.monotonic()
        waiter = self.start_job('--vram', f'{most + 100}M', '--wait', '3s', '--', 'true')
        for seconds in (-1700000000, 2500000000, 0, -3600, 3600):
            self.jump.write_text(str(seconds))
            time.sleep(0.3)
            self.assertEqual(self.held(), held)
            self.assertTrue(g('alloc 16M').startswith('ok'))
            held += 16 * MIB
            self.assertFalse(self.status()[0]['stale'])
        self.assertNotEqual(waiter.wait(20), 0)
        self.assertGreater(time.monotonic() - start, 2.5)
        self.assertLess(time.monotonic() - start, 10)
        self.kill_daemon()
        self.jump.write_text('-1000000')
        self.start_daemon()
        self.assertTrue(until(lambda: self.held() == held, 5))
        g.end()


class Log(Limits):
    START = False

    def test_nobody_reads_the_log(self):
        """a pipe whose reader is stopped: allotd goes on, and tells later how much was lost"""
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        self.env['ALLOT_LOG'] = 'debug'
        self.daemon = subprocess.Popen(self.daemon_args(), env=self.env, stderr=writer, stdin=subprocess.DEVNULL)
        self.assertTrue(until(lambda: self.cli('status').returncode == 0, 10))
        p = self.start_job('-J', 'one', '--vram', '1G', '--', 'sleep', '60')
        self.assertTrue(until(self.ps, 5))
        conn = wire.Conn(self.socket)
        for i in range(300):
            self.assertEqual(conn.call('SET', job_id=self.ps()[0]['job'] if i == 0 else 1, key='name', value=f'n{i}').type, 'OK')
        conn.close()
        self.assertEqual(os.get_blocking(writer), True, 'the open file of whoever started it is as it was')
        said = os.read(reader, 1 << 16).decode()
        self.assertIn('serving', said)
        self.assertNotIn('n299', said)
        self.assertEqual(self.cli('set', '1', 'name=last').returncode, 0)
        said = os.read(reader, 1 << 16).decode()
        self.assertRegex(said, r'\d+ lines could not be written')
        self.assertIn('name to last', said)
        for fd in reader, writer:
            os.close(fd)
        p.terminate()


class Hidden(Limits):
    """/proc mounted with hidepid=2: a user's own allotd sees that user's processes alone"""
    START = False
    SCRIPT = """
mount -t proc -o hidepid=2 proc /proc || exit 77
exec setpriv --reuid=4242 --regid=4242 --clear-groups sh -c '
    "$ALLOTD" --foreground --user --socket "$ALLOT_SOCKET" --state "$HOME/state" --sim=small4g &
    i=0; until "$ALLOT" status >/dev/null 2>&1 || [ $i = 100 ]; do sleep 0.1; i=$((i+1)); done
    printf "init\\nalloc 512M\\nalloc 2G\\ninfo\\nquit\\n" | "$ALLOT" run -J mine --vram 1G:2G -- "$SHELL_PROGRAM"
    echo "rc $?"
    "$ALLOT" status -o json
    kill $!; wait'
"""

    def test_a_user_who_sees_nobody_else(self):
        """his jobs are fenced as ever, and what they held is given back"""
        if others.WHY_NOT or others.WHY_NO_MOUNTS:
            self.skipTest(others.WHY_NOT or others.WHY_NO_MOUNTS)
        home = self.dir / 'home'
        home.mkdir(mode=0o755)
        os.chmod(self.dir, 0o755)
        os.chown(home, 4242, 4242)
        env = {**self.env, 'HOME': str(home), 'XDG_RUNTIME_DIR': str(home), 'ALLOT_SOCKET': str(home / 's'), 'ALLOT': ALLOT,
               'ALLOTD': ALLOTD, 'SHELL_PROGRAM': SHELL}
        r = subprocess.run(['unshare', '-m', 'sh', '-c', self.SCRIPT], env=env, capture_output=True, text=True, timeout=60,
                           check=False, stdin=subprocess.DEVNULL)
        if r.returncode == 77:
            self.skipTest('may not mount')
        said = r.stdout.split('\n')
        self.assertEqual(said[:3], ['ok', 'ok 0', 'error 2'], r.stdout + r.stderr)
        self.assertIn('rc 0', said, r.stderr)
        gpu = json.loads(r.stdout[r.stdout.index('{'):])['items'][0]
        self.assertEqual(gpu['vram_requested_bytes'], 0)


class Died(Limits):
    PROFILE = 'h200'

    def test_e3_allotd_is_killed_again_and_again_while_twenty_work(self):
        """at any moment of any request: nobody ends, nobody gets more than his limit, the books agree at the end"""
        gpus = [Gpu(self, '-J', f'w{i}', '--vram', '512M:1G').start() for i in range(20)]
        for g in gpus:
            g.tell('threads 2 96M')
        end = time.monotonic() + 8
        kills = 0
        while time.monotonic() < end:
            time.sleep(0.05 + kills % 7 * 0.06)
            pid = self.daemon.pid
            os.kill(pid, signal.SIGKILL)
            self.daemon.wait()
            kills += 1
            self.daemon = subprocess.Popen(self.daemon_args(), env=self.env, stderr=self.log, stdin=subprocess.DEVNULL)
        self.assertTrue(until(lambda: self.cli('status').returncode == 0, 10), self.said())
        for g in gpus:
            said = g.hear()
            self.assertEqual(said, 'ok 0', (said, kills, self.said()))
        for g in gpus:
            self.assertEqual(g('alloc 2G'), 'error 2')
            g.end()
            self.assertEqual(g.p.returncode, 0)
        print(f'# {kills} times')
        self.assertTrue(until(lambda: self.held() == 0 and not self.ps(), 10), self.status())


if __name__ == '__main__':
    tap.main()
