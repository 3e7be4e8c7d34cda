#!/usr/bin/env python3
"""How long training stands still for a checkpoint: muster, one memory copy of the state, and
torch.distributed.checkpoint.async_save of as many bytes.

muster's stall is all the time of a save that does not belong to a step (starting it, waiting for
the one before) and what the next step waits for the copy. The first save of each side, which also
allocates, is left out. Every checkpoint is verified: by `muster checkpoint verify`, by dcp.load.

Usage: bench/checkpoint_stall.py [--build build/release] [--repetitions 5]
"""
import json
import math
import statistics

import harness


def spans(rows):
    """Seconds of each step with the pause before it; and, of those, the pause and the stall."""
    result = {}
    for before, row in zip(rows, rows[1:]):
        whole = row["time"] - before["time"]
        pause = whole - row["perf/step_time_s"]
        result[row["step"]] = (whole, pause + row["phase/checkpoint_stall_s"])
    return result


def muster(options):
    """Bytes of a checkpoint, stalls of saves, seconds that a save costs in all, seconds it takes."""
    run = harness.Run(options.build, "wide.yaml", 2)
    steps = spans(run.rows)
    took = statistics.median(record["took_s"] for record in run.written)
    saves = sorted(record["step"] for record in run.written)
    window = 1 + math.ceil(took / statistics.median(whole for whole, _ in steps.values()))
    during = {step + i for step in saves for i in range(1, window + 1)}
    whole = statistics.median(steps[step][0] for step in steps if step not in during)
    ordinary = statistics.median(steps[step][1] for step in steps if step not in during)
    timed = [step for step in saves[1:] if step + window in steps]
    stalls = [steps[step + 1][1] - ordinary for step in timed]
    costs = [sum(steps[step + i][0] - whole for i in range(1, window + 1)) for step in timed]
    return run.written[0]["bytes"], statistics.median(stalls), statistics.median(costs), took


def async_save(options, size):
    text = harness.run([options.python, harness.PEERS / "async_save.py", size])
    return json.loads(text.splitlines()[-1])


def turn(options):
    ours = muster(options)
    return ours, async_save(options, ours[0])


def main():
    options = harness.options(__doc__)
    stalls, peer, copies, costs = [], [], [], []
    for _ in range(options.repetitions):
        (size, stall, cost, took), theirs = harness.undisturbed(lambda: turn(options))
        stalls.append(stall)
        peer.append(statistics.median(theirs["stalls"]))
        copies.append(statistics.median(theirs["copies"]))
        costs.append(cost)
        harness.say(f"{size / 2**20:.0f} MiB: stall {1e3 * stalls[-1]:.1f} ms, "
                    f"{1e3 * cost:.0f} ms of training lost in all, saved in {took:.2f} s; async_save "
                    f"{1e3 * peer[-1]:.1f} ms; one copy {1e3 * copies[-1]:.1f} ms")
    ours = harness.describe_times(stalls, digits=1)
    copied = harness.describe_times(copies, digits=1)
    harness.table(
        (f"ms of stall for a checkpoint of {size >> 20} MiB, against one memory copy", ours, copied,
         f"{harness.ratio(stalls, copies):.2f} copies", "≤ 0.1 copies"),
        ("ms of training that a save costs in all: stall, and cores shared with hashing and writing",
         harness.describe_times(costs), copied, f"{harness.ratio(costs, copies):.1f} copies",
         "recorded"),
        ("ms of stall for a checkpoint, against async_save", ours,
         harness.describe_times(peer, digits=1), f"{harness.ratio(peer, stalls):.0f} × shorter",
         "recorded"))


if __name__ == "__main__":
    main()
