#!/usr/bin/env python3
"""How soon a job of fixed membership has ended after SIGKILL of a worker, or after SIGSTOP, since when it is silent:
the command has returned, the culprit was named, and no worker lives.

Usage: bench/death.py [--build build/release] [--repetitions 7]   (a repetition: 2, 3 and 4 workers)
"""
import itertools
import random
import signal
import time

import following
import harness

FIXED = ("workers.max_restarts=0", "checkpoint.every=never", "evaluation.every=never")


GOALS = {"SIGKILL": "≤ 1,000 ms", "SIGSTOP": "–"}


def death(options, job, workers, draw, how):
    """Seconds from the signal to the end of the job."""
    with following.training(options, job, workers, f"workers.min_workers={workers}", *FIXED) as training:
        training.wait(lambda rows: len(rows) > 10)  # how long steps and heartbeats take is known
        family = training.workers()
        time.sleep(0.3 * draw.random())
        victim = draw.choice(sorted(family))
        killed = training.kill(victim, signal.Signals[how])
        output = training.ended(1)
        took = time.time() - killed
        left = [rank for rank, pid in family.items() if following.alive(pid)]
        if left or not all(word in output for word in (f"rank {victim}", str(family[victim]), how)):
            raise SystemExit(f"rank {victim}, process {family[victim]}, got {how}; left are {left}:\n{output}")
    return took


def main():
    options = harness.options(__doc__, repetitions=7)
    draw = random.Random(1)
    for job, how in itertools.product(("fashion.yaml", "gpt.yaml"), GOALS):
        took = [death(options, job, workers, draw, how) for workers in (2, 3, 4) for _ in range(options.repetitions)]
        harness.say(f"{job}, {how}: " + ", ".join(f"{1e3 * one:.0f}" for one in took) + " ms")
        harness.table((f"ms from {how} of a worker to the end of a job of fixed membership, {job.split('.')[0]}, "
                       f"2–4 workers ({len(took)} deaths): median (slowest)",
                       f"{1e3 * following.percentile(took, 0.5):.0f} ({1e3 * max(took):.0f})", "–", "–",
                       GOALS[how]))


if __name__ == "__main__":
    main()
