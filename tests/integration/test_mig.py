#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MIG instances are GPUs of the ledger: named, leased, limited and seen; of the simulator alone."""
import json
import os
import subprocess
import time

import tap
import world
from world import GIB, MIB, Gpu, until

CARD = 'GPU-5a1b7c20-5555-4aaa-8555-000000000050'
MIG3 = 'MIG-3a000001-5555-5aaa-8555-000000000051'
MIG2 = 'MIG-2a000001-5555-5aaa-8555-000000000052'
MIG1 = 'MIG-1a000001-5555-5aaa-8555-000000000053'
WHOLE = 'GPU-5a1b7c20-6666-4aaa-8666-000000000060'

# what nvidia-smi -L and pynvml's users do: cards, their instances, memory of each handle
LOOK = r'''
import ctypes, json, os
lib = ctypes.CDLL('libnvidia-ml.so.1')
class Memory(ctypes.Structure):
    _fields_ = [(n, ctypes.c_ulonglong) for n in ('total', 'free', 'used')]
class Proc(ctypes.Structure):
    _fields_ = [('pid', ctypes.c_uint), ('used', ctypes.c_ulonglong), ('gi', ctypes.c_uint), ('ci', ctypes.c_uint)]
assert lib.nvmlInit_v2() == 0
def uuid(d):
    b = ctypes.create_string_buffer(96)
    assert lib.nvmlDeviceGetUUID(d, b, 96) == 0
    return b.value.decode()
def about(d):
    m, n, p = Memory(), ctypes.c_uint(64), (Proc * 64)()
    r = lib.nvmlDeviceGetMemoryInfo(d, ctypes.byref(m))
    assert r == 0, (r, uuid(d))
    r = lib.nvmlDeviceGetComputeRunningProcesses_v3(d, ctypes.byref(n), p)
    return {'uuid': uuid(d), 'total': m.total, 'free': m.free, 'procs': [[q.pid, q.gi, q.ci] for q in p[:n.value]] if r == 0 else r}
out, n = [], ctypes.c_uint()
assert lib.nvmlDeviceGetCount_v2(ctypes.byref(n)) == 0
for i in range(n.value):
    d, k = ctypes.c_void_p(), ctypes.c_uint()
    assert lib.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(d)) == 0
    card = about(d)
    card['instances'] = []
    lib.nvmlDeviceGetMaxMigDeviceCount(d, ctypes.byref(k))
    for j in range(k.value):
        mig = ctypes.c_void_p()
        r = lib.nvmlDeviceGetMigDeviceHandleByIndex(d, j, ctypes.byref(mig))
        if r == 0:
            card['instances'].append({'index': j, **about(mig)})
        else:
            assert r == 6, r
    out.append(card)
other = ctypes.c_void_p()
print(json.dumps({'cards': out, 'other': lib.nvmlDeviceGetHandleByUUID(os.environ['OTHER'].encode(), ctypes.byref(other))}))
'''


