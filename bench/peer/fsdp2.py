"""PyTorch's side of sharded.py: FSDP2 (`fully_shard`) of the gpt of jobs/gpt.yaml over Gloo, each layer and the rest of
the model a group, one thread a process. Rank 0 prints a row of JSON at the end of each step: the time, samples seen,
the loss of all ranks, and the bytes that were resident before there was a model. With WEIGHTS the file is written and
nothing trained.

Usage: torchrun --standalone --nproc-per-node N fsdp2.py LAYERS HEADS WIDTH CONTEXT STEPS GLOBAL_BATCH TEXT
       fsdp2.py LAYERS HEADS WIDTH CONTEXT WEIGHTS
"""
import json
import pathlib
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

SEED = 1
RATE = 1e-3  # of bench/jobs/gpt.yaml
VOCABULARY = 256
SCALE = 0.02  # as in GPT-2


def linear(inputs, outputs):
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=SCALE)
    nn.init.zeros_(layer.bias)
    return layer


def embedding(count, width):
    table = nn.Embedding(count, width)
    nn.init.normal_(table.weight, std=SCALE)
    return table


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = linear(width, 3 * width), linear(width, width)
        self.expand, self.contract = linear(width, 4 * width), linear(4 * width, width)

    def attend(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.projection(mixed.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.contract(F.gelu(self.expand(self.norm2(x))))


class Gpt(nn.Module):
    """By the names that muster's has. `cut` sees each layer when it is made, so that no rank ever has all of them."""

    def __init__(self, layers, heads, width, context, cut=lambda layer: layer):
        super().__init__()
        self.layers = [f"layer{number}" for number in range(layers)]
        self.embedding = nn.ModuleDict({"token": embedding(VOCABULARY, width), "position": embedding(context, width)})
        for name in self.layers:
            self.add_module(name, cut(Layer(width, heads)))
        self.head = nn.ModuleDict({"norm": nn.LayerNorm(width)})

    def forward(self, tokens):
        positions = torch.arange(tokens.size(1))
        x = self.embedding["token"](tokens) + self.embedding["position"](positions)
        for name in self.layers:
            x = getattr(self, name)(x)
        return F.linear(self.head["norm"](x), self.embedding["token"].weight)


def create_model(layers, heads, width, context, cut=lambda layer: layer):
    torch.manual_seed(SEED)
    return cut(Gpt(layers, heads, width, context, cut))


def create_optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0, fused=True)


def resident_before_model(mesh):
    """Bytes, after a step of a trivial model, for which more libraries are loaded."""
    trivial = fully_shard(linear(8, 8), mesh=mesh)
    trivial(torch.ones(1, 8)).sum().backward()
    create_optimizer(trivial).step()
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    [kibibytes] = (line.split()[1] for line in lines if line.startswith("VmRSS:"))
    return int(kibibytes) * 1024


def batches(text, context, global_batch, share, rank):
    """This rank's windows in the order of the file; the last bytes of it, which muster holds out, are not reached."""
    tokens = torch.frombuffer(bytearray(pathlib.Path(text).read_bytes()), dtype=torch.uint8)
    windows = len(tokens) * 9 // 10 // context - global_batch
    step = 0
    while True:
        first = (step * global_batch) % windows + rank * share
        mine = tokens[first * context:(first + share) * context + 1].long()
        yield mine[:-1].view(share, context), mine[1:].view(share, context)
        step += 1


def train(sizes, steps, global_batch, text):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (ranks,))
    before = resident_before_model(mesh)
    model = create_model(*sizes, cut=lambda module: fully_shard(module, mesh=mesh))
    optimizer = create_optimizer(model)
    data = batches(text, sizes[-1], global_batch, global_batch // ranks, rank)
    for step in range(steps):
        tokens, targets = next(data)
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach() / ranks
        dist.all_reduce(mean)
        row = {"step": step + 1, "samples_seen": (step + 1) * global_batch, "loss": mean.item(), "time": time.time(),
               "before_model": before}
        if rank == 0:
            print(json.dumps(row), flush=True)
    dist.destroy_process_group()


def write(sizes, path):
    from safetensors.torch import save_file  # which a training needs no memory for
    save_file(create_model(*sizes).state_dict(), path)


def main(*words):
    sizes = [int(word) for word in words[:4]]
    if len(words) == 5:
        write(sizes, words[4])
    else:
        steps, global_batch, text = words[4:]
        train(sizes, int(steps), int(global_batch), text)


if __name__ == "__main__":
    main(*sys.argv[1:])
