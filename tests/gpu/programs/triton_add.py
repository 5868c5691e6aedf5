# SPDX-License-Identifier: Apache-2.0
import torch
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


n = 1 << 22
x = torch.arange(n, device='cuda', dtype=torch.float32)
y = torch.ones(n, device='cuda')
out = torch.empty_like(x)
add[(n // 1024,)](x, y, out, n, BLOCK=1024)
print('result:', out.double().sum().item())
print('total:', torch.cuda.mem_get_info()[1], torch.cuda.get_device_properties(0).total_memory)
