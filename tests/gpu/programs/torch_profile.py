# SPDX-License-Identifier: Apache-2.0
"""torch.profiler: CUPTI must see the kernels through us."""
import torch
from torch.profiler import ProfilerActivity, profile

x = torch.ones(1024, 1024, device='cuda')
torch.mm(x, x)
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
    for _ in range(10):
        y = torch.mm(x, x)
    torch.cuda.synchronize()
kernels = sorted({e.key for e in p.key_averages() if e.self_device_time_total > 0})
print('result:', y.sum().item(), len(kernels) > 0)
print('total:', torch.cuda.mem_get_info()[1], torch.cuda.get_device_properties(0).total_memory)
