#!/usr/bin/env python3
"""A worker joins two others that train: how long they stand still.

One of three workers is killed; the one that is started for it joins when it is ready. The others stand
still twice: where the generation changes, and where the newcomer, which has got the state beside their
training, takes over slices. Each is the time of that step less the usual one, of two workers before the
change and of three after it; the longer one counts.

Usage: bench/join.py [--build build/release] [--repetitions 5]
"""
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import tempfile

import harness
from recovery import Follower, children, intervals, muster_rows

STEPS_AFTER = 12


def first_steps(folder):
    """By generation: the first step that it committed."""
    first = {}
    for path in folder.glob("*/latest/ledger.jsonl"):
        for line in path.read_text().split("\n")[:-1]:
            row = json.loads(line)
            if "generation" in row:
                first.setdefault(row["generation"], row["steps"][0])
    return first


def begins_to_compute(folder, worker):
    """The steps from which on newcomers computed."""
    steps = []
    for path in folder.glob("*/latest/metrics.jsonl"):
        for line in path.read_text().split("\n")[:-1]:
            found = re.search(rf"worker {worker} got the state .* from step (\d+) on", line)
            if found:
                steps.append(int(found.group(1)))
    return steps


def stalls(options, job):
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        sets = (f"run_folder={place}", "training.max_steps=100000", "logging.logging_steps=1000",
                f"workers.max_restarts={options.repetitions}")
        command = harness.train_command(options.build, job, 3, sets)
        process = subprocess.Popen(command, cwd=harness.ROOT, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        follower = Follower(muster_rows(folder))
        follower.wait(lambda rows: len(rows) > STEPS_AFTER)
        found = []
        for joined in range(options.repetitions):
            os.kill(children(process.pid, "muster-worker")[2], signal.SIGKILL)
            new = 3 + 2 * joined  # one generation without it, one with the new one
            follower.wait(lambda rows: new in first_steps(folder))
            follower.wait(lambda rows: len(begins_to_compute(folder, 2)) > joined)
            first, computes = first_steps(folder)[new], begins_to_compute(folder, 2)[joined]
            rows = follower.wait(lambda rows: rows[-1][0] >= computes + STEPS_AFTER)
            time_of = dict(rows)
            two = statistics.median(time_of[step] - time_of[step - 1] for step in range(first - 6, first))
            three = statistics.median(intervals(rows[-STEPS_AFTER:]))
            found.append((max(time_of[first] - time_of[first - 1] - two,
                              time_of[computes] - time_of[computes - 1] - three), three))
        process.send_signal(signal.SIGINT)
        if process.wait(timeout=60) != 130:
            raise SystemExit(f"muster ended with {process.returncode}")
        [run] = folder.glob("*/latest")
        harness.run([options.build / "bin/muster", "data", "audit", run])
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
