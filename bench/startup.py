#!/usr/bin/env python3
"""From the command to the first completed step, 2 workers, the fashion model: muster and torchrun.

Also the bare start of a worker, exec and the loading of libtorch: `muster-worker --version`.

Usage: bench/startup.py [--build build/release] [--repetitions 9]
"""
import time

import harness


def bare(options):
    began = time.time()
    harness.run([options.build / "bin/muster-worker", "--version"])
    return time.time() - began


def muster(options):
    run = harness.Run(options.build, "fashion.yaml", 2, ["training.max_steps=1"])
    assert [row["step"] for row in run.rows] == [1]
    return run.rows[0]["time"] - run.began


def torchrun(options):
    began, rows = harness.torchrun(options.python, "ddp.py", [1, 256])
    assert [row["step"] for row in rows] == [1]
    return rows[0]["time"] - began


def main():
    options = harness.options(__doc__, repetitions=9)
    sides = {"muster": muster, "torchrun": torchrun, "bare": bare}
    taken = {name: [] for name in sides}
    for side in sides.values():
        side(options)  # once to fill the page cache
    for _ in range(options.repetitions):
        times = harness.undisturbed(lambda: [side(options) for side in sides.values()])
        for name, seconds in zip(sides, times):
            taken[name].append(seconds)
        harness.say(", ".join(f"{name} {times[-1]:.3f} s" for name, times in taken.items()))
    ours = harness.describe_times(taken["muster"])
    harness.table(
        ("ms from the command to the first step, against torchrun", ours,
         harness.describe_times(taken["torchrun"]),
         f"{harness.ratio(taken['torchrun'], taken['muster']):.1f} × sooner", "≥ 5 ×"),
        ("ms from the command to the first step, against exec + libtorch load", ours,
         harness.describe_times(taken["bare"]),
         f"{harness.ratio(taken['muster'], taken['bare']):.2f} ×", "≤ 1.5 ×"))


if __name__ == "__main__":
    main()
