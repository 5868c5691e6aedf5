#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Folders that are full, read-only, missing, somebody else's; a state file that is busy or damaged."""
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import others  # noqa: E402
import tap  # noqa: E402
import world  # noqa: E402
from world import ALLOTD, MIB, Gpu, until  # noqa: E402


class Disk(world.World):
    START = False

    def mount(self, folder, *options):
        """a small file system of its own, in a world that has the right to make one"""
        folder.mkdir(exist_ok=True)
        r = subprocess.run(['mount', '-t', 'tmpfs', '-o', ','.join(('size=256k', 'mode=700', *options)), 'tmpfs', folder],
                           capture_output=True, text=True, check=False)
        if r.returncode:
            self.skipTest('may not mount')
        self.addCleanup(subprocess.run, ['umount', '-l', folder], check=False)

    def fill(self, folder):
        with open(folder / 'filler', 'wb', buffering=0) as f:
            try:
                while True:
                    f.write(bytes(4096))
            except OSError:
                pass

    def doctor(self):
        return self.cli('doctor').stdout

    def works(self, **env):
        g = Gpu(self, '-J', 'one', '--vram', '1G:2G', env={**self.env, **env}).start()
        self.assertTrue(g('alloc 64M').startswith('ok'))
        self.assertEqual(g('alloc 4G'), 'error 2')
        return g

    def try_start(self, *more, **env):
        return subprocess.run([*self.daemon_args(), *more], env={**self.env, **env}, capture_output=True, text=True,
                              timeout=20, stdin=subprocess.DEVNULL, check=False)