class MigTest(world.World):
    PROFILE = 'mig'

    def faults(self, *words):
        (self.dir / 'sim/nvml-faults').write_text('\n'.join(words) + '\n')

    def gpu(self, uuid):
        return next((g for g in self.status() if g['gpu'] == uuid), None)

    def test_instances_are_listed_under_their_card(self):
        got = [(g['gpu'], g['gpu_index'], g['mig_index'], g['mig_profile'], g['mig_mode']) for g in self.status()]
        self.assertEqual(got, [(CARD, 0, None, None, True), (MIG3, 0, 0, '3g.71gb', False), (MIG2, 0, 1, '2g.35gb', False),
                               (MIG1, 0, 2, '1g.18gb', False), (WHOLE, 1, None, None, False)])
        self.assertEqual(self.gpu(CARD)['vram_grantable_bytes'], 0)
        self.assertEqual(self.gpu(MIG1)['vram_total_bytes'], 16 * GIB)
        self.assertIsNone(self.gpu(CARD)['utilization_pct'])
        table = self.cli('status').stdout
        self.assertIn('[0:2] MIG 1g.18gb', table)
        self.assertIn('in MIG mode', table)

    def test_names(self):
        show = ('--', 'sh', '-c', 'echo $CUDA_VISIBLE_DEVICES $ALLOT_GPU_UUIDS')
        for name, uuid in (('0:1', MIG2), ('0:13:0', MIG1), (MIG3, MIG3), ('MIG-1a', MIG1), ('mig-2A000001', MIG2),
                           ('1', WHOLE), ('1a0000015555', MIG1)):
            r = self.run_job('--gpu', name, *show)
            self.assertEqual((r.stdout, r.returncode), (f'{uuid} {uuid}\n', 0), (name, r.stderr))
        for name, said in (('0', 'MIG mode'), ('0:7', "no GPU '0:7'"), ('0:1:9', 'no GPU'), ('GPU-1a', 'no GPU'),
                           ('MIG-5a', 'no GPU'), ('1:0', 'no GPU'), ('MIG-GPU-5a1b/1/0', '470'), ('0:', 'no GPU')):
            r = self.run_job('--gpu', name, '--', 'true')
            self.assertEqual(r.returncode, 125, name)
            self.assertIn(said, r.stderr, name)

    def test_one_instance_a_program(self):
        for options in (('--gpus', 2), ('--gpus', 2, '--gpu', '0:0,0:1')):
            r = self.run_job(*options, '--', 'true')
            self.assertEqual(r.returncode, 125, r.stdout)
            self.assertIn('only one MIG instance', r.stderr)

    def test_the_roomiest_is_picked(self):
        r = self.run_job('--vram', '1G', '--', 'sh', '-c', 'echo $CUDA_VISIBLE_DEVICES')
        self.assertEqual(r.stdout.strip(), WHOLE)
        r = self.run_job('--vram', '20G', '--gpus', 1, '--gpu', '0:1,0:2', '--', 'sh', '-c', 'echo $CUDA_VISIBLE_DEVICES')
        self.assertEqual(r.stdout.strip(), MIG2)  # the other is too small
        r = self.run_job('--vram', '40G', '--gpu', '0:1', '--', 'true')
        self.assertIn('can ever give', r.stderr)

    def test_limit_and_view(self):
        g = Gpu(self, '--gpu', '0:1', '--vram', '4G').start()
        free, total = g.info()
        self.assertEqual(total, 4 * GIB)
        self.assertLess(free, 4 * GIB)
        self.assertTrue(g('alloc 2G').startswith('ok'))
        self.assertEqual(g('alloc 3G'), 'error 2')
        row = self.ps('gpu_shell')[0]
        self.assertEqual((row['gpu'], row['gpu_index'], row['mig_index']), (MIG2, 0, 1))
        self.assertIn(' 0:1 ', self.cli('ps').stdout)
        self.assertEqual(self.gpu(MIG3)['vram_held_bytes'], 0)
        self.assertIn('limit on GPU 0:1', g.end())

    def test_without_a_limit_the_instance_is_the_card(self):
        g = Gpu(self, '--gpu', '0:2').start()
        self.assertLessEqual(g.info()[1], 16 * GIB)
        self.assertGreater(g.info()[1], 15 * GIB)
        self.assertEqual(g('alloc 17G'), 'error 2')
        g.end()

    def test_full_instance_makes_wait(self):
        a = Gpu(self, '--gpu', '0:2', '--vram', '12G').start()
        p = self.start_job('--gpu', '0:2', '--vram', '8G', '--', 'true')
        self.assertTrue(until(lambda: self.gpu(MIG1)['waiting'] == 1))
        self.assertIn('GPU 0:2', next(i for i in self.ps('true'))['reason'])
        a.end()
        self.assertEqual(p.wait(20), 0)

    def test_cuda_shows_one_instance(self):
        """what the simulator does with CUDA_VISIBLE_DEVICES, as NVIDIA's guide has it"""
        ask = ("import ctypes\nlib = ctypes.CDLL('libcuda.so.1')\nn = ctypes.c_int(0)\nr = lib.cuInit(0)\n"
               "lib.cuDeviceGetCount(ctypes.byref(n))\nu = (ctypes.c_ubyte * 16)()\nseen = []\n"
               "for i in range(n.value):\n    lib.cuDeviceGetUuid_v2(u, i)\n    seen.append(bytes(u)[:2].hex() + bytes(u)[15:].hex())\n"
               "print(*seen)")
        base = {**self.env, 'LD_LIBRARY_PATH': str(world.BUILD / 'sim'), 'ALLOT_SIM_DIR': str(self.dir / 'sim'),
                'CUDA_DEVICE_ORDER': 'PCI_BUS_ID'}
        for visible, seen in ((None, '3a0051'), ('0', '3a0051'), ('1', '5a1b60'), ('1,0', '3a0051'), (MIG1, '1a0053'),
                              ('MIG-2a', '2a0052'), (f'{MIG1},{MIG2}', '1a0053'), (f'GPU-5a1b7c20-6,{MIG1}', '1a0053'), (f'1,{MIG1}', '5a1b60'),
                              (CARD, '3a0051'), ('MIG-', ''), ('MIG-5a', ''), ('MIG-5a1b7c20-6', '5a1b60'), ('', '')):
            env = dict(base) if visible is None else {**base, 'CUDA_VISIBLE_DEVICES': visible}
            r = subprocess.run(['python3', '-c', ask], env=env, capture_output=True, text=True, check=True)
            self.assertEqual(r.stdout.strip(), seen, visible)

    def test_only_the_lease_inside(self):
        for before in (('env', '-u', 'CUDA_VISIBLE_DEVICES'), ('env', 'CUDA_VISIBLE_DEVICES=0'), ('env', '-i'),
                       ('env', f'CUDA_VISIBLE_DEVICES={MIG1}')):
            g = Gpu(self, '--gpu', '0:2', before=before).start()
            total = g.info()[1]
            self.assertTrue(15 * GIB < total <= 16 * GIB, (before, total))
            g.end()
        for other in (MIG3, '1', WHOLE):
            g = Gpu(self, '--gpu', '0:2', before=('env', f'CUDA_VISIBLE_DEVICES={other}'))
            self.assertTrue(g('init').startswith('error'), other)
            g.end()

    def test_nvml_inside(self):
        r = self.cli('run', '--gpu', '0:1', '--vram', '4G', '--', 'python3', '-c', LOOK, OTHER=MIG3)
        self.assertEqual(r.returncode, 0, r.stderr)
        seen = json.loads(r.stdout)
        card = next(c for c in seen['cards'] if c['uuid'] == CARD)
        self.assertEqual([(i['index'], i['uuid']) for i in card['instances']], [(1, MIG2)])
        self.assertEqual(card['instances'][0]['total'], 4 * GIB)
        self.assertEqual(card['total'], 4 * GIB)  # never the neighbours'
        self.assertEqual(seen['other'], 6)

    def test_outside_nothing_is_hidden(self):
        env = {**self.env, 'LD_LIBRARY_PATH': str(world.BUILD / 'sim'), 'ALLOT_SIM_DIR': str(self.dir / 'sim'), 'OTHER': MIG3}
        out = json.loads(os.popen(' '.join(f"{k}='{v}'" for k, v in env.items() if k.startswith(('LD_', 'ALLOT_', 'OTHER'))) +
                                  f" python3 -c \"$(cat <<'X'\n{LOOK}\nX\n)\"").read())
        self.assertEqual(len(out['cards'][0]['instances']), 3)
        self.assertEqual(out['other'], 0)

    def test_figures_that_nvml_does_not_give(self):
        self.faults('no-instance-memory')
        g = Gpu(self, '--gpu', '0:2', '-J', 'lone').start()
        g('alloc 1G')
        shown = until(lambda: self.gpu(MIG1)['vram_used_bytes'] >= GIB and self.gpu(MIG1)['vram_used_bytes'])
        # alone on it: exact, the context with it, and nothing is left over as unmanaged
        self.assertTrue(until(lambda: self.ps('lone')[0]['vram_used_bytes'] == shown, 15), self.ps('lone'))
        self.assertEqual(self.gpu(MIG1)['vram_unmanaged_bytes'], 0)
        # two jobs: each by what it took and the estimate; what is more than that is nobody's
        h = Gpu(self, '--gpu', '0:2', '-J', 'second').start()
        h('alloc 2G')
        total = until(lambda: self.gpu(MIG1)['vram_used_bytes'] >= 3 * GIB and self.gpu(MIG1)['vram_used_bytes'])

        def adds_up():
            now = self.gpu(MIG1)
            # what is charged ahead and unused may hide as much
            return now['vram_held_bytes'] + now['vram_unmanaged_bytes'] >= total - 64 * MIB and now
        self.assertTrue(until(adds_up, 15), self.gpu(MIG1))
        self.assertLess(self.gpu(MIG1)['vram_held_bytes'], total + 400 * MIB)
        h.end()
        g.end()
        self.assertTrue(until(lambda: self.held() == 0, 15))

    def test_strangers_on_an_instance(self):
        env = {**self.env, 'LD_LIBRARY_PATH': str(world.BUILD / 'sim'), 'ALLOT_SIM_DIR': str(self.dir / 'sim'),
               'CUDA_VISIBLE_DEVICES': MIG1}
        g = Gpu(self, bare=True, env=env).start()
        g('alloc 1G')
        self.assertTrue(until(lambda: self.gpu(MIG1)['vram_unmanaged_bytes'] >= GIB, 15))
        rows = [r for r in self.ps() if r['state'] == 'unmanaged']
        self.assertEqual([(r['gpu'], r['pid']) for r in rows], [(MIG1, g.pid)])  # once, not with the card too
        self.faults('no-instance-memory')
        self.assertTrue(until(lambda: [r['vram_used_bytes'] for r in self.ps()] == [None], 15), self.ps())
        self.assertTrue(until(lambda: self.gpu(MIG1)['vram_unmanaged_bytes'] >= GIB, 15), 'seen by the total alone')
        g.end()

    def test_a_stranger_is_adopted(self):
        """also where NVML has no figure: alone on the instance it holds all that is there"""
        env = {**self.env, 'LD_LIBRARY_PATH': str(world.BUILD / 'sim'), 'ALLOT_SIM_DIR': str(self.dir / 'sim'),
               'CUDA_VISIBLE_DEVICES': MIG1}
        self.faults('no-instance-memory')
        g = Gpu(self, bare=True, env=env).start()
        g('alloc 10G')
        self.assertTrue(until(lambda: self.gpu(MIG1)['vram_unmanaged_bytes'] >= 10 * GIB, 15))
        r = self.cli('adopt', '--pid', g.pid, '--vram', '14G', '-J', 'old')
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn(MIG1, r.stdout)
        self.assertTrue(until(lambda: self.ps('old')[0]['vram_used_bytes'] >= 10 * GIB, 15), self.ps())
        self.assertEqual(self.gpu(MIG1)['vram_unmanaged_bytes'], 0)
        g.end()

    def test_instances_come_and_go(self):
        self.faults('no-instance=1')
        p = self.start_job('--gpu', '0:2', '-J', 'stays', '--', 'sleep', '60')
        self.assertTrue(until(lambda: self.ps('stays')))
        self.assertTrue(until(lambda: self.gpu(MIG2)['stale'], 15))
        self.assertIn('GONE', self.cli('status').stdout)
        self.assertIn('GPU 0:1 is gone', self.said())
        self.faults()
        self.assertTrue(until(lambda: not self.gpu(MIG2)['stale'], 15))
        self.assertEqual(self.run_job('--gpu', '0:1', '--vram', '1G', '--', 'true').returncode, 0)
        self.faults('no-instance=2')
        self.assertTrue(until(lambda: self.ps('stays')[0]['reason'] == 'GPU 0:2 is lost', 15), self.ps('stays'))
        self.assertIn('(stays) is on GPU 0:2, which is lost', self.said())
        p.terminate()

    def test_a_question_that_fails_divides_nothing(self):
        self.faults('error=nvmlDeviceGetMigMode:NVML_ERROR_UNKNOWN')
        time.sleep(2.5)
        self.assertTrue(self.gpu(CARD)['mig_mode'])
        self.assertEqual([g['stale'] for g in self.status()], [False] * 5)
        self.assertEqual(self.run_job('--gpu', '0', '--', 'true').returncode, 125)

    def test_new_instances_need_no_restart(self):
        self.stop_daemon()
        self.PROFILE = str(self.dir / 'one.conf')
        text = (world.ROOT / 'sim/profiles/mig.conf').read_text()
        first, rest = text.split('[instance]', 1)
        (self.dir / 'one.conf').write_text(first + '[device]' + text.rsplit('[device]', 1)[1])
        self.start_daemon()
        self.assertEqual(len(self.status()), 2)
        (self.dir / 'sim/profile.conf').write_text(first + '[instance]' + rest)
        os.system(f"ALLOT_SIM_DIR={self.dir}/sim LD_LIBRARY_PATH={world.BUILD}/sim python3 -c \""
                  "import ctypes; ctypes.CDLL('libnvidia-ml.so.1').nvmlInit_v2()\"")
        self.assertTrue(until(lambda: len(self.status()) == 5, 15), self.said())
        self.assertEqual([g['mig_index'] for g in self.status()], [None, 0, 1, 2, None])
        self.assertEqual(self.run_job('--gpu', 'MIG-1a', '--', 'true').returncode, 0)

    def test_restart_keeps_a_job_on_its_instance(self):
        g = Gpu(self, '--gpu', '0:2', '--vram', '2G', '-J', 'kept').start()
        g('alloc 1G')
        held = self.settled()
        self.kill_daemon()
        self.start_daemon()
        self.assertTrue(until(lambda: self.held() == held, 15), self.status())
        self.assertEqual(self.ps('kept')[0]['gpu'], MIG1)
        self.assertTrue(g('alloc 2G').startswith('error'))
        g.end()


if __name__ == '__main__':
    tap.main()
