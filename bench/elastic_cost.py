#!/usr/bin/env python3
"""What being able to lose a worker costs while none is lost: the fashion model on 2 workers, elastic (the
default: own sums kept, replicas and paces compared), and fixed, without any of that.

Usage: bench/elastic_cost.py [--build build/release] [--repetitions 4] [--steps 60]
"""
import harness

WARM_UP = 10


def main():
    options = harness.options(__doc__, repetitions=4, steps=60)
    sides = {"elastic": [], "fixed": ["workers.min_workers=2", "workers.max_restarts=0", "replicas.compare_every=never",
                                       "stragglers.compare_every=86400s"]}
    rates = {name: [] for name in sides}
    losses = {}

    def turn():
        return [harness.Run(options.build, "fashion.yaml", 2, [f"training.max_steps={options.steps}", *sets])
                for sets in sides.values()]

    for _ in range(options.repetitions):
        for name, run in zip(sides, harness.undisturbed(turn)):
            rates[name].append(run.rate(WARM_UP))
            losses[name] = run.losses()
        harness.say(", ".join(f"{name} {series[-1]:,.0f} samples/s" for name, series in rates.items()))
    if losses["elastic"] != losses["fixed"]:
        raise SystemExit("the losses differ")
    cost = 1 - harness.ratio(rates["elastic"], rates["fixed"])
    harness.table(("samples/s, fashion, 2 workers, elastic against a fixed membership",
                   harness.describe_rates(rates["elastic"]), harness.describe_rates(rates["fixed"]),
                   f"{100 * abs(cost):.1f} % {'slower' if cost > 0 else 'faster'}", "≤ 2 % slower"))


if __name__ == "__main__":
    main()
