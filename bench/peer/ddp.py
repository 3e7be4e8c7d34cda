"""PyTorch's side of data_parallel.py and startup.py: DistributedDataParallel over Gloo, one thread a
process. Rank 0 prints a row of JSON at the end of each step: the time, samples seen and the loss.

Usage: torchrun --standalone --nproc-per-node N ddp.py STEPS GLOBAL_BATCH
"""
import json
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import fashion


def main(steps, global_batch):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, share = dist.get_rank(), global_batch // dist.get_world_size()
    torch.manual_seed(1)
    model = DistributedDataParallel(
        fashion.ResNet().to(memory_format=torch.channels_last),
        gradient_as_bucket_view=True, broadcast_buffers=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True,
                                weight_decay=5e-4, fused=True)
    images, labels = fashion.training_data()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1))
    for step in range(steps):
        begin = (step * global_batch + rank * share) % (len(order) - global_batch)
        mine = order[begin:begin + share]
        x = images[mine].contiguous(memory_format=torch.channels_last)
        loss = F.cross_entropy(model(x), labels[mine])
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        row = {"step": step + 1, "samples_seen": (step + 1) * global_batch, "loss": loss.item(),
               "time": time.time()}
        if rank == 0:
            print(json.dumps(row), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
