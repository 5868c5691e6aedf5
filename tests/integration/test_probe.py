#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first context on a GPU whose cost nobody knows: allotd measures one of its own before, and where
that fails, everything is as without it."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import tap
import world
from world import BUILD, GIB, MIB, Gpu, until

COST = 600 * MIB  # of a context, at most, on every card that we simulate


class Probe(world.World):
    """a build folder of our own, so that allot-probe can be another program"""
    PROBE = None  # its text; '' = there is none

    def setUp(self):
        self.tree = pathlib.Path(self.enterContext(Tree(self.PROBE))) / 'build'
        super().setUp()

    def daemon_args(self):
        args = super().daemon_args()
        return [str(self.tree / 'bin/allotd'), *args[1:]]

    def folder(self):
        return next(p.parent for p in self.dir.rglob('profile.conf'))

    def watched(self):
        """an outsider that reads NVML all the time"""
        watch = subprocess.Popen([sys.executable, os.path.join(os.path.dirname(__file__), 'watch.py'), str(self.folder())],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.children.append(watch)
        self.assertEqual(watch.stdout.readline(), 'watching\n')
        return watch

    def most(self, watch):
        """{parent: the most of its children}"""
        watch.stdin.close()
        lines = [line.split() for line in watch.stdout.read().splitlines()]
        watch.wait()
        self.assertGreater(int(lines.pop()[1]), 3)
        return {int(parent): int(used) for parent, _, used in lines}

    def first(self, limit):
        """the very first program: what cuInit and its context answer, and the line on stderr"""
        gpu = Gpu(self, '--vram', f'{limit // MIB}M')
        begun = time.monotonic()
        said = gpu('init')
        took = time.monotonic() - begun
        return said, gpu.end(), took, gpu

    def quiet(self):
        """no probe is left, and nothing is taken for unmanaged or kept back"""
        return self.status()[0]['vram_unmanaged_bytes'] == 0 and not self.probes() and self.held() == 0

    def probes(self):
        """allot-probe, or what stands for it"""
        found = []
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open(f'/proc/{pid}/stat', encoding='latin-1') as f:
                    state, parent = f.read().rsplit(')', 1)[1].split()[:2]
                name = pathlib.Path(f'/proc/{pid}/comm').read_text().strip()
                if int(parent) == self.daemon.pid and state != 'Z' and name in ('allot-probe', 'sh', 'sleep', 'python3'):
                    found.append(int(pid))
            except OSError:
                pass
        return found


class Tree:
    def __init__(self, probe):
        self.probe = probe

    def __enter__(self):
        self.path = os.path.realpath(subprocess.check_output(['mktemp', '-d', '/tmp/allot-test.XXXXXX'], text=True).strip())
        (pathlib.Path(self.path) / 'sim').symlink_to(world.ROOT / 'sim')  # the profiles
        tree = pathlib.Path(self.path) / 'build'
        (tree / 'bin').mkdir(parents=True)
        for name in os.listdir(BUILD / 'bin'):
            shutil.copy2(BUILD / 'bin' / name, tree / 'bin' / name)
        for name in ('lib', 'sim', 'demo'):
            if (BUILD / name).exists():
                (tree / name).symlink_to(BUILD / name)
        probe = tree / 'bin/allot-probe'
        if self.probe is not None:
            probe.unlink()
        if self.probe:
            probe.write_text(self.probe)
            probe.chmod(0o755)
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


class Measured(Probe):
    def test_a24_the_first_program_is_never_over_a_limit_below_a_context(self):
        watch = self.watched()
        said, err, _, gpu = self.first(300 * MIB)
        self.assertEqual(said, 'error 2')
        self.assertIn('a context costs', err)
        most = self.most(watch)
        self.assertEqual(most.get(gpu.p.pid, 0), 0, most)  # it was never made
        self.assertTrue(until(self.quiet, 5), self.status())

    def test_a24_a_first_program_with_room_starts(self):
        said, err, took, _ = self.first(COST)
        self.assertEqual(said, 'ok', err)
        self.assertLess(took, 5)
        self.assertTrue(until(self.quiet, 5), self.status())

    def test_a5_measuring_takes_nothing_of_what_is_promised(self):
        total = self.status()[0]['vram_allocatable_bytes']
        jobs = [self.start_job('--vram', f'{total // 2 // MIB}M', '--immediate', '--', 'sleep', '3') for _ in range(2)]
        for job in jobs:
            self.assertEqual(job.wait(20), 0, job.stderr.read())

    def test_it_is_measured_once(self):
        self.assertEqual(self.first(COST)[0], 'ok')
        self.assertTrue(until(self.quiet, 5))
        self.kill_daemon()
        self.start_daemon()  # from its state
        job = self.start_job('--vram', '1G', '--', 'sleep', '1')
        for _ in range(20):
            self.assertEqual(self.probes(), [])
            time.sleep(0.01)
        self.assertEqual(job.wait(20), 0)

    def test_a_gpu_that_nobody_uses_is_not_touched(self):
        time.sleep(0.3)
        self.assertEqual(self.status()[0]['vram_used_bytes'], 0)
        self.assertEqual(self.probes(), [])


class Slow(Probe):
    """the driver takes its time to make a context"""

    def setUp(self):
        super().setUp()
        (self.folder() / 'faults').write_text('delay=400ms cuDevicePrimaryCtxRetain\n')

    def test_e3_allotd_is_killed_while_it_measures(self):
        for _ in range(3):
            job = self.start_job('--vram', '300M', '--', 'sleep', '0.5')
            self.assertTrue(until(self.probes, 5, 0.005))
            self.kill_daemon()
            self.start_daemon()
            job.wait(20)
        said, err, _, _ = self.first(300 * MIB)
        self.assertEqual(said, 'error 2')
        self.assertIn('a context costs', err)
        self.assertTrue(until(self.quiet, 5), self.status())

    def test_e1_the_probe_is_killed(self):
        self.start_job('--vram', '300M', '--', 'sleep', '1')
        self.assertTrue(until(self.probes, 5, 0.005))
        for pid in self.probes():
            os.kill(pid, signal.SIGKILL)
        said, err, took, _ = self.first(300 * MIB)
        self.assertEqual(said, 'error 2')  # made by the estimate, measured, undone
        self.assertIn('costs', err)
        self.assertLess(took, 5)
        self.assertTrue(until(self.quiet, 5), self.status())


class Dies(Probe):
    PROBE = '#!/bin/sh\nexit 1\n'

    def test_everything_is_as_without_it(self):
        said, err, took, _ = self.first(300 * MIB)
        self.assertEqual(said, 'error 2')
        self.assertIn('costs', err)
        self.assertLess(took, 5)
        self.assertEqual(self.first(COST)[0], 'ok')
        self.assertTrue(until(self.quiet, 5), self.status())


class Missing(Dies):
    PROBE = ''


class Lies(Dies):
    """says that it is there, and holds nothing"""
    PROBE = ('#!/usr/bin/env python3\nimport socket, struct, time\n'
             's = socket.socket(fileno=3)\ns.send(struct.pack("<II512s", 1, 0, b""))\ns.recv(1)\n')


class Babbles(Dies):
    PROBE = '#!/bin/sh\necho nonsense >&3\nexec sleep 20\n'


class Lingers(Probe):
    """measured, and in no hurry to go"""
    PROBE = """#!/usr/bin/env python3
import ctypes, os, socket, struct, sys, time
os.environ['CUDA_VISIBLE_DEVICES'] = sys.argv[-1]
cuda = ctypes.CDLL(sys.argv[2] + '/libcuda.so.1')
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), 0) == 0
socket.socket(fileno=3).send(struct.pack('<II512s', 1, 0, b''))
time.sleep(2)
"""

    def test_e18_what_the_probe_holds_is_nobodys_and_is_not_given_away(self):
        self.start_job('--vram', '1G', '--', 'sleep', '1')
        self.assertTrue(until(lambda: self.status()[0]['vram_used_bytes'], 5))
        for _ in range(20):
            gpu = self.status()[0]
            self.assertEqual(gpu['vram_unmanaged_bytes'], 0)
            self.assertFalse([i for i in self.ps() if i['state'] == 'unmanaged'])
            time.sleep(0.05)
        self.assertGreater(gpu['vram_used_bytes'], 0)
        said, err, _, _ = self.first(COST)  # the figure is there already
        self.assertEqual(said, 'ok', err)
        self.assertTrue(until(self.quiet, 5), self.status())


class Hangs(Probe):
    PROBE = '#!/bin/sh\nexec sleep 60\n'

    def test_e2_nobody_waits_for_it_for_long(self):
        patient = self.start_job('--vram', '300M', '--', Gpu.PROGRAM)  # reads end of file
        self.assertTrue(until(self.probes, 5))
        # with room for any context nobody waits at all
        said, err, took, _ = self.first(8 * GIB)
        self.assertEqual(said, 'ok', err)
        self.assertLess(took, 3)
        patient.wait(20)
        said, err, took, _ = self.first(300 * MIB)  # by now its cost is known from that one
        self.assertEqual(said, 'error 2')
        self.assertLess(took, 15)
        self.assertTrue(until(lambda: not self.probes(), 15))


class NoCuda(Probe):
    """a driver's folder with NVML, and a libcuda.so.1 that is none"""

    def daemon_args(self):
        folder = self.dir / 'driver'
        if not folder.exists():
            folder.mkdir()
            (folder / 'libnvidia-ml.so.1').symlink_to(BUILD / 'sim/libnvidia-ml.so.1')
            (folder / 'libcuda.so.1').write_text('no library')
            (folder / 'profile.conf').write_text(world.own_profile('h200'))
        return [str(self.tree / 'bin/allotd'), '--foreground', '--socket', self.socket, '--state', self.state,
                '--driver', str(folder)]

    def test_it_is_told_and_nothing_else_happens(self):
        self.assertEqual(self.run_job('--vram', '1G', '--', 'true').returncode, 0)
        self.assertTrue(until(lambda: not self.probes(), 5))
        self.assertEqual(self.run_job('--vram', '1G', '--', 'true').returncode, 0)


if __name__ == '__main__':
    tap.main()
