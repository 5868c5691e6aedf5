# SPDX-License-Identifier: Apache-2.0
"""A private world for one test: its own allotd on a simulated card, its own socket and state.

    class MyTest(world.World):
        PROFILE = 'h200'
        def test_x(self): self.run_job('--vram', '1G', '--', 'true')

Everything is ended in tearDown, whatever happened.  Programs come from the build folder that the
environment names (ALLOT_BUILD, set by meson).
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import uuid

import cgroups

ROOT = pathlib.Path(__file__).resolve().parents[2]
REAL = bool(os.environ.get('ALLOT_REAL_GPU'))  # the same tests on the machine's own card
BUILD = pathlib.Path(os.environ.get('ALLOT_BUILD', ROOT / 'build')).resolve()
ALLOT = str(BUILD / 'bin/allot')
ALLOTD = str(BUILD / 'bin/allotd')
KEEPER = str(BUILD / 'bin/allot-keeper')
STANDIN = str(BUILD / 'demo/standin')
GIB, MIB = 1 << 30, 1 << 20


def until(check, seconds=10.0, pause=0.02):
    """wait until check() is true; its last value"""
    end = time.monotonic() + seconds
    while True:
        value = check()
        if value or time.monotonic() > end:
            return value
        time.sleep(pause)


def own_profile(name):
    """a profile whose cards are nobody else's: one allotd of a machine shares out a card"""
    text = (ROOT / f'sim/profiles/{name}.conf').read_text()
    return re.sub(r'GPU-[0-9a-f-]{36}', lambda _: f'GPU-{uuid.uuid4()}', text)


def alive(pid):
    try:
        with open(f'/proc/{pid}/stat', encoding='latin-1') as f:
            return f.read().rsplit(')', 1)[1].split()[0] not in ('Z', 'X')
    except OSError:
        return False


# whoever started us in the background or under nohup ignored these; tests mean the usual
for _sig in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(_sig) is signal.SIG_IGN:
        signal.signal(_sig, signal.SIG_DFL)


