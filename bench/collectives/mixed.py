#!/usr/bin/env python3
"""All-reduce of f32 among four ranks, two on each of two hosts (of this machine, connected by loopback): TLS between
all, and TLS between hosts with shared memory inside each.

Both take turns in rounds and verify every result. Prints a table in Markdown with the median and the 95th percentile
in milliseconds.

Usage: bench/collectives/mixed.py [--build build/release]
"""
import argparse
import pathlib

from compare import describe, harness, median_and_late, times

SIZES = [64 << 10, 1 << 20, 16 << 20, 64 << 20]
ROUNDS = 5


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=harness.ROOT / "build/release")
    program = parser.parse_args().build / "bench/collectives/muster_bench_collectives"
    print("| size | TLS ms (p95) | shared memory inside a host ms (p95) | sooner |\n|---|---|---|---|")
    for size in SIZES:
        taken = {"tcp": [], "mixed": []}
        for _ in range(ROUNDS):
            for way, values in taken.items():
                values += times([str(program), way, "4", "all_reduce"], [size])[size]
        row = {way: median_and_late(values) for way, values in taken.items()}
        text = " | ".join(f"{median / 1000:,.2f} ({late / 1000:,.2f})" for median, late in row.values())
        print(f"| {describe(size)} | {text} | {row['tcp'][0] / row['mixed'][0]:.2f} × |", flush=True)


if __name__ == "__main__":
    main()
