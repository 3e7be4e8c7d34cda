"""torch Gloo's side of compare.py: the same lines as muster_bench_all_reduce.

Usage: gloo.py RANKS BYTES:REPETITIONS…
"""
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run(rank, ranks, sizes, meeting):
    cores = sorted(os.sched_getaffinity(0))
    if ranks <= len(cores):
        os.sched_setaffinity(0, {cores[rank]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    for size, repetitions in sizes:
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
    ranks = int(sys.argv[1])
    sizes = [tuple(map(int, word.split(":"))) for word in sys.argv[2:]]
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run, (ranks, sizes, f"{folder}/meeting"), nprocs=ranks)
