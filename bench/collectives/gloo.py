"""torch Gloo's side of compare.py: the same lines as muster_bench_collectives, or "cannot" behind the bytes.

Usage: gloo.py RANKS OPERATION BYTES:REPETITIONS…
"""
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

IN_PLACE = ("all_reduce", "broadcast")


def blocks(numbers, block):
    return torch.tensor([float(number) for number in numbers]).repeat_interleave(block)


def numbers_in_and_out(rank, ranks):
    """Of each operation, as in operations.h: what each block holds before, and what has to be there afterwards."""
    total, everybody = ranks * (ranks + 1) // 2, range(ranks)
    return {"all_reduce": ([rank + 1] * ranks, [total] * ranks),
            "reduce_scatter": ([(rank + 1) * (b + 1) for b in everybody], [(rank + 1) * total]),
            "all_gather": ([rank + 1], [b + 1 for b in everybody]),
            "all_to_all": ([rank * ranks + b + 1 for b in everybody], [b * ranks + rank + 1 for b in everybody]),
            "broadcast": ([rank + 1] * ranks, [1] * ranks)}


CALLS = {"all_reduce": lambda output, _: dist.all_reduce(output),
         "reduce_scatter": lambda output, values: dist.reduce_scatter_tensor(output, values),
         "all_gather": lambda output, values: dist.all_gather_into_tensor(output, values),
         "all_to_all": lambda output, values: dist.all_to_all_single(output, values),
         "broadcast": lambda output, _: dist.broadcast(output, 0)}


def measure(operation, rank, ranks, size, repetitions):
    before, after = (blocks(numbers, size // 4 // ranks) for numbers in numbers_in_and_out(rank, ranks)[operation])
    values = before.clone()
    output = values if operation in IN_PLACE else torch.empty_like(after)
    times = []
    for _ in range(repetitions + 3):
        output.zero_()
        values.copy_(before)
        dist.barrier()
        start = time.perf_counter()
        CALLS[operation](output, values)
        times.append(time.perf_counter() - start)
        assert torch.equal(output, after)
    longest = torch.tensor(times[3:])
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    return longest.tolist()


def run(rank, ranks, operation, sizes, meeting):
    cores = sorted(os.sched_getaffinity(0))
    if ranks <= len(cores):
        os.sched_setaffinity(0, {cores[rank]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    for size, repetitions in sizes:
        try:
            told = [f"{t * 1e6:.2f}" for t in measure(operation, rank, ranks, size, repetitions)]
        except (NotImplementedError, ValueError) as why:  # alike on all ranks: this Gloo has none
            print(f"{operation}: {why}", file=sys.stderr)
            told = ["cannot"]
        if rank == 0:
            print(size, *told, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks, operation = int(sys.argv[1]), sys.argv[2]
    sizes = [tuple(map(int, word.split(":"))) for word in sys.argv[3:]]
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run, (ranks, operation, sizes, f"{folder}/meeting"), nprocs=ranks)
