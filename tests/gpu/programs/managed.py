#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What does NVML show of managed memory?  (bare, no allot)  After each step: the process, the card."""
import ctypes
import os
import time

MIB, GIB = 1 << 20, 1 << 30


class Proc(ctypes.Structure):
    _fields_ = [('pid', ctypes.c_uint), ('used', ctypes.c_ulonglong), ('gi', ctypes.c_uint), ('ci', ctypes.c_uint)]


class Memory(ctypes.Structure):
    _fields_ = [('total', ctypes.c_ulonglong), ('free', ctypes.c_ulonglong), ('used', ctypes.c_ulonglong)]


cu, nv = ctypes.CDLL('libcuda.so.1'), ctypes.CDLL('libnvidia-ml.so.1')
device, ctx, p, q = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()
assert nv.nvmlInit_v2() == 0 and nv.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0


def show(text, rc=0):
    time.sleep(0.2)
    n, array, m = ctypes.c_uint(256), (Proc * 256)(), Memory()
    nv.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(n), array)
    nv.nvmlDeviceGetMemoryInfo(device, ctypes.byref(m))
    mine = [array[i].used // MIB for i in range(n.value) if array[i].pid == os.getpid()]
    print(f'{text:44} {rc:4} process {mine}  card {m.used // MIB}', flush=True)


n = ctypes.c_size_t
show('nothing')
assert cu.cuInit(0) == 0 and cu.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0) == 0 and cu.cuCtxSetCurrent(ctx) == 0
show('a context')
show('cuMemAllocManaged 4 GiB', cu.cuMemAllocManaged(ctypes.byref(p), n(4 * GIB), 1))
show('1 GiB of it set by the GPU', cu.cuMemsetD8_v2(p, ctypes.c_ubyte(1), n(GIB)) or cu.cuCtxSynchronize())
show('all of it', cu.cuMemsetD8_v2(p, ctypes.c_ubyte(1), n(4 * GIB)) or cu.cuCtxSynchronize())
show('prefetched to the host', cu.cuMemPrefetchAsync(p, n(4 * GIB), -1, None) or cu.cuCtxSynchronize())
show('prefetched to the GPU', cu.cuMemPrefetchAsync(p, n(4 * GIB), 0, None) or cu.cuCtxSynchronize())
ctypes.memset(p.value, 0, 2 * GIB)
show('2 GiB touched by the host')
show('cuMemAlloc 1 GiB beside it', cu.cuMemAlloc_v2(ctypes.byref(q), n(GIB)))
show('managed memory freed', cu.cuMemFree_v2(p))
show('the other freed', cu.cuMemFree_v2(q))
