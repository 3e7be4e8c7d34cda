#!/usr/bin/env python3
"""What being able to lose a worker costs while none is lost: the fashion model on 2 workers, elastic (the
default: own sums kept, replicas and paces compared), and fixed, without any of that.

The flight recorder, the ledger and the roll call are on in both; what they cost is measured by itself, and
given as a share of a step.

Usage: bench/elastic_cost.py [--build build/release] [--repetitions 40]
"""
import tempfile

import harness
import turns

WARM_UP = 10
BATCH = 256  # of fashion.yaml
OPERATIONS = 10  # a step, in the recorder: more than either shipped job has


def always_on(options):
    """Seconds of a step that the recorder takes, and all that is never off; of a new generation's schedule."""
    with tempfile.TemporaryDirectory() as folder:
        text = harness.run([options.build / "bench/always_on/muster_bench_always_on", folder])
    cost = {name: float(nanoseconds) / 1e9 for name, nanoseconds in map(str.split, text.splitlines())}
    recorder = OPERATIONS * cost["recorder"]
    return recorder, recorder + cost["roll_call"] + cost["ledger"], cost["schedule"]


def start(options, sets):
    return lambda folder: turns.Muster(folder, options.build, "fashion.yaml", 2, sets)


def main():
    options = harness.options(__doc__, repetitions=40)
    sides = {"elastic": [], "fixed": ["workers.min_workers=2", "workers.max_restarts=0", "replicas.compare_every=never",
                                      "stragglers.compare_every=86400s"]}
    played, losses = turns.play({name: start(options, sets) for name, sets in sides.items()},
                                options.repetitions, WARM_UP)
    if losses["elastic"] != losses["fixed"]:
        raise SystemExit("the losses differ")
    elastic, fixed = (turns.rates(played[name]) for name in sides)
    # Replicas are compared every 100 steps, so turns with and without that count together.
    cost = 1 - turns.mean_rate(played["elastic"]) / turns.mean_rate(played["fixed"])
    harness.table(("samples/s, fashion, 2 workers, elastic against a fixed membership",
                   harness.describe_rates(elastic), harness.describe_rates(fixed),
                   f"{100 * abs(cost):.1f} % {'slower' if cost > 0 else 'faster'}", "≤ 2 % slower"))
    recorder, both, schedule = always_on(options)
    step = BATCH / turns.mean_rate(played["elastic"])
    harness.table(("µs of a step in what is never off: flight recorder, and with it roll call and ledger",
                   f"{1e6 * recorder:.1f}, {1e6 * both:.1f}", f"{1e6 * step:,.0f}",
                   f"{100 * recorder / step:.3f} %, {100 * both / step:.3f} %", "recorder < 1 %, all ≤ 2 %"),
                  ("µs for the tree of 64 slices over 7 workers and the schedule of its sum, after a death",
                   f"{1e6 * schedule:.1f}", "–", "–", "–"))


if __name__ == "__main__":
    main()
