#!/usr/bin/env python3
"""Samples per second and bytes of a rank of a gpt of 10.8 M parameters under ZeRO 1, 2 and 3, on 2 and 4 workers of one
host: against `strategy.type: data`, against the formulae of docs/strategies.md and what `muster plan` says, and against
PyTorch's FSDP2 (`fully_shard`, Gloo).

All sides begin with the same weights, take the same samples in the same order, with one thread a rank, AdamW and f32.
The ordered ones must have the same losses to the last bit, and the first losses of FSDP2 and of fast mode must be
theirs within TOLERANCE, or the comparison fails. FSDP2 takes a rank's samples in one pass, an ordered worker slice by
slice; fast mode takes them in one pass as well.

Memory is the most that the largest rank ever had resident, its libraries included; "beyond the libraries" is without
what is resident after a pass of a trivial model, in FSDP2 after a step of one. What a rank sends is the first worker's
`perf/bytes_on_wire`.

Usage: bench/sharded.py [--build build/release] [--repetitions 8] [--workers 2 4] [--layers 6] [--width 384]
"""
import pathlib
import tempfile
import typing

import harness
import prediction
import turns

JOB = "gpt.yaml"
TEXT = "data/kjv.txt"  # of the job
CONTEXT = 128  # of the job
HEAD_WIDTH = 64
BATCH = 8
SLICES = 8
SECONDS = 8.0  # a turn: a step takes half a second
WARM_UP = 10  # steps that are not timed
CHECKED = 10  # steps whose losses must agree
TOLERANCE = 5e-4  # of a loss, relative; a learning rate 1 % higher is three times further off
LEARNT = 0.05  # between the ends of all losses, relative
WITHIN = 0.02
OF_DATA = 0.95
OF_FSDP2 = 1.35
FAST = "ZeRO 3, fast"
WAYS = {"data": "data", "ZeRO 1": "sharded", "ZeRO 2": "sharded, stage 2", "ZeRO 3": "sharded, stage 3"}  # as planned


class Formula(typing.NamedTuple):
    """Bytes of a rank by docs/strategies.md ("Shards"), one lane a worker."""
    state: float  # weights, gradients and what the optimizer keeps
    sent: float


class Measured(typing.NamedTuple):
    peak: dict  # bytes, by side
    sent: dict  # bytes of a step, by muster's sides, all that there were
    own: int  # bytes that FSDP2's rank had resident before its model


def own_options(parser):
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)


def formulae(weights, layer, workers):
    """By way, from the bytes of all weights and of a layer's."""
    turns_of_slices = SLICES // workers
    sums = max(1, *((done * workers).bit_count() for done in range(turns_of_slices)))
    others = (workers - 1) / workers
    return {
        "data": Formula((3 + sums) * weights, weights),
        "ZeRO 1": Formula((1 + sums + 2 / workers) * weights, weights),
        "ZeRO 2": Formula((1 + (sums + 2) / workers) * weights, (turns_of_slices + 1) * others * weights),
        "ZeRO 3": Formula((3 + sums) / workers * weights + 2 * layer, 3 * turns_of_slices * others * weights)}


def layer_bytes(width):
    return 4 * (12 * width**2 + 13 * width)


def job_sets(options, weights):
    heads = options.width // HEAD_WIDTH
    return (f"model.n_layer={options.layers}", f"model.n_head={heads}", f"model.n_embd={options.width}",
            f"model.weights={weights}", "data.shuffle=false", f"training.global_batch_size={BATCH}",
            f"training.virtual_workers={SLICES}", "training.lanes=1")