class Full(Disk):
    def test_state_that_runs_full(self):
        """said once, nothing stops, and it is written when there is room; a restart in between loses
        only what could not be written"""
        self.mount(self.dir / 'state')
        self.start_daemon()
        first = self.works()
        self.fill(self.dir / 'state')
        rest = [self.works() for _ in range(3)]
        for i in range(20):
            self.assertEqual(self.cli('set', self.ps()[0]['job'], f'name=n{i}').returncode, 0)
        self.assertTrue(until(lambda: 'cannot write the state file' in self.doctor(), 5), self.doctor())
        self.assertEqual(self.said().count('cannot write the state file'), 1)
        (self.dir / 'state/filler').unlink()
        self.assertTrue(until(lambda: 'cannot write the state file' not in self.doctor(), 5))
        held = self.settled()
        self.kill_daemon()
        self.start_daemon()
        self.assertTrue(until(lambda: self.held() == held, 5), (held, self.status(), self.said()))
        for g in (first, *rest):
            self.assertTrue(g('alloc 64M').startswith('ok'))
            g.end()

    def test_state_that_is_full_from_the_beginning(self):
        """refused in words, with the folder's name; and the same in the background"""
        self.mount(self.dir / 'state')
        self.fill(self.dir / 'state')
        for _ in range(2):
            r = self.try_start()
            self.assertEqual(r.returncode, 1, r.stderr)
            self.assertIn(str(self.dir / 'state'), r.stderr)
            self.assertRegex(r.stderr, 'full|No space left')
        self.assertFalse(os.path.exists(self.socket))

    def test_the_log_runs_full(self):
        """in the background allotd writes its log into the state folder: it goes on without"""
        self.mount(self.dir / 'state')
        r = subprocess.run([a for a in self.daemon_args() if a != '--foreground'], env={**self.env, 'ALLOT_LOG': 'debug'},
                           capture_output=True, text=True, timeout=20, check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.fill(self.dir / 'state')
        g = self.works()
        for _ in range(50):
            self.assertEqual(self.cli('ps').returncode, 0)
        g.end()

    def test_a_full_runtime_folder(self):
        """where socket and locks lie: refused in words, or served; never half"""
        run = self.dir / 'run'
        self.mount(run, 'size=64M')
        self.fill(run)
        self.socket = str(run / 's')
        self.env['ALLOT_SOCKET'] = self.socket
        r = self.try_start()
        self.assertEqual(r.returncode, 1, r.stderr)
        self.assertIn(str(run), r.stderr)
        (run / 'filler').unlink()
        self.start_daemon()
        self.works().end()

    def test_a_full_tmp(self):
        """nothing of allot needs /tmp: neither the daemon nor the keeper nor the program"""
        tmp = self.dir / 'tmp'
        self.mount(tmp)
        self.fill(tmp)
        self.env['TMPDIR'] = str(tmp)
        self.start_daemon()
        self.works().end()


class ReadOnly(Disk):
    def test_state_that_is_read_only_from_the_beginning(self):
        self.mount(self.dir / 'state', 'ro')
        r = self.try_start()
        self.assertEqual(r.returncode, 1)
        self.assertIn(str(self.dir / 'state'), r.stderr)
        self.assertIn('Read-only', r.stderr)

    def test_state_is_no_folder(self):
        pathlib.Path(self.state).write_text('precious')
        r = self.try_start()
        self.assertEqual(r.returncode, 1)
        self.assertIn(self.state, r.stderr)
        self.assertEqual(pathlib.Path(self.state).read_text(), 'precious')

    def test_state_folder_of_all(self):
        """one that others may write into is refused: a restart believes what lies there"""
        os.mkdir(self.state)
        os.chmod(self.state, 0o777)
        r = self.try_start()
        self.assertEqual(r.returncode, 1)
        self.assertIn(self.state, r.stderr)


class File(Disk):
    def database(self):
        return sqlite3.connect(os.path.join(self.state, 'allot.db'))

    def test_somebody_else_holds_the_state_file(self):
        """refused at the start, at once and in words; and nobody can take it from a running one"""
        self.start_daemon()
        self.works().end()
        self.stop_daemon()
        db = self.database()
        db.execute('BEGIN EXCLUSIVE')
        start = time.monotonic()
        r = self.try_start()
        self.assertEqual(r.returncode, 1)
        self.assertIn('locked', r.stderr)
        self.assertLess(time.monotonic() - start, 8)
        db.rollback()
        db.close()
        self.start_daemon()
        db = sqlite3.connect(os.path.join(self.state, 'allot.db'), timeout=0.2)
        with self.assertRaises(sqlite3.OperationalError):
            db.execute('DELETE FROM jobs')
        db.close()
        self.works().end()

    def test_rows_that_are_damaged(self):
        """each is refused by itself, in words; the others come back"""
        self.start_daemon()
        good, bad = self.works(), self.works()
        jobs = sorted(i['job'] for i in self.ps())
        self.settled()
        self.kill_daemon()
        db = self.database()
        db.execute('UPDATE jobs SET class = 77, limit_permille = 9999 WHERE id = ?', (jobs[1],))
        db.execute("INSERT INTO meta (key, value) VALUES ('strange', x'ff00')")
        db.commit()
        db.close()
        self.start_daemon()
        self.assertIn(f'a stored job ({jobs[1]}) cannot be read', self.said())
        self.assertTrue(until(lambda: [i for i in self.ps() if i['job'] == jobs[0]], 5))
        self.assertTrue(good('alloc 64M').startswith('ok'))
        # the other is still seen, as somebody whom allot does not know
        self.assertTrue(until(lambda: [i for i in self.ps() if i['pid'] == bad.pid], 5), self.ps())
        good.end()
        bad.end()

    def test_a_file_of_garbage(self):
        os.mkdir(self.state, 0o700)
        pathlib.Path(self.state, 'allot.db').write_bytes(os.urandom(8192))
        self.start_daemon()
        self.assertIn('damaged', self.said())
        self.works().end()

    def test_the_file_is_taken_away_while_it_runs(self):
        """removed or replaced under its hands: the jobs go on, and nothing of them is in the way"""
        self.start_daemon()
        g = self.works()
        for name in os.listdir(self.state):
            if name.startswith('allot.db'):
                os.unlink(os.path.join(self.state, name))
        second = self.works()
        self.assertEqual(len(self.ps()), 2)
        for one in g, second:
            one.end()
        self.assertTrue(until(lambda: not self.ps(), 5))


class Runtime(Disk):
    """the folder of a user's own allotd, as XDG_RUNTIME_DIR has it or not"""

    def setUp(self):
        super().setUp()
        del self.env['ALLOT_SOCKET']
        self.env['ALLOT_SIM'] = ''

    def run_as_user(self, **env):
        return self.cli('run', '--vram', '64M', '--', 'true', **env)

    def test_a_runtime_folder_that_is_missing(self):
        r = self.run_as_user(XDG_RUNTIME_DIR=str(self.dir / 'gone' / 'deep'))
        self.assertIn(r.returncode, (0, 125))
        if r.returncode:
            self.assertTrue(r.stderr.startswith('allot run: ') or 'allotd' in r.stderr, r.stderr)
            self.assertNotIn('Segmentation', r.stderr)
        self.end_own(str(self.dir / 'gone/deep/allot/allotd.sock'))

    def test_a_runtime_folder_of_another(self):
        if os.geteuid() != 0:
            self.skipTest('needs root')
        theirs = self.dir / 'theirs'
        theirs.mkdir()
        (theirs / 'allot').mkdir(mode=0o700)
        os.chown(theirs / 'allot', 4242, 4242)
        r = self.run_as_user(XDG_RUNTIME_DIR=str(theirs))
        self.assertNotEqual(r.returncode, 0)
        self.assertIn(str(theirs / 'allot'), r.stderr)
        self.assertIn('belongs to uid 4242', r.stderr)

    def test_a_runtime_folder_that_is_a_file(self):
        path = self.dir / 'file'
        path.write_text('')
        r = self.run_as_user(XDG_RUNTIME_DIR=str(path))
        self.assertNotEqual(r.returncode, 0)
        self.assertIn(str(path), r.stderr)

    def end_own(self, socket):
        self.socket, self.env['ALLOT_SOCKET'] = socket, socket
        self.stop_daemon()


class Socket(Disk):
    def test_a_socket_without_permission(self):
        """exit 4 and no second daemon, whatever the way in"""
        if others.WHY_NOT:
            self.skipTest(others.WHY_NOT)
        self.start_daemon()
        os.chmod(self.socket, 0o600)
        os.chmod(self.dir, 0o755)
        home = self.dir / 'home'
        home.mkdir()
        os.chown(home, 4242, 4242)
        env = {**self.env, 'HOME': str(home), 'XDG_RUNTIME_DIR': str(home)}
        before = self.allotds()
        for verb in (['ps'], ['status'], ['run', '--vram', '1M', '--', 'true'], ['set', '1', 'class=batch'], ['cancel', '1']):
            r = subprocess.run([world.ALLOT, *verb], env=env, capture_output=True, text=True, timeout=20, check=False,
                               user=4242, group=4242, extra_groups=[], stdin=subprocess.DEVNULL)
            self.assertEqual(r.returncode, 4, (verb, r.stderr))
            self.assertIn('may not be opened', r.stderr, verb)
        self.assertEqual(self.allotds(), before)

    def allotds(self):
        found = set()
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                if os.path.basename(os.readlink(f'/proc/{pid}/exe')) == 'allotd' and str(self.dir).encode() in \
                        pathlib.Path(f'/proc/{pid}/cmdline').read_bytes() + pathlib.Path(f'/proc/{pid}/environ').read_bytes():
                    found.add(pid)
            except OSError:
                pass
        return found

    def test_its_folder_is_taken_away(self):
        """the socket cannot be reached any more; allotd goes on for whom it has"""
        run = self.dir / 'run'
        run.mkdir()
        self.socket = str(run / 's')
        self.env['ALLOT_SOCKET'] = self.socket
        self.start_daemon()
        g = self.works()
        shutil.rmtree(run)
        self.assertEqual(self.cli('ps').returncode, 7)
        self.assertEqual(g('free 0'), 'ok')
        self.assertTrue(g('alloc 64M').startswith('ok'))
        g.p.kill()
        g.p.wait()


if __name__ == '__main__':
    tap.main()
