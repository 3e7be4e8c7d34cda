#!/usr/bin/env python3
"""A worker joins two others that train: how long they stand still.

One of three workers is killed; the one that is started for it joins when it is ready. The others stand
still twice: where the generation changes, and where the newcomer, which has got the state beside their
training, takes over slices. Each is the time of that step less the usual one, of two workers before the
change and of three after it; the longer one counts.

Usage: bench/join.py [--build build/release] [--repetitions 5]
"""
import re
import statistics

import following
import harness
from following import intervals

STEPS_AFTER = 12


def first_steps(training):
    """By generation: the first step that it committed."""
    first = {}
    for row in training.records("ledger.jsonl", '"generation"'):
        first.setdefault(row["generation"], row["steps"][0])
    return first


def begins_to_compute(training, worker):
    """The steps from which on newcomers computed."""
    notices = [row["text"] for row in training.records("metrics.jsonl", " got the state ")]
    found = [re.search(rf"worker {worker} got the state .* from step (\d+) on", text) for text in notices]
    return [int(one.group(1)) for one in found if one]


def stalls(options, job):
    with following.training(options, job, 3, f"workers.max_restarts={options.repetitions}") as training:
        training.wait(lambda rows: len(rows) > STEPS_AFTER)
        found = []
        for joined in range(options.repetitions):
            training.kill(2)
            new = 3 + 2 * joined  # one generation without it, one with the new one
            training.wait(lambda rows: new in first_steps(training))
            training.wait(lambda rows: len(begins_to_compute(training, 2)) > joined)
            first, computes = first_steps(training)[new], begins_to_compute(training, 2)[joined]
            rows = training.wait(lambda rows: rows[-1][0] >= computes + STEPS_AFTER)
            time_of = dict(rows)
            two = statistics.median(time_of[step] - time_of[step - 1] for step in range(first - 6, first))
            three = statistics.median(intervals(rows[-STEPS_AFTER:]))
            found.append((max(time_of[first] - time_of[first - 1] - two,
                              time_of[computes] - time_of[computes - 1] - three), three))
        training.end()
    return found


def main():
    options = harness.options(__doc__)
    for job in ("fashion.yaml", "gpt.yaml"):
        found = stalls(options, job)
        beyond = [one[0] for one in found]
        usual = statistics.median(one[1] for one in found)
        harness.say(f"{job}: " + ", ".join(f"{1e3 * one:.0f}" for one in beyond) + " ms")
        harness.table((f"ms that two workers stand still while a third joins, {job.split('.')[0]} "
                       f"({len(found)} joins; a step takes {1e3 * usual:.0f})",
                       f"{1e3 * statistics.median(beyond):.0f} ({1e3 * max(beyond):.0f})", "–", "–",
                       "≤ 1 step and ≤ 100 ms"))


if __name__ == "__main__":
    main()
