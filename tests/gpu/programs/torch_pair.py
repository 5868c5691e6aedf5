# SPDX-License-Identifier: Apache-2.0
"""Two GPUs in one process: a model cut in two, copies between the cards, each card's own totals."""
import os

os.environ.setdefault('CUBLAS_WORKSPACE_CONFIG', ':4096:8')
import torch

torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
one, two = torch.device('cuda:0'), torch.device('cuda:1')
first = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU()).to(one)
second = torch.nn.Linear(4096, 1024).to(two)
opt = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=1e-3)
x = torch.randn(512, 1024, device=one)
losses = []
for step in range(40):
    loss = (second(first(x).to(two)) - x.to(two)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    losses.append(loss.item())
big = [torch.ones(2**28, device=d) for d in (one, two)]  # 1 GiB on each
moved = big[0].to(two)
torch.cuda.set_device(two)
del big[0]  # freed while the other card is current
print('result:', torch.cuda.device_count(), ' '.join(f'{v:.9e}' for v in losses[::10]), moved.view(-1, 2**16).sum(dim=1).double().sum().item())
for d in (one, two):
    print('total:', torch.cuda.mem_get_info(d)[1], torch.cuda.get_device_properties(d).total_memory)
