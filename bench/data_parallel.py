#!/usr/bin/env python3
"""Samples per second of the fashion model on 2 workers: muster, PyTorch DDP, and 2 × one worker.

One worker is one process on one core with half the batch, so that 2 × it is free of any
communication. Rates are those of steady state; all sides must learn alike.

Usage: bench/data_parallel.py [--build build/release] [--repetitions 5] [--steps 100]
"""
import harness

BATCH = 256
WARM_UP = 20  # steps that are not timed


def muster(options, workers, share, core=None):
    sets = [f"training.max_steps={options.steps}", f"training.global_batch_size={BATCH // share}",
            f"training.virtual_workers={8 // share}"]
    return harness.Run(options.build, "fashion.yaml", workers, sets, core)


def ddp(options):
    _, rows = harness.torchrun(options.python, "ddp.py", [options.steps, BATCH])
    samples = BATCH * (len(rows) - WARM_UP)
    return [row["loss"] for row in rows], samples / (rows[-1]["time"] - rows[WARM_UP - 1]["time"])


def main():
    options = harness.options(__doc__, steps=100)
    two, peer, one = [], [], []
    for repetition in range(options.repetitions):
        ours, (losses, rate), single = harness.undisturbed(lambda: (
            muster(options, 2, 1), ddp(options), muster(options, 1, 2, core=repetition % 2)))
        harness.check_alike(ours.losses(), losses, 0.25, "muster and DDP")
        harness.check_alike(ours.losses(), single.losses(), 0.3, "2 workers and half the batch")
        two.append(ours.rate(WARM_UP))
        peer.append(rate)
        one.append(2 * single.rate(WARM_UP))
        harness.say(f"muster {two[-1]:.0f}, DDP {peer[-1]:.0f}, 2 × one {one[-1]:.0f} samples/s")
    ours = harness.describe_rates(two)
    harness.table(
        ("samples/s, fashion, 2 workers, against DDP", ours, harness.describe_rates(peer),
         f"{harness.ratio(two, peer):.2f} ×", "≥ 1.15 ×"),
        ("samples/s, fashion, 2 workers, against 2 × one worker", ours, harness.describe_rates(one),
         f"{100 * harness.ratio(two, one):.1f} %", "≥ 97 %"))


if __name__ == "__main__":
    main()
