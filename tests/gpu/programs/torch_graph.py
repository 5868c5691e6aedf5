# SPDX-License-Identifier: Apache-2.0
"""CUDA graph capture and replay, with allocations inside the graph's private pool."""
import os

os.environ.setdefault('CUBLAS_WORKSPACE_CONFIG', ':4096:8')
import torch

torch.manual_seed(2)
w = torch.randn(2048, 2048, device='cuda')
x = torch.randn(256, 2048, device='cuda')
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        y = torch.tanh(x @ w)
torch.cuda.current_stream().wait_stream(side)
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = torch.tanh(x @ w)
    z = torch.tanh(y @ w).sum()
acc = 0.0
for i in range(500):
    x.copy_(y)
    g.replay()
acc = z.item()
print('result:', f'{acc:.9e}')
print('total:', torch.cuda.mem_get_info()[1], torch.cuda.get_device_properties(0).total_memory)
