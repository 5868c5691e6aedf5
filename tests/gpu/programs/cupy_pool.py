# SPDX-License-Identifier: Apache-2.0
import cupy

a = cupy.arange(1 << 24, dtype=cupy.float64)
s = float((a * 2).sum())
with cupy.cuda.Stream(non_blocking=True):
    cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
    b = cupy.ones(1 << 26, dtype=cupy.float32)
    t = float(b.sum())
free, total = cupy.cuda.runtime.memGetInfo()
print('result:', s, t)
print('total:', total, cupy.cuda.runtime.getDeviceProperties(0)['totalGlobalMem'])
