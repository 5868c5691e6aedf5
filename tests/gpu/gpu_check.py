#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real programs on a real GPU, bare and under allot: the same results, the right totals, and the
driver's own accounting never over the limit.

Usage: gpu_check.py BUILD [CASE...]      `multi` is all that needs two GPUs; ends with a table and "N passed, N failed"

Only our own processes are touched and no device-wide setting.  Memory is ordinary memory.
"""
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
GIB, MIB = 1 << 30, 1 << 20
SLACK = 128 * MIB  # what the driver may grow by itself beyond a limit
RESERVED_OK = 16 * MIB


class Nvml:
    """the real library by ctypes, outside every job: the referee"""

    class Proc(ctypes.Structure):
        _fields_ = [('pid', ctypes.c_uint), ('used', ctypes.c_ulonglong), ('gi', ctypes.c_uint), ('ci', ctypes.c_uint)]

    def __init__(self):
        self.lib = ctypes.CDLL('libnvidia-ml.so.1')
        assert self.lib.nvmlInit_v2() == 0
        n = ctypes.c_uint()
        assert self.lib.nvmlDeviceGetCount_v2(ctypes.byref(n)) == 0
        self.handles = [ctypes.c_void_p() for _ in range(n.value)]
        for i, handle in enumerate(self.handles):
            assert self.lib.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(handle)) == 0
        self.array = (self.Proc * 256)()

    def processes(self):
        """{pid: bytes} of each card"""
        return [self.processes_of(handle) for handle in self.handles]

    def processes_of(self, handle):
        n = ctypes.c_uint(256)
        if self.lib.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(n), self.array) != 0:
            return {}
        return {self.array[i].pid: self.array[i].used for i in range(n.value)}

    def driver(self):
        buf = ctypes.create_string_buffer(80)
        self.lib.nvmlSystemGetDriverVersion(buf, 80)
        return buf.value.decode()

    def used(self):
        class Memory(ctypes.Structure):
            _fields_ = [('total', ctypes.c_ulonglong), ('free', ctypes.c_ulonglong), ('used', ctypes.c_ulonglong)]
        total, m = 0, Memory()
        for handle in self.handles:
            self.lib.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(m))
            total += m.used
        return total


def parent(pid):
    try:
        with open(f'/proc/{pid}/stat', encoding='latin-1') as f:
            return int(f.read().rsplit(')', 1)[1].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


class Referee(threading.Thread):
    """samples the real NVML all the time; keeps the largest sum over the tree of one process, of any card"""

    def __init__(self, nvml):
        super().__init__(daemon=True)
        self.nvml, self.root, self.peak, self.samples, self.seen = nvml, 0, 0, 0, {}

    def watch(self, root):
        self.peak, self.samples, self.seen, self.root = 0, 0, {}, root

    def inside(self, pid):
        if pid not in self.seen:
            up, root = pid, self.root
            while up > 1 and up != root:
                up = parent(up)
            self.seen[pid] = up == root
        return self.seen[pid]

    def run(self):
        while True:
            if self.root:
                for card in self.nvml.processes():
                    used = sum(v for pid, v in card.items() if v != 2**64 - 1 and self.inside(pid))
                    self.peak = max(self.peak, used)
                self.samples += 1
            time.sleep(0.001)


def run(cmd, env=None, timeout=180, referee=None):
    start = time.time()
    p = subprocess.Popen(cmd, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, stdin=subprocess.DEVNULL)
    if referee:
        referee.watch(p.pid)
    try:
        out, err = p.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
        err += '\ntook too long'
    if referee:
        referee.root = 0
    return p.returncode, out, err, time.time() - start


def lines(out, word):
    return [line for line in out.splitlines() if line.startswith(word)]


def cases(build, work):
    py = [sys.executable]
    prog = HERE / 'programs'
    conf = 'PYTORCH_CUDA_ALLOC_CONF'
    standin = str(build / 'demo/standin')
    out = [
        # name, command, environment, limit in GiB
        ('driver-api', [standin, 'embedding', '1', '80'], {}, 8),
        ('env-i', ['env', '-i', f'PATH={os.environ.get("PATH", "")}',
                   f'LD_LIBRARY_PATH={os.environ.get("LD_LIBRARY_PATH", "")}', standin, 'embedding', '1', '80'], {}, 8),
        ('torch-eager', py + [prog / 'torch_train.py', '4'], {}, 12),
        ('torch-expandable', py + [prog / 'torch_train.py', '4'], {conf: 'expandable_segments:True'}, 12),
        ('torch-async', py + [prog / 'torch_train.py', '4'], {conf: 'backend:cudaMallocAsync'}, 12),
        ('torch-graphs', py + [prog / 'torch_graph.py'], {}, 6),
        ('torch-profiler', py + [prog / 'torch_profile.py'], {}, 6),
        ('torch-oom', py + [prog / 'torch_oom.py'], {}, 5),
        ('torch-oom-expandable', py + [prog / 'torch_oom.py'], {conf: 'expandable_segments:True'}, 5),
        ('torch-oom-async', py + [prog / 'torch_oom.py'], {conf: 'backend:cudaMallocAsync'}, 5),
        ('nvml-pynvml', py + [prog / 'nvml_view.py'], {}, 6),
        ('jax', py + [prog / 'jax_default.py'], {}, 16),
        ('cupy', py + [prog / 'cupy_pool.py'], {}, 6),
        ('triton', py + [prog / 'triton_add.py'], {}, 6),
    ]
    nvcc = shutil.which('nvcc') or '/usr/local/cuda/bin/nvcc'
    static = work / 'runtime_static'
    if subprocess.run([nvcc, '-o', static, prog / 'runtime_static.cu'], check=False).returncode == 0:
        out.append(('nvcc-static', [static], {}, 4))
        sanitizer = shutil.which('compute-sanitizer') or '/usr/local/cuda/bin/compute-sanitizer'
        if os.access(sanitizer, os.X_OK):
            out.append(('sanitizer', [sanitizer, static], {}, 4))
    return out


def judge(name, limit, bare, fenced, peak):
    """the faults of one case, in words"""
    faults = []
    rc0, out0, err0, _ = bare
    rc1, out1, err1, _ = fenced
    result0, result1 = lines(out0, 'result:'), lines(out1, 'result:')
    if name.startswith(('driver-api', 'env-i')):
        result0 = [w.split(',')[1] for w in lines(out0, 'embedding:') if 'results' in w]
        result1 = [w.split(',')[1] for w in lines(out1, 'embedding:') if 'results' in w]
        if f'sees a card of {limit}.0 GiB' not in out1:
            faults.append('sees another total: ' + ' '.join(lines(out1, 'embedding: sees'))[:80])
    if rc0 != 0 and not name.startswith('torch-oom'):
        faults.append(f'bare run ended with {rc0}: {err0[-200:]}')
    if rc1 != 0:
        faults.append(f'ended with {rc1}: {(out1 + err1)[-300:]}')
    if name.startswith('torch-oom'):
        if not lines(out1, 'oom:') or 'out of memory: asked' not in err1:
            faults.append('no out of memory, or nobody said why: ' + (out1 + err1)[-200:])
    elif not result1 or result0 != result1:
        faults.append(f'result differs: {result0} / {result1}')
    for line in lines(out1, 'total:'):
        if any(int(v) != limit * GIB for v in line.split()[1:]):
            faults.append('wrong total: ' + line)
    for line in lines(out1, 'limit:'):
        if not 0.70 * limit * GIB <= int(line.split()[1]) <= 0.76 * limit * GIB:
            faults.append('not 75 %: ' + line)
    if peak > limit * GIB + SLACK:
        faults.append(f'NVML saw {(peak - limit * GIB) / MIB:.0f} MiB over the limit')
    return faults


PAIR = ('-g', '0,1')  # the job's cards, where a case needs two


def pair_cases():
    """for two cards; form as in cases()"""
    prog = HERE / 'programs'
    two = {'CUDA_VISIBLE_DEVICES': '0,1', 'CUDA_DEVICE_ORDER': 'PCI_BUS_ID'}
    return [
        ('pair-torch', [sys.executable, prog / 'torch_pair.py'], two, 6),
        ('pair-torch-async', [sys.executable, prog / 'torch_pair.py'], {**two, 'PYTORCH_CUDA_ALLOC_CONF': 'backend:cudaMallocAsync'}, 6),
        ('pair-nccl', [sys.executable, prog / 'nccl_pair.py'], two, 6),
    ]


def hidden(allot):
    """nvidia-smi in a job of each card lists that card alone, as number 0; faults in words"""
    faults, real = [], run(['nvidia-smi', '-L'])[1].splitlines()
    for i, line in enumerate(real):
        seen = run([str(allot), 'run', '-g', str(i), '--vram', '1G', '--', 'nvidia-smi', '-L'])
        wanted = line.replace(f'GPU {i}:', 'GPU 0:', 1)
        if seen[1].splitlines() != [wanted]:
            faults.append(f'nvidia-smi -L on card {i}: {seen[1].strip()} {seen[2].strip()[-200:]}')
    return faults


def same_answers(build, work, allot):
    """the call sequences for two cards, bare and in a job of both: every line alike; faults in words.
    The bare transcripts are left in ALLOT_KEEP_TRANSCRIPTS, if that is set: they are a recording."""
    conform, folders = str(build / 'tests/conformance/conform'), [work / 'bare', work / 'job']
    faults = []
    for folder, before in zip(folders, ([], [str(allot), 'run', *PAIR, '--'])):
        done = run([*before, conform, '--pair', '--out', str(folder)])
        if done[0] != 0:
            faults.append(f'conform ended with {done[0]}: {(done[1] + done[2])[-300:]}')
    if not faults:
        diff = run([sys.executable, str(HERE.parent / 'conformance/compare.py'), '--lines', str(folders[0]), str(folders[1])])
        faults = diff[1].splitlines()[:40]
    keep = os.environ.get('ALLOT_KEEP_TRANSCRIPTS')
    if keep and folders[0].exists():
        shutil.copytree(folders[0], pathlib.Path(keep) / 'pair', dirs_exist_ok=True)
    return faults


def integration(build, names=(('test_limit.py', []), ('test_hooks.py', ['Hooks.']))):
    """the integration tests that do not care which card they run on; (passed, failed, words)"""
    env = {**os.environ, 'ALLOT_REAL_GPU': '1', 'ALLOT_BUILD': str(build)}
    env.pop('ALLOT_SOCKET', None)
    passed, failed, said = 0, 0, []
    for name, only in names:
        start = time.time()
        p = subprocess.run([sys.executable, HERE.parent / 'integration' / name, *only], env=env, capture_output=True,
                           text=True, check=False, timeout=280, stdin=subprocess.DEVNULL)
        good = [w for w in p.stdout.splitlines() if w.startswith('ok') and '# SKIP' not in w]
        bad = [w for w in p.stdout.splitlines() if w.startswith('not ok')]
        passed, failed = passed + len(good), failed + len(bad) + (not good)
        said.append(f'{name:22} {"FAIL" if bad or not good else "ok":5} {len(good)} cases on the card ({time.time() - start:.0f} s)')
        said += ['    ' + w[:200] for w in p.stdout.splitlines() if w.startswith(('not ok', '#'))][:40]
    return passed, failed, said


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    wanted = sys.argv[2:]
    work = pathlib.Path(tempfile.mkdtemp(prefix='allot-gpu.'))
    socket = work / 'allotd.sock'
    allot = build / 'bin/allot'
    os.environ['ALLOT_SOCKET'] = str(socket)
    nvml = Nvml()
    before = nvml.used()
    log = open(work / 'allotd.log', 'w')
    daemon = subprocess.Popen([build / 'bin/allotd', '--foreground', '--socket', socket, '--state', work / 'state'],
                              stderr=log, stdin=subprocess.DEVNULL)
    for _ in range(100):
        if subprocess.run([allot, 'status'], capture_output=True, check=False).returncode == 0:
            break
        time.sleep(0.1)
    referee = Referee(nvml)
    referee.start()
    rows, passed, failed = [], 0, 0
    has_pair = len(nvml.handles) > 1
    for name, cmd, env, limit in cases(build, work) + (pair_cases() if has_pair else []):
        if wanted and name not in wanted and not (name.startswith('pair-') and 'multi' in wanted):
            continue
        cmd = [str(c) for c in cmd]
        bare = run(cmd, env)
        fenced = run([str(allot), 'run', '-J', name, *(PAIR if name.startswith('pair-') else ()), '--vram', f'{limit}G', '--', *cmd], env, referee=referee)
        peak, samples = referee.peak, referee.samples
        faults = judge(name, limit, bare, fenced, peak)
        passed, failed = passed + (not faults), failed + bool(faults)
        rows.append(f'{name:22} {"ok" if not faults else "FAIL":5} limit {limit:3} GiB  NVML peak {peak / MIB:8.0f} MiB '
                    f'({samples} samples)  bare {bare[3]:5.1f} s  allot {fenced[3]:5.1f} s')
        rows += ['    ' + f for f in faults]
        print(rows[-1 - len(faults)], flush=True)
    smi = run([str(allot), 'run', '--vram', '3G', '--', 'nvidia-smi', '--query-gpu=memory.total,memory.used',
               '--format=csv,noheader'])
    ok = '3072 MiB' in smi[1]
    passed, failed = passed + ok, failed + (not ok)
    rows.append(f'{"nvidia-smi":22} {"ok" if ok else "FAIL":5} {smi[1].strip()} {smi[2].strip()[-200:]}')
    if has_pair and (not wanted or 'multi' in wanted):
        for name, faults in (('pair-hidden', hidden(allot)), ('pair-conform', same_answers(build, work, allot))):
            passed, failed = passed + (not faults), failed + bool(faults)
            rows += [f'{name:22} {"ok" if not faults else "FAIL"}', *('    ' + f for f in faults)]
    time.sleep(1.5)
    status = subprocess.run([allot, 'status'], capture_output=True, text=True, check=False).stdout
    daemon.terminate()
    try:
        daemon.wait(5)
    except subprocess.TimeoutExpired:
        daemon.kill()
    if not wanted or 'integration' in wanted:
        good, bad, said = integration(build)
        passed, failed = passed + good, failed + bad
        rows += said
    if has_pair and (not wanted or 'multi' in wanted):
        good, bad, said = integration(build, (('test_gpus.py', []),))
        passed, failed = passed + good, failed + bad
        rows += said
    elif not has_pair:
        rows.append(f'{"multi":22} skip  needs two GPUs, this machine has one: pair-torch, pair-nccl, pair-hidden, pair-conform, test_gpus.py')
    time.sleep(1)
    after = nvml.used()
    ok = abs(after - before) < 64 * MIB
    passed, failed = passed + ok, failed + (not ok)
    print('\n' + time.strftime('%Y-%m-%d'), 'driver', nvml.driver())
    print('\n'.join(rows))
    print(f'{"left-behind":22} {"ok" if ok else "FAIL":5} {(after - before) / MIB:.0f} MiB')
    print(status)
    if failed:
        print((work / 'allotd.log').read_text()[-3000:])
    print(f'{passed} passed, {failed} failed')
    shutil.rmtree(work, ignore_errors=True)
    sys.exit(1 if failed else 0)


main()