def sizes(options):
    """As the peer wants them."""
    return [options.layers, options.width // HEAD_WIDTH, options.width, CONTEXT]


def planned(options, sets, workers):
    plan = prediction.Plan(JOB, sets, workers, WARM_UP, tuple(WAYS.values()))
    ways = prediction.predict(options, plan)
    return {name: prediction.found_among(ways, plan, way) for name, way in WAYS.items()}


def starters(options, sets, workers, plans):
    def muster(way, *more):
        chosen = [f"{field}={value}" for field, value in plans[way]["set"].items()]
        return lambda folder: turns.Muster(folder, options.build, JOB, workers,
                                           [*sets, *prediction.QUIET, *chosen, *more])

    peer = [*sizes(options), turns.STEPS, BATCH, TEXT]
    return {**{name: muster(name) for name in WAYS}, FAST: muster("ZeRO 3", "training.mode=fast"),
            "FSDP2": lambda folder: turns.Torchrun(folder, options.python, "fsdp2.py", peer, workers)}


def check_losses(losses):
    for name in WAYS:
        if losses[name] != losses["data"]:
            raise SystemExit(f"{name}: other losses than those of data")
    for name in (FAST, "FSDP2"):
        pairs = list(zip(losses[name], losses["data"]))[:CHECKED]
        off = [abs(prediction.off(other, loss)) for other, loss in pairs]
        harness.say(f"{name}: the losses of {len(off)} steps are {max(off):.1e} off at most")
        if len(off) < CHECKED or not max(off) <= TOLERANCE:
            raise SystemExit(f"{name}: losses {pairs}: expected to be within {TOLERANCE} of each other")
        harness.check_alike(losses["data"], losses[name], LEARNT, f"data and {name}")


def measure(options, sets, workers, plans):
    """Turns by side, and what was measured of bytes."""
    found = []

    def look(sides, rows):
        sent = {name: sorted({row["perf/bytes_on_wire"] for row in rows[name]}) for name in WAYS}
        found.append(Measured({name: side.peak_memory() for name, side in sides.items()}, sent,
                              rows["FSDP2"][0]["before_model"]))

    played, losses = turns.play(starters(options, sets, workers, plans), options.repetitions, WARM_UP, look, SECONDS)
    check_losses(losses)
    return {name: turns.rates(one) for name, one in played.items()}, found[0]


def reached(yes):
    return "yes" if yes else "**no**"


def show_rates(what, rates, ours, peer, goal):
    ratio = harness.ratio(rates[ours], rates[peer])
    harness.table((f"samples/s, {what}, {ours} against {peer}", harness.describe_rates(rates[ours], 1),
                   harness.describe_rates(rates[peer], 1), f"{ratio:.2f} ×", f"≥ {goal} ×" if goal else "–",
                   reached(ratio >= goal) if goal else "recorded"))


def show_memory(what, ours, peer):
    harness.table((f"MiB of a rank, {what}, ZeRO 3 against FSDP2", prediction.mib(ours), prediction.mib(peer),
                   f"{ours / peer:.2f} ×", "< 1 ×", reached(ours < peer)))


def show_comparison(what, rates, plans, measured):
    for way in WAYS:
        if way != "data":
            show_rates(what, rates, way, "data", OF_DATA)
    show_rates(what, rates, "ZeRO 3", "FSDP2", OF_FSDP2)
    show_rates(what, rates, FAST, "FSDP2", None)
    ours, peer = measured.peak["ZeRO 3"], measured.peak["FSDP2"]
    show_memory(what, ours, peer)
    show_memory(f"{what}, beyond the libraries", ours - plans["ZeRO 3"]["memory"]["process"], peer - measured.own)


def show_bytes(kind, what, expected, found):
    difference = prediction.off(found, expected)
    harness.table((f"MiB of a rank, {what}, {kind}", prediction.mib(found), prediction.mib(expected),
                   f"{100 * difference:+.1f} %", f"within {100 * WITHIN:.0f} %", reached(abs(difference) <= WITHIN)))


def show_formulae(what, told, plans, measured):
    for way, formula in told.items():
        memory, sent = plans[way]["memory"], measured.sent[way]
        state = memory["weights"] + memory["gradients"] + memory["optimizer"]
        most = max(sent, key=lambda number: abs(number - formula.sent))
        name = f"{what}, {way}"
        show_bytes("sent in a step, measured against the formula", name, formula.sent, most)
        show_bytes("weights, gradients and optimizer, planned against the formula", name, formula.state, state)
        show_bytes("resident at most, measured against formula and plan", name,
                   memory["total"] - state + formula.state, measured.peak[way])
        if sent != [plans[way]["bytes_on_wire"]]:
            raise SystemExit(f"{name}: {sent} bytes were sent in a step, planned are {plans[way]['bytes_on_wire']}")


def check_options(options):
    if options.layers < 2:
        raise SystemExit(f"--layers {options.layers}: expected 2 at least, the pair that ZeRO 3 has whole at a time")
    if options.width % HEAD_WIDTH:
        raise SystemExit(f"--width {options.width}: expected a multiple of {HEAD_WIDTH}, the width of a head")
    for workers in options.workers:
        if workers < 2 or SLICES % workers:
            raise SystemExit(f"--workers {workers}: expected 2, 4 or 8, which share {SLICES} slices evenly")


def compare(options, sets, workers):
    plans = planned(options, sets, workers)
    weights = plans["data"]["memory"]["weights"]
    rates, measured = measure(options, sets, workers, plans)
    what = f"gpt of {weights / 4e6:.1f} M, {workers} workers"
    show_comparison(what, rates, plans, measured)
    show_formulae(what, formulae(weights, layer_bytes(options.width), workers), plans, measured)


def main():
    options = harness.options(__doc__, repetitions=8, add=own_options)
    check_options(options)
    print(harness.circumstances(options.build), end="\n\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        weights = pathlib.Path(folder, "initial.safetensors")
        harness.run([options.python, harness.PEERS / "fsdp2.py", *sizes(options), weights])
        harness.table(("comparison", "ours", "peer, or expected", "ratio", "goal", "reached"), ["---"] * 6)
        for workers in options.workers:
            compare(options, job_sets(options, weights), workers)


if __name__ == "__main__":
    main()
