#!/usr/bin/env python3
"""One of four workers computes 2, 4 and 10 times slower, or all of them for an eighth of the time:
samples/s against the sum of their speeds.

muster shares slices out by measured speed, or (for comparison) evenly; PyTorch DDP always evenly. What
stands for computing is a sleep, so that four workers fit on any machine. The rate is that of the second
half of the steps; "sum" is (3 + 1/factor) times that of one worker by itself. The weights are the same
in all of muster's turns, or the comparison fails.

Usage: bench/stragglers/compare.py [--build build/release]
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness

WORKERS = 4
STEPS = 60


def muster(options, ranks, factor, sharing, slow="last"):
    text = harness.run([options.build / "bench/stragglers/muster_bench_stragglers", ranks, slow, factor,
                        sharing, STEPS])
    rate, weights = text.split()
    return float(rate), weights


def ddp(options, ranks, factor, slow="last"):
    _, rows = harness.torchrun(options.python, "sleeping.py", [STEPS, slow, factor], workers=ranks)
    half = rows[STEPS // 2 - 1:]
    return 256 * (len(half) - 1) / (half[-1]["time"] - half[0]["time"])


def main():
    options = harness.options(__doc__)
    alone, expected = muster(options, 1, 1, "shared")
    ddp_alone = ddp(options, 1, 1)
    harness.table(["one of four is slower by", "muster", "evenly shared", "DDP", "sum of speeds", "reached",
                   "DDP reaches"], ["---"] * 7)
    for factor in (1, 2, 4, 10):
        shared, weights = muster(options, WORKERS, factor, "shared")
        even, weights_even = muster(options, WORKERS, factor, "even")
        if not weights == weights_even == expected:
            raise SystemExit("other weights")
        peer = ddp(options, WORKERS, factor)
        speeds = WORKERS - 1 + 1 / factor
        harness.table([f"{factor} ×", f"{shared:,.0f}", f"{even:,.0f}", f"{peer:,.0f}",
                       f"{speeds * alone:,.0f}", f"{100 * shared / (speeds * alone):.0f} %",
                       f"{100 * peer / (speeds * ddp_alone):.0f} %"])
    harness.table(["each for an eighth of the time, by", "muster, helped", "by speed alone", "evenly shared",
                   "DDP", "sum of speeds", "reached", "DDP reaches"], ["---"] * 8)
    for factor in (4, 10):
        turns = [muster(options, WORKERS, factor, sharing, "hiccups") for sharing in ("helped", "shared", "even")]
        if any(weights != expected for _, weights in turns):
            raise SystemExit("other weights")
        peer = ddp(options, WORKERS, factor, "hiccups")
        speeds = WORKERS * (7 + 1 / factor) / 8
        harness.table([f"{factor} ×", *(f"{rate:,.0f}" for rate, _ in turns), f"{peer:,.0f}",
                       f"{speeds * alone:,.0f}", f"{100 * turns[0][0] / (speeds * alone):.0f} %",
                       f"{100 * peer / (speeds * ddp_alone):.0f} %"])


if __name__ == "__main__":
    main()
