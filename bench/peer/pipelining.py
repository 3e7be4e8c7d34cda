"""PyTorch's side of pipeline/zero_bubble.py: torch.distributed.pipelining over Gloo, a stage a process, with blocks that
sleep as those of pipeline/pipeline.cc do: in the forward, in the backward for the input, in the one for the weights.
Rank 0 prints a row of JSON a step; losses and weights must be those of the whole model in one process.

Usage: torchrun --standalone --nproc-per-node STAGES pipelining.py 1f1b|zb_v MICRO_BATCHES STEPS FORWARD INPUT WEIGHT
(milliseconds of a stage, of both its blocks together)
"""
import json
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import Schedule1F1B, ScheduleZBVZeroBubble

WIDTH = 16
BLOCKS = 2  # of a stage
LEARNING_RATE = 0.01
TOLERANCE = 1e-4


class Sleep(torch.autograd.Function):
    """A copy that takes so many seconds, and in backward so many."""

    @staticmethod
    def forward(ctx, values, forward, backward):
        ctx.backward_s = backward
        time.sleep(forward)
        return values.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(ctx.backward_s)
        return gradient, None, None


class Block(torch.nn.Module):
    def __init__(self, weight, sleeps):
        super().__init__()
        self.weight = torch.nn.Parameter(weight.clone())
        self.sleeps = sleeps

    def forward(self, values):
        on_forward, on_input, on_weight = self.sleeps
        if not values.requires_grad:  # the first block finds the gradient of its input as well, as muster's does
            values = values.detach().requires_grad_()
        return F.linear(Sleep.apply(values, on_forward, on_input), Sleep.apply(self.weight, 0, on_weight))


class Stage(PipelineStage):
    def _get_init_p2p_neighbors_ops(self):
        """First messages, which only NCCL needs: on the turn of ZB-V's V a rank would send to itself, which Gloo cannot."""
        return []


def initial_weights(blocks):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(WIDTH, WIDTH, generator=generator) / WIDTH ** 0.5 for _ in range(blocks)]


def samples(count):
    """A micro-batch is one sample."""
    return (torch.arange(count * WIDTH) % 7 - 3.0).reshape(count, WIDTH), torch.full((count,), 3)


def stages_of(schedule, weights, sleeps):
    """Those of this rank, with the numbers of their blocks."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    last = BLOCKS * ranks - 1
    cuts = {"1f1b": [(rank, range(BLOCKS * rank, BLOCKS * (rank + 1)))],
            "zb_v": [(chunk, range(chunk, chunk + 1)) for chunk in (rank, last - rank)]}[schedule]
    chunks = {"1f1b": ranks, "zb_v": last + 1}[schedule]
    return [(Stage(torch.nn.Sequential(*(Block(weights[b], sleeps) for b in blocks)), chunk, chunks,
                   torch.device("cpu")), blocks) for chunk, blocks in cuts]


def schedule_of(name, stages, micro_batches):
    if name == "1f1b":
        return Schedule1F1B(stages[0], micro_batches, loss_fn=F.cross_entropy)
    return ScheduleZBVZeroBubble(stages, micro_batches, loss_fn=F.cross_entropy)


def train(schedule, stages, steps, micro_batches):
    """Seconds of each step, to the loss that all ranks know, and the losses."""
    inputs, targets = samples(micro_batches)
    given = (inputs,) if any(stage.is_first for stage in stages) else ()
    has_last = any(stage.is_last for stage in stages)
    optimizer = torch.optim.SGD([p for stage in stages for p in stage.submod.parameters()], lr=LEARNING_RATE)
    seconds, means = [], []
    for _ in range(steps):
        dist.barrier()
        began = time.perf_counter()
        losses = []
        schedule.step(*given, losses=losses, **({"target": targets} if has_last else {}))
        loss = torch.stack(losses).detach().mean() if has_last else torch.zeros(())
        dist.all_reduce(loss)
        optimizer.step()
        seconds.append(time.perf_counter() - began)
        optimizer.zero_grad()
        means.append(loss.item())
    return seconds, means


def train_alone(weights, steps, micro_batches):
    """The losses and weights of the whole model without a pipeline."""
    inputs, targets = samples(micro_batches)
    parameters = [weight.clone().requires_grad_() for weight in weights]
    optimizer = torch.optim.SGD(parameters, lr=LEARNING_RATE)
    losses = []
    for _ in range(steps):
        values = inputs
        for parameter in parameters:
            values = F.linear(values, parameter)
        loss = F.cross_entropy(values, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, parameters


def check(losses, stages, expected_losses, expected_weights):
    torch.testing.assert_close(losses, expected_losses, rtol=TOLERANCE, atol=TOLERANCE)
    for stage, blocks in stages:
        for block, number in zip(stage.submod, blocks, strict=True):
            torch.testing.assert_close(block.weight.data, expected_weights[number].data, rtol=TOLERANCE,
                                       atol=TOLERANCE, msg=lambda text, number=number: f"block {number}: {text}")


def main(name, micro_batches, steps, *stage_ms):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    weights = initial_weights(BLOCKS * dist.get_world_size())
    placed = stages_of(name, weights, [ms / 1e3 / BLOCKS for ms in stage_ms])
    stages = [stage for stage, _ in placed]
    seconds, losses = train(schedule_of(name, stages, micro_batches), stages, steps, micro_batches)
    check(losses, placed, *train_alone(weights, steps, micro_batches))
    dist.barrier()  # all are right
    if dist.get_rank() == 0:
        for step, (took, loss) in enumerate(zip(seconds, losses, strict=True), 1):
            print(json.dumps({"step": step, "step_s": took, "loss": loss}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:4]), *map(float, sys.argv[4:7]))
