#!/usr/bin/env python3
"""What it costs of a step to tell everything there is to tell: the fashion model on 2 workers, with a trace, an endpoint
that is scraped once a second, an MLflow server that gets every step and somebody at the run's page, and with nothing
asked for: what is left then is the console, metrics.jsonl, the ledger and TensorBoard.

Also the processor's time that each sink takes of a step, and all together, fed with the steps of a run that was recorded
(bench/sinks); MLflow gets every step there as well, of which a job sends every tenth.

Usage: bench/sinks.py [--build build/release] [--repetitions 40]
"""
import contextlib
import json
import pathlib
import tempfile

import everything_on
import harness
import turns

WARM_UP = 10
BATCH = 256  # of fashion.yaml
RECORDED = 40  # steps
GOAL = "≤ 1 %"


def in_turns(options):
    """Turns with everything on and with nothing asked for."""
    with contextlib.closing(everything_on.Tracking()) as tracking:
        played, losses = turns.play(
            {"on": lambda folder: everything_on.EverythingOn(folder, options.build, "fashion.yaml", 2, tracking),
             "off": lambda folder: turns.Muster(folder, options.build, "fashion.yaml", 2)},
            options.repetitions, WARM_UP, lambda sides, rows: sides["on"].check(tracking, len(rows["on"])))
    if losses["on"] != losses["off"]:
        raise SystemExit("the losses differ")
    return played


def record(options, folder):
    harness.run(harness.train_command(options.build, "fashion.yaml", 2, [
        f"run_folder={folder}", f"training.max_steps={RECORDED}", "trace.enabled=true"]))
    [metrics] = pathlib.Path(folder).glob("*/latest/metrics.jsonl")
    return metrics.parent


def in_sinks(options):
    """By sink, and for "all": seconds of the processor that a step takes there."""
    with tempfile.TemporaryDirectory() as root, contextlib.closing(everything_on.Tracking()) as tracking:
        run = record(options, pathlib.Path(root, "recorded"))
        program = options.build / "bench/sinks/muster_bench_sinks"
        *console, result = harness.run([program, pathlib.Path(root, "told"), run, tracking.uri]).splitlines()
        told = json.loads(result)
        lines = sum(line.startswith("step ") for line in console)
        wanted = told["runs"] * (1 + told["steps"] // 10)
        if lines != wanted or tracking.numbers != told["numbers"]:
            raise SystemExit(f"the console has {lines} of {wanted} lines, MLflow {tracking.numbers} of "
                             f"{told['numbers']} numbers")
    return {name: nanoseconds / 1e9 for name, nanoseconds in told["nanoseconds"].items()}


def main():
    options = harness.options(__doc__, repetitions=40)
    played = in_turns(options)
    on, off = (turns.rates(played[name]) for name in ("on", "off"))
    # What is done once a second or every tenth step falls into some turns and not into others.
    cost = 1 - turns.mean_rate(played["on"]) / turns.mean_rate(played["off"])
    harness.table(("samples/s, fashion, 2 workers, with a trace, Prometheus, MLflow and a page against without",
                   harness.describe_rates(on), harness.describe_rates(off),
                   f"{100 * abs(cost):.1f} % {'slower' if cost > 0 else 'faster'}", GOAL))
    step = BATCH / turns.mean_rate(played["off"])
    costs = in_sinks(options)
    whole = costs.pop("all")
    harness.table(("µs of a step in all sinks", f"{1e6 * whole:.0f}", f"{1e6 * step:,.0f}",
                   f"{100 * whole / step:.2f} %", GOAL))
    harness.table(*((f"µs of a step in {name} alone", f"{1e6 * seconds:.0f}", f"{1e6 * step:,.0f}",
                     f"{100 * seconds / step:.3f} %", "–") for name, seconds in costs.items()))


if __name__ == "__main__":
    main()
