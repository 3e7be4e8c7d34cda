#!/usr/bin/env python3
"""Goodput with one SIGKILL a minute: steps done against what the workers that compute could do.

Two workers train; every minute one is killed, the other finishes the step and goes on, and the new one
computes when it has the state. What could be done meanwhile is the time that there were two, over the
median step of this run, and the time that there was one, over that of runs by itself on one core, one
before and one after. What is lost is the difference to the steps done, from a step before the death to
ten after the newcomer computes; the other steps count as they are: what else the machine does to them is
no fault's doing.
Afterwards the ledger holds every sample once.

Usage: bench/goodput.py [--build build/release] [--repetitions 4]   (a repetition: one minute, one kill)
"""
import random
import statistics
import time

import following
import harness
from join import begins_to_compute

MINUTE = 60
AFTER = 10  # steps


def alone(options, job):
    """Seconds of a step of one worker on one core."""
    run = harness.Run(options.build, job, 1, ("training.max_steps=60", "evaluation.every=never"), core="0")
    rows = [row["time"] for row in run.rows[10:]]
    return statistics.median(after - before for before, after in zip(rows, rows[1:]))


def train(options, job):
    """Times of the steps, by step, and (when one was killed, the first step of the one in its place)."""
    draw = random.Random(3)
    sets = ("evaluation.every=never", "checkpoint.every=never", "workers.max_restarts=1000")
    with following.training(options, job, 2, *sets) as training:
        first = training.wait(lambda rows: len(rows) > 20)[-1][0]
        deaths, joined = [], [0, 0]
        for _ in range(options.repetitions):
            time.sleep(MINUTE / 2)
            victim = draw.randrange(2)
            killed = training.kill(victim)
            time.sleep(MINUTE / 2)
            deaths.append((killed, begins_to_compute(training, victim)[joined[victim]]))
            joined[victim] += 1
        rows = training.wait(len)
        training.end()
        return {step: at for step, at in rows if step >= first}, deaths


def lost(times, killed, computes, one, two):
    """Steps that could have been done around a death and were not; `one`, `two`: a step of so many workers."""
    begins = max(step for step in times if times[step] < killed) - 1
    ends, alone = computes + AFTER - 1, times[computes - 1] - killed
    both = times[ends] - times[begins] - alone
    return both / two + alone / one - (ends - begins)


def main():
    options = harness.options(__doc__, repetitions=4)
    for job in ("fashion.yaml", "gpt.yaml"):
        ones = [alone(options, job)]
        times, deaths = train(options, job)
        ones.append(alone(options, job))
        one = statistics.mean(ones)
        two = statistics.median(times[step] - times[step - 1] for step in times if step - 1 in times)
        each = [lost(times, killed, computes, one, two) for killed, computes in deaths]
        steps = max(times) - min(times)
        harness.say(f"{job}: {steps} steps in {times[max(times)] - times[min(times)]:.1f} s, a step of {two:.3f} s, "
                    f"alone {ones[0]:.3f} s before and {ones[1]:.3f} s after; lost by each death "
                    f"{', '.join(f'{some:.1f}' for some in each)}")
        harness.table((f"goodput with a kill a minute, {job.split('.')[0]}, 2 workers, {len(deaths)} kills",
                       f"{steps} steps", f"{steps + sum(each):.1f} possible",
                       f"{100 * steps / (steps + sum(each)):.2f} %", "≥ 99 %"))


if __name__ == "__main__":
    main()
