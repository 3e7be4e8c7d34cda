#!/usr/bin/env python3
"""How soon a job of fixed membership has ended after SIGKILL of a worker: the command has returned, the culprit
was named, and no worker lives.

Usage: bench/death.py [--build build/release] [--repetitions 7]   (a repetition: 2, 3 and 4 workers)
"""
import random
import time

import following
import harness

FIXED = ("workers.max_restarts=0", "checkpoint.every=never", "evaluation.every=never")


def death(options, job, workers, draw):
    """Seconds from the kill to the end of the job."""
    with following.training(options, job, workers, f"workers.min_workers={workers}", *FIXED) as training:
        training.wait(lambda rows: len(rows) > 3)
        family = training.workers()
        time.sleep(0.3 * draw.random())
        victim = draw.choice(sorted(family))
        killed = training.kill(victim)
        output = training.ended(1)
        took = time.time() - killed
        left = [rank for rank, pid in family.items() if following.alive(pid)]
        if left or not all(word in output for word in (f"rank {victim}", str(family[victim]), "SIGKILL")):
            raise SystemExit(f"rank {victim}, process {family[victim]}, was killed; left are {left}:\n{output}")
    return took


def main():
    options = harness.options(__doc__, repetitions=7)
    draw = random.Random(1)
    for job in ("fashion.yaml", "gpt.yaml"):
        took = [death(options, job, workers, draw) for workers in (2, 3, 4) for _ in range(options.repetitions)]
        harness.say(f"{job}: " + ", ".join(f"{1e3 * one:.0f}" for one in took) + " ms")
        harness.table((f"ms from SIGKILL of a worker to the end of a job of fixed membership, {job.split('.')[0]}, "
                       f"2–4 workers ({len(took)} deaths): median (slowest)",
                       f"{1e3 * following.percentile(took, 0.5):.0f} ({1e3 * max(took):.0f})", "–", "–",
                       "≤ 1,000 ms"))


if __name__ == "__main__":
    main()
