#!/usr/bin/env python3
"""Samples per second in ordered mode (the same bits at any size) against fast mode, 2 workers.

Usage: bench/ordered_fast.py [--build build/release] [--repetitions 5]
"""
import harness

WARM_UP = 10  # steps that are not timed
STEPS = {"fashion": 80, "gpt": 40}


def turn(options, job, modes):
    return {mode: harness.Run(options.build, f"{job}.yaml", 2,
                              [f"training.mode={mode}", f"training.max_steps={STEPS[job]}"])
            for mode in modes}


def compare(options, job):
    rates = {"ordered": [], "fast": []}
    for repetition in range(options.repetitions):
        modes = sorted(rates, reverse=repetition % 2 == 0)  # each goes first as often
        runs = harness.undisturbed(lambda: turn(options, job, modes))
        for mode, run in runs.items():
            rates[mode].append(run.rate(WARM_UP))
        harness.check_alike(runs["ordered"].losses(), runs["fast"].losses(), 0.1, job)
        harness.say(f"{job}: ordered {rates['ordered'][-1]:.1f}, fast {rates['fast'][-1]:.1f}")
    slower = 100 * (1 - harness.ratio(rates["ordered"], rates["fast"]))
    harness.table((f"samples/s, {job}, ordered against fast",
                   harness.describe_rates(rates["ordered"]), harness.describe_rates(rates["fast"]),
                   f"{slower:.1f} % slower", "≤ 5 % slower"))


def main():
    options = harness.options(__doc__)
    for job in STEPS:
        compare(options, job)


if __name__ == "__main__":
    main()
