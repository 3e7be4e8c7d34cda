"""PyTorch's side of recovery.py: the fashion model under DDP, a checkpoint every 20 steps, started again
by torchrun from the last one. Rank 0 appends [step, time] to LOG after every step.

Usage: torchrun --max-restarts N … elastic.py GLOBAL_BATCH LOG STATE
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import fashion

EVERY = 20


def save(state, model, optimizer, step):
    torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, state + "~")
    os.replace(state + "~", state)


def main(global_batch, log, state):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, share = dist.get_rank(), global_batch // dist.get_world_size()
    torch.manual_seed(1)
    model = DistributedDataParallel(fashion.ResNet().to(memory_format=torch.channels_last),
                                    gradient_as_bucket_view=True, broadcast_buffers=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4,
                                fused=True)
    step = 0
    if os.path.exists(state):
        saved = torch.load(state, weights_only=True)
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    images, labels = fashion.training_data()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1))
    while True:
        begin = (step * global_batch + rank * share) % (len(order) - global_batch)
        mine = order[begin:begin + share]
        loss = F.cross_entropy(model(images[mine].contiguous(memory_format=torch.channels_last)), labels[mine])
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        step += 1
        if rank == 0:
            with open(log, "a") as file:
                file.write(json.dumps([step, time.time()]) + "\n")
            if step % EVERY == 0:
                save(state, model, optimizer, step)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
