#!/usr/bin/env python3
"""What being able to lose a worker costs while none is lost: the fashion model on 2 workers, elastic (the
default: own sums kept, replicas and paces compared), and fixed, without any of that.

The flight recorder, the ledger and the roll call are on in both; what they cost is measured by itself, and
given as a share of a step.

Usage: bench/elastic_cost.py [--build build/release] [--repetitions 4] [--steps 210]
"""
import statistics
import tempfile

import harness

WARM_UP = 10
OPERATIONS = 10  # a step, in the recorder: more than either shipped job has


def always_on(options):
    """Seconds of a step that the recorder takes, and all that is never off."""
    with tempfile.TemporaryDirectory() as folder:
        text = harness.run([options.build / "bench/always_on/muster_bench_always_on", folder])
    cost = {name: float(nanoseconds) / 1e9 for name, nanoseconds in map(str.split, text.splitlines())}
    recorder = OPERATIONS * cost["recorder"]
    return recorder, recorder + cost["roll_call"] + cost["ledger"]


def step_time(run):
    rows = run.rows[WARM_UP:]
    return statistics.median(after["time"] - before["time"] for before, after in zip(rows, rows[1:]))


def main():
    options = harness.options(__doc__, repetitions=4, steps=210)  # replicas are compared every 100
    sides = {"elastic": [], "fixed": ["workers.min_workers=2", "workers.max_restarts=0", "replicas.compare_every=never",
                                       "stragglers.compare_every=86400s"]}
    rates = {name: [] for name in sides}
    losses, steps = {}, []

    def turn():
        return [harness.Run(options.build, "fashion.yaml", 2, [f"training.max_steps={options.steps}", *sets])
                for sets in sides.values()]

    for _ in range(options.repetitions):
        for name, run in zip(sides, harness.undisturbed(turn)):
            rates[name].append(run.rate(WARM_UP))
            losses[name] = run.losses()
            steps.append(step_time(run))
        harness.say(", ".join(f"{name} {series[-1]:,.0f} samples/s" for name, series in rates.items()))
    if losses["elastic"] != losses["fixed"]:
        raise SystemExit("the losses differ")
    cost = 1 - harness.ratio(rates["elastic"], rates["fixed"])
    harness.table(("samples/s, fashion, 2 workers, elastic against a fixed membership",
                   harness.describe_rates(rates["elastic"]), harness.describe_rates(rates["fixed"]),
                   f"{100 * abs(cost):.1f} % {'slower' if cost > 0 else 'faster'}", "≤ 2 % slower"))
    recorder, both = always_on(options)
    step = statistics.median(steps)
    harness.table(("µs of a step in what is never off: flight recorder, and with it roll call and ledger",
                   f"{1e6 * recorder:.1f}, {1e6 * both:.1f}", f"{1e6 * step:,.0f}",
                   f"{100 * recorder / step:.3f} %, {100 * both / step:.3f} %", "recorder < 1 %, all ≤ 2 %"))


if __name__ == "__main__":
    main()
