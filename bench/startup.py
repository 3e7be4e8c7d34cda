#!/usr/bin/env python3
"""From the command to the first completed step, 2 workers, the fashion model: muster and torchrun.

Also the bare start of a worker, exec and the loading of libtorch: `muster-worker --version`; and how
long muster's second step takes, which is what the first one costs anyhow: it only computes.

Usage: bench/startup.py [--build build/release] [--repetitions 9]
"""
import time

import harness


def bare(options):
    began = time.time()
    harness.run([options.build / "bin/muster-worker", "--version"])
    return time.time() - began


def muster(options):
    run = harness.Run(options.build, "fashion.yaml", 2, ["training.max_steps=2"])
    first, second = run.rows
    assert (first["step"], second["step"]) == (1, 2)
    return first["time"] - run.began, second["time"] - first["time"]


def torchrun(options):
    began, rows = harness.torchrun(options.python, "ddp.py", [1, 256])
    assert [row["step"] for row in rows] == [1]
    return rows[0]["time"] - began


def main():
    options = harness.options(__doc__, repetitions=9)
    taken = {name: [] for name in ("muster", "a step", "torchrun", "bare")}

    def turn():
        return [*muster(options), torchrun(options), bare(options)]

    turn()  # once to fill the page cache
    for _ in range(options.repetitions):
        for name, seconds in zip(taken, harness.undisturbed(turn)):
            taken[name].append(seconds)
        harness.say(", ".join(f"{name} {times[-1]:.3f} s" for name, times in taken.items()))
    ours = harness.describe_times(taken["muster"])
    harness.table(
        ("ms from the command to the first step, against torchrun", ours,
         harness.describe_times(taken["torchrun"]),
         f"{harness.ratio(taken['torchrun'], taken['muster']):.1f} × sooner", "≥ 5 ×"),
        ("ms from the command to the first step, against exec + libtorch load", ours,
         harness.describe_times(taken["bare"]),
         f"{harness.ratio(taken['muster'], taken['bare']):.2f} ×", "≤ 1.5 ×"),
        ("ms of that which a step takes, computing alone", harness.describe_times(taken["a step"]),
         harness.describe_times(taken["bare"]),
         f"{harness.ratio(taken['a step'], taken['bare']):.2f} ×", "–"))


if __name__ == "__main__":
    main()
