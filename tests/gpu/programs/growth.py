#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the driver takes by itself, and at which call.  (bare, no allot)  After each step: MiB of the process.

Limits of a context (stack, heap, printf), and modules with a __device__ array of 1 GiB: as a cubin, as PTX,
and through the static runtime.  Needs nvcc.
"""
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
SOURCE = r'''
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
__device__ char big[1ull << 30];
extern "C" __global__ void touch(size_t at) { big[at] = 1; }
extern "C" __global__ void small(int *p) { if (p) *p = 1; }
extern "C" __global__ void deep(int *p, int n) { int a[1000]; for (int i = 0; i < n; i++) a[i % 1000] = n ^ i; if (p) *p = a[n % 1000]; }
extern "C" __global__ void heap(int **p) { int *q = (int *)malloc(64); if (p) *p = q; }
#ifdef MAIN
static void show(const char *s) { printf("ask %s\n", s); fflush(stdout); getchar(); }
int main() {
	void *p; cudaFree(0); show("runtime: a context");
	small<<<1, 1>>>(NULL); cudaDeviceSynchronize(); show("runtime: a kernel that does not use it");
	cudaGetSymbolAddress(&p, big); show("runtime: its address");
	touch<<<1, 1>>>(5); cudaDeviceSynchronize(); show("runtime: a kernel that uses it");
}
#endif
'''


class Proc(ctypes.Structure):
    _fields_ = [('pid', ctypes.c_uint), ('used', ctypes.c_ulonglong), ('gi', ctypes.c_uint), ('ci', ctypes.c_uint)]


nv, device = None, ctypes.c_void_p()


def figure(pid):
    global nv  # not before a fork: it does not live through one
    if not nv:
        nv = ctypes.CDLL('libnvidia-ml.so.1')
        assert nv.nvmlInit_v2() == 0 and nv.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
    n, array = ctypes.c_uint(256), (Proc * 256)()
    nv.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(n), array)
    return sum(array[i].used // MIB for i in range(n.value) if array[i].pid == pid)


def show(text, rc=0, pid=0):
    time.sleep(0.15)
    print(f'{text:52} {rc:4} {figure(pid or os.getpid()):8}', flush=True)


def in_child(steps):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        cu, ctx = ctypes.CDLL('libcuda.so.1'), ctypes.c_void_p()
        assert cu.cuInit(0) == 0 and cu.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0) == 0 and cu.cuCtxSetCurrent(ctx) == 0
        show('a context')
        try:
            steps(cu)
        except BaseException as e:
            print(e, flush=True)
        os._exit(0)
    os.waitpid(pid, 0)


def launch(cu, f, *args):
    array = (ctypes.c_void_p * len(args))(*[ctypes.cast(ctypes.pointer(a), ctypes.c_void_p) for a in args])
    return cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, None, array, None) or cu.cuCtxSynchronize()


def function(cu, module, name):
    f = ctypes.c_void_p()
    return cu.cuModuleGetFunction(ctypes.byref(f), module, name), f


def limits(cu, image):
    null, module = ctypes.c_void_p(), ctypes.c_void_p()
    for name, which, value in (('stack 16 KiB', 0, 16 << 10), ('printf 1 GiB', 1, 1 << 30), ('heap 2 GiB', 2, 2 << 30)):
        show('limit: ' + name, cu.cuCtxSetLimit(which, ctypes.c_size_t(value)))
    show('a module without the array', cu.cuModuleLoad(ctypes.byref(module), image))
    for name, args in ((b'small', (null,)), (b'deep', (null, ctypes.c_int(5))), (b'heap', (null,))):
        rc, f = function(cu, module, name)
        show(f'kernel {name.decode()} found', rc)
        show(f'kernel {name.decode()} launched', launch(cu, f, *args))
    show('limit: stack 1 KiB', cu.cuCtxSetLimit(0, ctypes.c_size_t(1 << 10)))
    show('limit: heap 8 MiB', cu.cuCtxSetLimit(2, ctypes.c_size_t(8 << 20)))
    show('limit: stack 512 KiB', cu.cuCtxSetLimit(0, ctypes.c_size_t(512 << 10)))
    rc, f = function(cu, module, b'deep')
    show('kernel deep launched', launch(cu, f, null, ctypes.c_int(5)))


def module(cu, image):
    m, p, n = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t()
    show(f'module {pathlib.Path(image.decode()).name} loaded', cu.cuModuleLoad(ctypes.byref(m), image))
    rc, f = function(cu, m, b'small')
    show('kernel small launched', rc or launch(cu, f, ctypes.c_void_p()))
    show('address of the array', cu.cuModuleGetGlobal_v2(ctypes.byref(p), ctypes.byref(n), m, b'big'))
    rc, f = function(cu, m, b'touch')
    show('kernel touch launched', rc or launch(cu, f, ctypes.c_size_t(5)))
    show('unloaded', cu.cuModuleUnload(m))


def main():
    nvcc = shutil.which('nvcc') or '/usr/local/cuda/bin/nvcc'
    work = pathlib.Path(tempfile.mkdtemp())
    (work / 'a.cu').write_text(SOURCE)
    (work / 'b.cu').write_text(SOURCE.replace('__device__ char big[1ull << 30];', '__device__ char big[8];'))
    for out, *args in (('big.cubin', '-cubin', 'a.cu'), ('big.ptx', '-ptx', 'a.cu'), ('big.fatbin', '-fatbin', 'a.cu'),
                       ('small.cubin', '-cubin', 'b.cu'), ('prog', '-DMAIN', 'a.cu')):
        subprocess.run([nvcc, '-arch=sm_90', '-w', '-o', out, *args], cwd=work, check=True, stderr=subprocess.DEVNULL)
        print(out, (work / out).stat().st_size, (work / out).read_bytes()[:8].hex())
    in_child(lambda cu: limits(cu, str(work / 'small.cubin').encode()))
    for name in ('big.cubin', 'big.ptx', 'big.fatbin'):
        in_child(lambda cu: module(cu, str(work / name).encode()))
    p = subprocess.Popen([work / 'prog'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in p.stdout:
        show(line[4:].strip(), 0, p.pid)
        p.stdin.write('\n')
        p.stdin.flush()
    shutil.rmtree(work)


main()
