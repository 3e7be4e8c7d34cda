#!/usr/bin/env python3
"""A step of muster's ZB-V against PyTorch's 1F1B and its ZB-V (torch.distributed.pipelining over Gloo), in turns: the same
blocks sleep the same times on all sides, so that 4 and 8 stages fit on any number of cores.

A turn is a whole training; its time is the median of its steps. muster's weights must be those of all blocks on one
worker, PyTorch's losses and weights those of the same model in one process. What the schedules make of it, without any
time for messages, is simulated beside it: no step can be more than that much shorter than an ideal 1F1B's.

Usage: bench/pipeline/zero_bubble.py [--build build/release] [--python .deps/pytorch/bin/python] [--repetitions 3]
"""
import statistics

import pipelines
from pipelines import harness

STEPS = 7
GOAL = 1.2
CASES = ((4, 8), (4, 16), (8, 16))  # stages, micro-batches
CHUNKS = 2  # of a stage: the blocks, on all sides


def weights_alone(options, stages, micro):
    """Of the same blocks on one worker."""
    return pipelines.sleeping(options, "interleaved", 1, CHUNKS * stages, micro, STEPS)["weights"]


def muster(options, stages, micro, expected):
    found = pipelines.sleeping(options, "zb_v", stages, CHUNKS, micro, STEPS)
    if found["weights"] != expected:
        raise SystemExit(f"zb_v, {stages} stages, {micro} micro-batches: other weights than on one worker")
    return found


def pytorch(options, schedule, stages, micro, sleeps):
    _, rows = harness.torchrun(options.python, "pipelining.py", [schedule, micro, STEPS, *sleeps], workers=stages)
    if len(rows) != STEPS:
        raise SystemExit(f"PyTorch's {schedule}, {stages} stages: {len(rows)} of {STEPS} steps")
    return statistics.median(row["step_s"] for row in rows)


def play(options, stages, micro):
    """Seconds of a step in each turn, by side, and how much shorter ZB-V's is in theory."""
    expected = weights_alone(options, stages, micro)
    times = {"muster": [], "1f1b": [], "zb_v": []}
    for _ in range(options.repetitions):
        found = harness.undisturbed(lambda: muster(options, stages, micro, expected))
        times["muster"].append(found["step_ms"] / 1e3)
        for schedule in ("1f1b", "zb_v"):
            times[schedule].append(harness.undisturbed(
                lambda schedule=schedule: pytorch(options, schedule, stages, micro, found["sleeps_ms"])))
    ideal = pipelines.simulated(options, "1f1b", stages, micro, [[1e3 * ms for ms in found["sleeps_ms"]]] * stages)
    return times, ideal["simulated_ms"] / found["simulated_ms"]


def main():
    options = harness.options(__doc__, repetitions=3)
    pipelines.heading()
    pipelines.columns("stages", "micro-batches", "ms a step, muster's zb_v", "PyTorch's 1F1B", "PyTorch's ZB-V",
                      "shorter than 1F1B by", "simulated", "goal", "reached", "shorter than PyTorch's ZB-V by")
    for stages, micro in CASES:
        times, ideal = play(options, stages, micro)
        shorter = harness.ratio(times["1f1b"], times["muster"])
        harness.table([stages, micro, *map(harness.describe_times, times.values()), f"{shorter:.2f} ×", f"{ideal:.2f} ×",
                       f"≥ {GOAL} ×", pipelines.reached(shorter >= GOAL),
                       f"{harness.ratio(times['zb_v'], times['muster']):.2f} ×"])


if __name__ == "__main__":
    main()
