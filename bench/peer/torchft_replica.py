"""torchft's side of recovery.py: one replica of the fashion model, of one process. Appends [step, time] to
LOG after every committed step.

Usage: torchft_replica.py GLOBAL_BATCH REPLICA REPLICAS LIGHTHOUSE LOG
"""
import datetime
import json
import sys
import time

import torch
import torch.nn.functional as F
import torchft
from torch.distributed import TCPStore

import fashion


def main(global_batch, replica, replicas, lighthouse, log):
    torch.set_num_threads(1)
    patience = datetime.timedelta(seconds=10)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    torch.manual_seed(1)
    inner = fashion.ResNet().to(memory_format=torch.channels_last)
    sgd = torch.optim.SGD(inner.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4, fused=True)

    def load(state):
        inner.load_state_dict(state["model"])
        sgd.load_state_dict(state["optimizer"])

    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(timeout=patience), min_replica_size=1, load_state_dict=load,
        state_dict=lambda: {"model": inner.state_dict(), "optimizer": sgd.state_dict()}, rank=0, world_size=1,
        store_addr="127.0.0.1", store_port=store.port, lighthouse_addr=lighthouse, replica_id=f"replica_{replica}",
        timeout=patience)
    optimizer = torchft.Optimizer(manager, sgd)
    images, labels = fashion.training_data()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1))
    share = global_batch // replicas
    while True:
        before = manager.current_step()
        begin = (before * global_batch + replica * share) % (len(order) - global_batch)
        mine = order[begin:begin + share]
        optimizer.zero_grad()
        F.cross_entropy(inner(images[mine].contiguous(memory_format=torch.channels_last)), labels[mine]).backward()
        # Its own DDP ends the survivor where the other one dies (an assertion in ddp.py, 0.2.0).
        gradients = [parameter.grad for parameter in inner.parameters()]
        flat = torch._utils._flatten_dense_tensors(gradients)
        manager.allreduce(flat).wait()
        for gradient, sum in zip(gradients, torch._utils._unflatten_dense_tensors(flat, gradients)):
            gradient.copy_(sum)
        optimizer.step()
        if manager.current_step() > before:
            with open(log, "a") as file:
                file.write(json.dumps([manager.current_step(), time.time()]) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5])
