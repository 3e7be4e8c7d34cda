#!/usr/bin/env python3
"""Goodput with one SIGKILL a minute: steps done against what the workers that lived could do.

Two workers train; every minute one is killed, the other finishes the step and goes on, and the new one
joins when it is ready. What is lost is what the steps around that took longer, from a step before the
death to ten after the newcomer computes, than as many workers usually need: two the median step of this
run, one that of a run by itself on one core. The other steps count as they are: what else the machine
does to them is no fault's doing. Afterwards the ledger holds every sample once.

Usage: bench/goodput.py [--build build/release] [--repetitions 4]   (a repetition: one minute, one kill)
"""
import random
import statistics
import time

import following
import harness
from join import first_steps

MINUTE = 60
AFTER = 10  # steps


def alone(options, job):
    """Seconds of a step of one worker on one core."""
    run = harness.Run(options.build, job, 1, ("training.max_steps=60", "evaluation.every=never"), core="0")
    rows = [row["time"] for row in run.rows[10:]]
    return statistics.median(after - before for before, after in zip(rows, rows[1:]))


def train(options, job):
    """Times of the steps, by step, and the first step of each generation."""
    draw = random.Random(3)
    sets = ("evaluation.every=never", "checkpoint.every=never", "workers.max_restarts=1000")
    with following.training(options, job, 2, *sets) as training:
        first = training.wait(lambda rows: len(rows) > 20)[-1][0]
        for _ in range(options.repetitions):
            time.sleep(MINUTE / 2)
            training.kill(draw.randrange(2))
            time.sleep(MINUTE / 2)
        rows = training.wait(len)
        training.end()
        return {step: at for step, at in rows if step >= first}, first_steps(training)


def main():
    options = harness.options(__doc__, repetitions=4)
    for job in ("fashion.yaml", "gpt.yaml"):
        one = alone(options, job)
        times, generations = train(options, job)
        took = {step: times[step] - times[step - 1] for step in times if step - 1 in times}
        usual = statistics.median(took.values())
        lost = 0
        for number in range(2, max(generations) + 1, 2):  # even ones have a single worker
            dies, joins = generations[number], generations.get(number + 1, max(took))
            for step in range(dies - 1, joins + AFTER):
                lost += took[step] - (one if dies < step < joins else usual) if step in took else 0
        whole = sum(took.values())
        harness.say(f"{job}: {len(took)} steps in {whole:.1f} s, {lost:.2f} s lost; {max(generations)} generations")
        harness.table((f"goodput with a kill a minute, {job.split('.')[0]}, 2 workers, {options.repetitions} kills",
                       f"{whole - lost:.1f} s of work", f"{whole:.1f} s", f"{100 * (1 - lost / whole):.2f} %",
                       "≥ 99 %"))


if __name__ == "__main__":
    main()
