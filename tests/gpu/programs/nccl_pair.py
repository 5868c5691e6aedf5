# SPDX-License-Identifier: Apache-2.0
"""Two processes of one job, a GPU each, that add up by NCCL."""
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank(n, port, out):
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port))
    torch.cuda.set_device(n)
    dist.init_process_group('nccl', rank=n, world_size=2)
    x = torch.full((2**24,), float(n + 1), device='cuda')
    for _ in range(20):
        dist.all_reduce(x)
        x /= 2
    gathered = [torch.empty(4, device='cuda') for _ in range(2)]
    dist.all_gather(gathered, x[:4].contiguous())
    torch.cuda.synchronize()
    out.put((n, x.double().sum().item(), gathered[1 - n].sum().item(), torch.cuda.mem_get_info()[1]))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == '__main__':
    ctx = mp.get_context('spawn')
    queue = ctx.Queue()
    ranks = [ctx.Process(target=rank, args=(n, 29500 + os.getpid() % 1000, queue)) for n in range(2)]
    for r in ranks:
        r.start()
    rows = sorted(queue.get(timeout=120) for _ in ranks)
    for r in ranks:
        r.join()
    print('result:', [row[:3] for row in rows])
    for row in rows:
        print('total:', row[3])
