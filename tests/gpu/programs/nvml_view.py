# SPDX-License-Identifier: Apache-2.0
"""What a monitoring library sees from inside."""
import os
import time

import pynvml
import torch

x = torch.ones(1 << 28, device='cuda')
torch.cuda.synchronize()
pynvml.nvmlInit()
h = pynvml.nvmlDeviceGetHandleByIndex(0)
time.sleep(1.5)  # what the driver took for the first kernel is seen within a second
m1 = pynvml.nvmlDeviceGetMemoryInfo(h)
m2 = pynvml.nvmlDeviceGetMemoryInfo(h, version=pynvml.nvmlMemory_v2)
procs = pynvml.nvmlDeviceGetComputeRunningProcesses(h)
free, total = torch.cuda.mem_get_info()
print('result:', os.getpid() in [p.pid for p in procs], len(procs) >= 1,
      m1.total == m1.free + m1.used, m2.total == m2.free + m2.used + m2.reserved,
      m1.used >= 1 << 30, abs(m1.free - free) < 64 << 20)
print('total:', total, m1.total)
print('total:', total, m2.total)
