#!/usr/bin/env python3
"""Samples per second in ordered mode (the same bits at any size) against fast mode, 2 workers.

Usage: bench/ordered_fast.py [--build build/release] [--repetitions 20]
"""
import harness
import turns

WARM_UP = 10  # steps that are not timed


def muster(options, job, mode):
    return lambda folder: turns.Muster(folder, options.build, f"{job}.yaml", 2, [f"training.mode={mode}"])


def compare(options, job):
    played, losses = turns.play({mode: muster(options, job, mode) for mode in ("ordered", "fast")},
                                options.repetitions, WARM_UP)
    harness.check_alike(losses["ordered"], losses["fast"], 0.1, job)
    ordered, fast = turns.rates(played["ordered"]), turns.rates(played["fast"])
    slower = 100 * (1 - harness.ratio(ordered, fast))
    harness.table((f"samples/s, {job}, ordered against fast", harness.describe_rates(ordered),
                   harness.describe_rates(fast), f"{abs(slower):.1f} % {'slower' if slower > 0 else 'faster'}",
                   "≤ 5 % slower"))


def main():
    options = harness.options(__doc__, repetitions=20)
    for job in ("fashion", "gpt"):
        compare(options, job)


if __name__ == "__main__":
    main()
