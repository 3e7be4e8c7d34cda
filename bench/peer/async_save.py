"""PyTorch's side of checkpoint_stall.py: stalls of torch.distributed.checkpoint.async_save, and the
time of one copy of the same bytes within memory by one thread, in seconds, as one line of JSON.

Usage: async_save.py BYTES
"""
import json
import os
import sys
import tempfile
import time
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

TENSORS = 24  # as many as the model and its optimizer have, about
SAVES = 4


def seconds(action):
    begin = time.perf_counter()
    result = action()
    return time.perf_counter() - begin, result


def compute(weights):
    """Stands for the training between two saves."""
    for _ in range(20):
        weights @ weights


def main(size):
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    state = {f"tensor{i}": torch.randn(size // 4 // TENSORS) for i in range(TENSORS)}
    twin = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    weights = torch.randn(1024, 1024)
    stalls, copies = [], []
    with tempfile.TemporaryDirectory() as folder:
        for save in range(SAVES + 1):
            compute(weights)
            place = f"{folder}/{save}"
            stall, future = seconds(lambda: dcp.async_save(state, checkpoint_id=place))
            compute(weights)
            future.result()
            stalls.append(stall)
            copies.append(seconds(lambda: [twin[n].copy_(t) for n, t in state.items()])[0])
        loaded = {name: torch.empty_like(tensor) for name, tensor in state.items()}
        dcp.load(loaded, checkpoint_id=place)
        assert all(torch.equal(loaded[name], tensor) for name, tensor in state.items())
    print(json.dumps({"stalls": stalls[1:], "copies": copies[1:]}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]))
