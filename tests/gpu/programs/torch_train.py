# SPDX-License-Identifier: Apache-2.0
"""A small deterministic training, eager: what it computes must not depend on who watches."""
import os
import sys

os.environ.setdefault('CUBLAS_WORKSPACE_CONFIG', ':4096:8')
import torch

torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
dev = torch.device('cuda')
model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).to(dev)
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.randn(512, 1024, device=dev)
losses = []
for step in range(60):
    loss = (model(x) - x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    losses.append(loss.item())
big = torch.ones(int(float(sys.argv[1]) * 2**30) // 4, device=dev)  # GiB
total = torch.cuda.mem_get_info()[1]
print('result:', ' '.join(f'{v:.9e}' for v in losses[::10]), big.view(-1, 2**16).sum(dim=1).double().sum().item())
print('total:', total, torch.cuda.get_device_properties(0).total_memory)
