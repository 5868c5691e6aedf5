#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs in PID, mount and user namespaces of their own, by unshare and by podman: whose they are, held to
their limit, and numbered as the asker knows them."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import tap
import world
from world import ALLOT, BUILD, GIB, MIB, Gpu, alive, until

PIDS = ['unshare', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc']
PRELOAD = f"{BUILD / 'lib/liballot-cuda.so'}\n{BUILD / 'lib/liballot-nvml.so'}\n"
HAS_NAMESPACES = os.geteuid() == 0 and subprocess.run([*PIDS, 'true'], capture_output=True, check=False).returncode == 0
HAS_USERS = HAS_NAMESPACES and subprocess.run(['unshare', '--user', '--map-root-user', *PIDS[1:], 'true'],
                                              capture_output=True, check=False).returncode == 0
# podman knows no hybrid of both versions of cgroups: it gets the second alone
UNIFIED = r'''
mount --make-rprivate /
[ -d /sys/fs/cgroup/unified ] && mount --bind /sys/fs/cgroup/unified "$1" && umount -l /sys/fs/cgroup &&
	mount --bind "$1" /sys/fs/cgroup && umount "$1"
shift; exec "$@"
'''
# what a container is given: the file that names the libraries, and the folder with the socket
MOUNTS = r'''
mount --make-rprivate /
mount --bind "$1" /etc || exit 1
mkdir -p /run/allot && mount --bind "$2" /run/allot || exit 1
if [ "$3" ]; then mount --bind /dev/null "$3" || exit 1; fi
shift 3; exec "$@"
'''
# NVML's list of the processes on the card, as a program inside gets it
LIST = '''
import ctypes
class P(ctypes.Structure):
    _fields_ = [('pid', ctypes.c_uint), ('used', ctypes.c_ulonglong), ('gi', ctypes.c_uint), ('ci', ctypes.c_uint)]
n = ctypes.CDLL('libnvidia-ml.so.1')
d, c, a = ctypes.c_void_p(), ctypes.c_uint(16), (P * 16)()
assert n.nvmlInit_v2() == 0 and n.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(d)) == 0
assert n.nvmlDeviceGetComputeRunningProcesses_v3(d, ctypes.byref(c), a) == 0
print(*[a[i].pid for i in range(c.value)])
'''


def inner_pid(pid):
    """the number of a process in its own namespace"""
    with open(f'/proc/{pid}/status', encoding='latin-1') as f:
        return int(re.search(r'^NSpid:.*\s(\d+)$', f.read(), re.M).group(1))


class Base(world.World):
    def job(self, *before):
        return Gpu(self, bare=True, before=[ALLOT, 'run', '-J', 'box', '--vram', '1G:2G', '--', *before])

    def held_to_its_limit(self, g):
        free, total = g.info()
        self.assertEqual(total, 2 * GIB)
        self.assertLess(free, total)
        self.assertEqual(g('alloc 4G'), 'error 2')
        self.assertTrue(g('alloc 512M').startswith('ok'))
        row = self.row(g)
        self.assertGreaterEqual(row['vram_used_bytes'], 512 * MIB)
        return row

    def row(self, g):
        """of this program in ps from outside: with the machine's number"""
        rows = [i for i in self.ps() if alive(i['pid']) and inner_pid(i['pid']) == g.pid
                and os.path.samefile(f"/proc/{i['pid']}/exe", Gpu.PROGRAM)]
        self.assertEqual(len(rows), 1, self.ps())
        self.assertIsNotNone(rows[0]['job'])
        return rows[0]

    def over(self, g):
        g.p.stdin.close()
        g.p.wait(10)
        self.assertTrue(until(lambda: not self.ps(), 5), self.ps())


@unittest.skipUnless(HAS_NAMESPACES, 'a PID namespace needs root')
class Namespaces(Base):
    def test_b13_a_job_in_pid_and_mount_namespaces(self):
        g = self.job(*PIDS).start()
        self.assertLess(g.pid, 10)
        row = self.held_to_its_limit(g)
        self.assertEqual(row['name'], 'box')
        self.over(g)

    def test_b13_b15_each_asker_gets_its_own_numbers(self):
        outside = Gpu(self, '-J', 'outside', '--vram', '1G').start()
        g = self.job(*PIDS).start()
        pid = self.row(g)['pid']
        enter = ['nsenter', '--target', str(pid), '--pid', '--mount']

        def inside(*cmd):
            r = subprocess.run([*enter, *cmd], env=self.env, capture_output=True, text=True, timeout=20, check=False)
            self.assertEqual(r.returncode, 0, r.stderr)
            return r.stdout
        seen = {i['name']: i['pid'] for i in json.loads(inside(ALLOT, 'ps', '-o', 'json'))['items']}
        self.assertEqual(seen, {'box': g.pid, 'outside': None})
        self.assertIn(' – ', inside(ALLOT, 'ps') + ' ')
        self.assertIn('outside of this PID namespace', inside('sh', '-c', f'{ALLOT} doctor; true'))
        shown = json.loads(inside(ALLOT, 'show', str(self.row(g)['job']), '-o', 'json'))
        self.assertNotIn(str(pid), re.findall(r'"(?:keeper_)?pid": (\d+)', json.dumps(shown)))
        self.assertEqual({i['name']: i['pid'] for i in self.ps()}, {'box': pid, 'outside': outside.pid})
        outside.end()
        self.over(g)

    def test_b13_nvml_inside_lists_what_is_inside(self):
        """a shell in the namespace, so that the list is asked for by a process of the job"""
        script = '"$1" <&3 & sleep 1; exec python3 -c "$2" >&2'
        p = subprocess.Popen([ALLOT, 'run', '--vram', '1G:2G', '--', *PIDS, 'sh', '-c', f'exec 3<&0; {script}', 'sh',
                              Gpu.PROGRAM, LIST], env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        self.children.append(p)
        p.stdin.write('init\npid\n')
        p.stdin.flush()
        self.assertEqual(p.stdout.readline(), 'ok\n')
        pid = p.stdout.readline().split()[1]
        listed = p.stderr.readline().split()
        self.assertEqual(listed, [pid])
        p.stdin.close()
        p.wait(10)

    def keeper_inside(self, *more):
        return Gpu(self, bare=True, before=[*PIDS, ALLOT, 'run', '-J', 'box', '--vram', '1G:2G', '--', *more]).start()

    def test_the_keeper_inside_too(self):
        """allot run in the container, allotd outside: its socket is there by a mount"""
        g = self.keeper_inside()
        row = self.held_to_its_limit(g)
        self.assertEqual(row['name'], 'box')
        self.over(g)

    def test_f8_f9_two_jobs_in_one_container(self):
        g = self.keeper_inside()
        enter = ['nsenter', '--target', str(self.row(g)['pid']), '--pid', '--mount']
        other = Gpu(self, bare=True, before=[*enter, ALLOT, 'run', '-J', 'other', '--vram', '768M', '--']).start()
        self.assertEqual((g.info()[1], other.info()[1]), (2 * GIB, 768 * MIB))
        self.assertEqual(other('alloc 1G'), 'error 2')
        self.assertTrue(g('alloc 1G').startswith('ok'))
        self.assertEqual({i['name']: i['pid'] for i in self.ps()}.keys(), {'box', 'other'})
        other.end()
        self.over(g)

    def test_the_keeper_inside_cancelled_from_outside(self):
        g = self.keeper_inside()
        row = self.row(g)
        self.assertEqual(self.cli('cancel', row['job']).returncode, 0)
        self.assertTrue(until(lambda: not alive(row['pid']), 15))
        self.assertTrue(until(lambda: not self.ps(), 5), self.ps())

    def test_the_keeper_inside_and_allotd_starts_again(self):
        g = self.keeper_inside()
        held = self.settled()
        self.kill_daemon()
        self.start_daemon()
        self.assertTrue(until(lambda: self.held() == held, 5))
        self.assertEqual(g('alloc 4G'), 'error 2')
        self.assertTrue(g('alloc 256M').startswith('ok'))
        self.over(g)

    def test_the_keeper_inside_killed(self):
        """its program goes on, charged and limited; a container's processes are left in their cgroup"""
        g = self.keeper_inside()
        pid = self.row(g)['pid']
        keeper = int(re.search(r'^PPid:\s(\d+)$', pathlib.Path(f'/proc/{pid}/status').read_text(), re.M).group(1))
        os.kill(keeper, signal.SIGKILL)
        # unshare takes the namespace along when its first process has ended
        self.assertTrue(until(lambda: not self.ps(), 5), self.ps())

    def test_who_forks_away_in_a_namespace_stays(self):
        """as conmon does it: a double fork, a session of its own, then the namespaces"""
        g = self.job('sh', '-c', 'exec 3<&0; (setsid "$@" <&3 & ); exec sleep 60 <&3', 'sh', *PIDS)
        g.start()
        row = self.held_to_its_limit(g)
        self.assertEqual(self.cli('cancel', row['job']).returncode, 0)
        self.assertTrue(until(lambda: not alive(row['pid']) and not self.ps(), 15), self.ps())

    def test_f3_a_pid_namespace_in_another(self):
        g = self.job(*PIDS, *PIDS).start()
        self.held_to_its_limit(g)
        self.over(g)

    @unittest.skipUnless(HAS_USERS, 'user namespaces are switched off here')
    def test_a_user_namespace(self):
        g = self.job('unshare', '--user', '--map-root-user', *PIDS[1:]).start()
        self.held_to_its_limit(g)
        self.over(g)


@unittest.skipUnless(HAS_NAMESPACES, 'a mount namespace needs root')
class Preload(Base):
    """the libraries come by /etc/ld.so.preload alone, and nothing by the environment"""

    def setUp(self):
        super().setUp()
        self.etc = self.dir / 'etc'
        self.etc.mkdir()
        for name in ('ld.so.cache', 'passwd', 'group', 'nsswitch.conf'):
            if os.path.exists(f'/etc/{name}'):
                shutil.copy(f'/etc/{name}', self.etc / name)
        (self.etc / 'ld.so.preload').write_text(PRELOAD)
        self.place, self.empty = self.dir / 'run', self.dir / 'empty'
        self.place.mkdir(exist_ok=True)
        self.empty.mkdir()

    def daemon_args(self):
        args = super().daemon_args()
        args[args.index('--socket') + 1] = self.socket = str(self.dir / 'run/allotd.sock')
        self.env['ALLOT_SOCKET'] = self.socket
        (self.dir / 'run').mkdir(exist_ok=True)
        return args

    def driver(self):
        return next(self.dir.rglob('profile.conf')).parent

    def box(self, *cmd, socket=True):
        return [*PIDS, 'sh', '-c', MOUNTS, 'sh', str(self.etc), str(self.place if socket else self.empty), '' if socket else self.socket, 'env', '-i', *cmd]

    def test_f2_held_without_a_word_in_the_environment(self):
        g = self.job(*self.box()).start()
        self.held_to_its_limit(g)
        self.over(g)

    def test_f2_who_is_in_no_job_is_refused(self):
        """whoever mounts that file wants a fence: what no job stands for does not compute"""
        g = Gpu(self, bare=True, before=self.box(f'LD_LIBRARY_PATH={self.driver()}'))
        self.assertRegex(g('init'), '^error')
        g.p.stdin.close()
        self.assertIn("belongs to no job: start it with 'allot run'", g.p.stderr.read())

    def test_without_a_daemon_in_reach_nothing_runs_unfenced(self):
        for before in (['allot run'], []):
            with self.subTest(before):
                cmd = self.box(f'LD_LIBRARY_PATH={self.driver()}', 'XDG_RUNTIME_DIR=/nowhere', socket=False)
                start = time.monotonic()
                g = self.job(*cmd) if before else Gpu(self, bare=True, before=cmd)
                self.assertRegex(g('init'), '^error')
                self.assertLess(time.monotonic() - start, 15)
                g.p.stdin.close()
                self.assertIn('allotd', g.p.stderr.read())
                g.p.wait(10)

    def test_other_programs_do_not_notice(self):
        r = subprocess.run(self.box('PATH=/usr/bin:/bin', 'sh', '-c', 'ls / | head -1; echo $((1 + 1))', socket=False), capture_output=True,
                           text=True, timeout=20, check=False)
        self.assertEqual((r.returncode, r.stderr, r.stdout.splitlines()[-1]), (0, '', '2'))


def podman_works():
    return HAS_NAMESPACES and shutil.which('podman') and shutil.which('crun')


@unittest.skipUnless(podman_works(), 'needs root, podman and crun')
class Podman(Preload):
    def podman(self, *more):
        root = self.dir / 'rootfs'
        for name in ('usr', 'lib', 'lib64', 'bin', 'etc', 'proc', 'sys', 'dev', 'run/allot', 'tmp'):
            (root / name).mkdir(parents=True, exist_ok=True)
        shutil.copy('/etc/ld.so.cache', root / 'etc')
        (root / 'etc/passwd').write_text('root:x:0:0::/:/bin/sh\n')
        (root / 'etc/ld.so.preload').touch()
        point, store = self.dir / 'point', self.dir / 'store'
        point.mkdir(exist_ok=True)
        mounts = [f'{p}:{p}:ro' for p in ('/usr', '/lib', '/lib64', '/bin', BUILD, self.dir / 'run')]
        mounts += [f"{self.etc / 'ld.so.preload'}:/etc/ld.so.preload:ro", f'{self.place}:/run/allot:ro']
        if self.driver().parent != self.dir / 'run':
            mounts.append(f'{self.driver()}:{self.driver()}')
        # the simulated card keeps its state beside the socket
        mounts.append(f'{self.driver()}:{self.driver()}:rw')
        mounts = list(dict.fromkeys(mounts))
        return ['unshare', '--mount', 'sh', '-c', UNIFIED, 'sh', str(point), 'podman', '--root', str(store), '--runroot',
                str(self.dir / 'runroot'), '--storage-driver=vfs', '--cgroup-manager=cgroupfs', 'run', '--rm', '-i',
                '--network=host', '--cgroups=disabled', '--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=1000:1000',
                *[w for m in mounts for w in ('-v', m)], *more, '--rootfs', str(root)]

    refusal = None  # of podman: '' when it runs here

    def can_run(self):
        if Podman.refusal is None:
            r = subprocess.run([*self.podman(), '/bin/true'], capture_output=True, text=True, timeout=60, check=False)
            Podman.refusal = r.stderr.strip()[-200:] or 'it failed' if r.returncode else ''
        if Podman.refusal:
            self.skipTest('podman cannot run here: ' + Podman.refusal)

    def test_allot_run_podman_run(self):
        self.can_run()
        g = self.job(*self.podman()).start()
        self.assertEqual(g.pid, 1)
        self.held_to_its_limit(g)
        self.over(g)

    def test_podman_run_allot_run(self):
        self.can_run()
        g = Gpu(self, bare=True, before=[*self.podman('-e', f'ALLOT_SOCKET={self.socket}'), ALLOT, 'run', '-J', 'box',
                                         '--vram', '1G:2G', '--']).start()
        self.held_to_its_limit(g)
        self.over(g)

    def test_e16_cancel_ends_what_is_in_the_container(self):
        self.can_run()
        g = self.job(*self.podman()).start()
        row = self.row(g)
        self.assertEqual(self.cli('cancel', row['job']).returncode, 0)
        self.assertTrue(until(lambda: not alive(row['pid']) and not self.ps(), 20), self.ps())

    # not once more what stands above
    for _name in [n for n in dir(Preload) if n.startswith('test_')]:
        locals()[_name] = None
    del _name


if __name__ == '__main__':
    sys.exit(tap.main())
