# SPDX-License-Identifier: Apache-2.0
"""Over the limit: the framework's own out-of-memory path, then it goes on."""
import torch

blocks, total = [], torch.cuda.mem_get_info()[1]
try:
    while True:
        blocks.append(torch.empty(2**28, dtype=torch.uint8, device='cuda'))
        if len(blocks) > 2000:
            break
except torch.OutOfMemoryError as e:
    said = str(e)
    n = len(blocks)
    blocks.clear()
    torch.cuda.empty_cache()
    free, total2 = torch.cuda.mem_get_info()
    again = torch.ones(2**26, device='cuda').sum().item()
    print('oom:', n, 'blocks of 256 MiB')
    print('said:', said.split('.')[0], [w for w in said.split('.') if 'capacity' in w][:1])
    print('result:', again, total == total2, free <= total)
    print('total:', total, torch.cuda.get_device_properties(0).total_memory)