class World(unittest.TestCase):
    PROFILE = 'h200'
    START = True
    ONE_CARD = True  # on a real machine with several, all jobs go to the first

    def setUp(self):
        if REAL and self.PROFILE != 'h200':
            self.skipTest('needs a card of another size')
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix='allot-test.'))
        self.socket = str(self.dir / 's')
        self.state = str(self.dir / 'state')
        self.env = {k: v for k, v in os.environ.items() if REAL and k == 'LD_LIBRARY_PATH' or not k.startswith(('ALLOT_', 'CUDA_', 'LD_'))}
        self.env.update(ALLOT_SOCKET=self.socket, HOME=str(self.dir), XDG_RUNTIME_DIR=str(self.dir), XDG_CONFIG_HOME=str(self.dir), ALLOT_LOG='warn')
        if REAL and self.ONE_CARD:
            self.env.update(CUDA_VISIBLE_DEVICES='0', CUDA_DEVICE_ORDER='PCI_BUS_ID')
        self.daemon = None
        self.children = []
        self.log = open(self.dir / 'log', 'a', encoding='utf-8')
        if self.START:
            self.start_daemon()

    def tearDown(self):
        for p in self.children:
            if p.poll() is None:
                p.terminate()
        for p in self.children:
            try:
                p.wait(10)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
            for f in (p.stdout, p.stderr):
                if f:
                    f.close()
        self.stop_daemon()
        for pid in self.left_behind():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.log.close()
        cgroups.clean(self.state)
        if os.environ.get('ALLOT_KEEP'):
            print('kept', self.dir)
        else:
            shutil.rmtree(self.dir, ignore_errors=True)

    def left_behind(self):
        """processes of this world that outlived their keeper, which a test may have killed"""
        mark, found = str(self.dir).encode(), []
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open(f'/proc/{pid}/environ', 'rb') as env, open(f'/proc/{pid}/cmdline', 'rb') as cmd:
                    if int(pid) != os.getpid() and (mark + b'/' in env.read() or mark + b'/' in cmd.read()):
                        found.append(int(pid))
            except OSError:  # gone, or somebody else's
                pass
        return found

    # ---- the daemon ----

    def daemon_args(self):
        driver = [] if REAL else [f'--sim={self.PROFILE}']
        return [ALLOTD, '--foreground', f"--config=-{self.dir / 'allot.yaml'}", '--socket', self.socket, '--state', self.state, *driver]

    def start_daemon(self, *more):
        self.daemon = subprocess.Popen([*self.daemon_args(), *more], env=self.env, stderr=self.log,
                                       stdin=subprocess.DEVNULL)
        self.assertTrue(until(lambda: self.cli('status', '-o', 'json').returncode == 0), self.said())

    def daemon_pid(self):
        """also of one that a keeper started"""
        info = self.cli('doctor', '-o', 'json')
        for item in json.loads(info.stdout or '{"items":[]}')['items']:
            if item['check'] == 'daemon' and ' pid ' in item['found']:
                return int(item['found'].split(' pid ')[1].split(',')[0])
        return None

    def stop_daemon(self):
        pids = {self.daemon_pid()} if os.path.exists(self.socket) else set()
        if self.daemon:
            pids.add(self.daemon.pid)
        for pid in pids - {None}:
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
        if self.daemon:
            try:
                self.daemon.wait(5)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
            self.daemon = None
        until(lambda: not any(alive(p) for p in pids - {None}), 5)

    def kill_daemon(self):
        """as kill -9 does it, at any moment"""
        self.daemon.kill()
        self.daemon.wait()

    def said(self):
        self.log.flush()
        return (self.dir / 'log').read_text(errors='replace')[-3000:]

    # ---- the command line ----

    def cli(self, *args, timeout=60, **env):
        return subprocess.run([ALLOT, *map(str, args)], env={**self.env, **env}, capture_output=True, text=True,
                              timeout=timeout, check=False, stdin=subprocess.DEVNULL)

    def run_job(self, *args, **kw):
        return self.cli('run', *args, **kw)

    def start_job(self, *args, **env):
        p = subprocess.Popen([ALLOT, 'run', *map(str, args)], env={**self.env, **env}, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        self.children.append(p)
        return p

    def items(self, verb):
        out = self.cli(verb, '-o', 'json')
        self.assertEqual(out.returncode, 0, out.stderr + self.said())
        doc = json.loads(out.stdout)
        self.assertEqual(doc['schema'], 'allot/v1')
        return doc['items']

    def ps(self, name=None):
        return [i for i in self.items('ps') if name is None or i['name'] == name]

    def status(self):
        return self.items('status')

    def settled(self):
        """held(), once what the driver took by itself has been measured and stands still"""
        last = [self.held(), time.monotonic()]

        def still():
            now = self.held()
            if now != last[0]:
                last[:] = [now, time.monotonic()]
            return time.monotonic() - last[1] > 1.5
        self.assertTrue(until(still, 15, 0.1))
        return last[0]

    def held(self):
        """bytes that the ledger has for all jobs"""
        return sum(g['vram_held_bytes'] for g in self.status())


class Gpu:
    """a real process that does with the GPU what it is told (tests/programs/gpu_shell.c)"""

    PROGRAM = str(BUILD / 'tests/programs/gpu_shell')

    def __init__(self, test, *options, before=(), env=None, bare=False):
        cmd = [*before, self.PROGRAM]
        if not bare:
            cmd = [ALLOT, 'run', *options, '--', *cmd]
        self.p = subprocess.Popen([str(c) for c in cmd], env=env or test.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, bufsize=1)
        test.children.append(self.p)
        test.addCleanup(self.p.stdin.close)
        self.pid = None

    def tell(self, line):
        self.p.stdin.write(line + '\n')
        self.p.stdin.flush()

    def hear(self):
        return self.p.stdout.readline().strip()

    def __call__(self, line):
        self.tell(line)
        return self.hear()

    def start(self):
        """ready, with a context; returns itself"""
        said = self('init')
        assert said == 'ok', said or self.p.communicate()[1]
        self.pid = int(self('pid').split()[1])
        return self

    def info(self):
        free, total = map(int, self('info').split()[1:])
        return free, total

    def end(self):
        self.tell('quit')
        self.p.wait(10)
        return self.p.stderr.read()
