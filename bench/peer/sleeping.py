"""PyTorch's side of stragglers/compare.py: DistributedDataParallel over Gloo, a sleep of 1 ms a sample
for the computing, FACTOR times as long: on the last rank, or ("hiccups") on each for an eighth of the
time, 100 ms each. Rank 0 prints a row of JSON per step.

Usage: torchrun --standalone --nproc-per-node N sleeping.py STEPS last|hiccups FACTOR
"""
import json
import random
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

BATCH = 256


def slowness(slow, factor, rank, size):
    if slow == "last":
        return factor if rank == size - 1 and size > 1 else 1
    return factor if random.Random(f"{int(time.monotonic() * 10)} {rank}").randrange(8) == 0 else 1


def main(steps, slow, factor):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    share = BATCH // size
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(),
                                                        torch.nn.Linear(64, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        x = torch.randn(share, 16)
        loss = F.cross_entropy(model(x), torch.randint(0, 10, (share,)))
        for _ in range(share):
            time.sleep(1e-3 * slowness(slow, factor, rank, size))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(json.dumps({"step": step + 1, "time": time.time()}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
