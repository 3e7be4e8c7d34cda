#!/usr/bin/env python3
"""Samples per second of the fashion model on 2 workers: muster, PyTorch DDP, and 2 × one worker.

One worker is one process on one core with half the batch, so that 2 × it is free of any
communication: both cores have such a worker in turn. Side by side, two such workers that know nothing of
each other show what the machine gives two processes at once. All sides must learn alike.

Usage: bench/data_parallel.py [--build build/release] [--repetitions 20]
"""
import harness
import turns

BATCH = 256
WARM_UP = 20  # steps that are not timed


def muster(options, workers, share, core=None):
    sets = [f"training.global_batch_size={BATCH // share}", f"training.virtual_workers={8 // share}"]
    return lambda folder: turns.Muster(folder, options.build, "fashion.yaml", workers, sets, core)


def side_by_side(options, folder):
    sides = []
    for core in (0, 1):
        own = folder / str(core)
        own.mkdir()
        sides.append(muster(options, 1, 2, core)(own))
    return turns.SideBySide(sides)


def main():
    options = harness.options(__doc__, repetitions=20)
    played, losses = turns.play({
        "two": muster(options, 2, 1),
        "DDP": lambda folder: turns.Torchrun(folder, options.python, "ddp.py", [turns.STEPS, BATCH]),
        "first": muster(options, 1, 2, core=0),
        "second": muster(options, 1, 2, core=1),
        "beside": lambda folder: side_by_side(options, folder),
    }, options.repetitions, WARM_UP)
    harness.check_alike(losses["two"], losses["DDP"], 0.25, "muster and DDP")
    harness.check_alike(losses["two"], losses["first"], 0.3, "2 workers and half the batch")
    two, ddp, beside = (turns.rates(played[name]) for name in ("two", "DDP", "beside"))
    twice_one = [a + b for a, b in zip(turns.rates(played["first"]), turns.rates(played["second"]), strict=True)]
    ours = harness.describe_rates(two)
    harness.table(
        ("samples/s, fashion, 2 workers, against DDP", ours, harness.describe_rates(ddp),
         f"{harness.ratio(two, ddp):.2f} ×", "≥ 1.15 ×"),
        ("samples/s, fashion, 2 workers, against 2 × one worker", ours, harness.describe_rates(twice_one),
         f"{100 * harness.ratio(two, twice_one):.1f} %", "≥ 97 %"),
        ("samples/s, fashion, 2 workers, against two jobs of one worker side by side", ours,
         harness.describe_rates(beside), f"{100 * harness.ratio(two, beside):.1f} %", "–"))


if __name__ == "__main__":
    main()
