"""torch Gloo's side of compare.py: the same lines as muster_bench_all_reduce.

Usage: gloo.py RANKS REPETITIONS BYTES…
"""
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run(rank, ranks, repetitions, sizes, meeting):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    for size in sizes:
        values = torch.empty(size // 4)
        times = []
        for i in range(repetitions + 3):
            values.fill_(rank + 1)
            dist.barrier()
            start = time.perf_counter()
            dist.all_reduce(values)
            times.append(time.perf_counter() - start)
            assert bool((values == ranks * (ranks + 1) / 2).all())
        if rank == 0:
            print(size, *(f"{t * 1e6:.2f}" for t in times[3:]), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks, repetitions, *sizes = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run, (ranks, repetitions, sizes, f"{folder}/meeting"), nprocs=ranks)
