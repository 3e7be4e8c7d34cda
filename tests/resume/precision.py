"""Training in 16 bits: the same weights and the same loss scale at any size, with and without
recomputation, through a death and a resume, where the scale skips steps; and what happens when no
scale helps."""
import json

import runs

STEPS = 200
FP16 = runs.settings("training.precision=fp16", "training.reduce_precision=fp16",
                     "training.loss_scale.init_scale=1e7",
                     "training.loss_scale.growth_interval=7")
RECOMPUTED = runs.settings("training.recompute=['*']")
HOPELESS = runs.settings("training.loss_scale.init_scale=1e30", "training.loss_scale.min_scale=1e30")

arguments = runs.arguments("--model")


def state(run):
    """Of the trainer, at the end: the loss scale is part of it."""
    folder = sorted(run.glob(f"checkpoints/step-{STEPS:08d}*"))[-1]
    return json.loads((folder / "manifest.json").read_text())["manifest"]["state"]


def skipped(run):
    return [int(row["text"].split()[1]) for row in runs.records(run, "notice")
            if "overflows in fp16" in row["text"]]


with runs.workplace() as folder:
    runs.write_data(folder)
    job = runs.write_job(folder, arguments.model, steps=STEPS)

    def train(workers, *flags):
        runs.train(arguments.muster, job, "--workers", str(workers), *FP16, *flags)

    train(1)
    run = runs.latest(folder)
    expected = (runs.weights(run, STEPS), state(run))
    steps = skipped(run)
    print(f"steps {steps} were skipped", flush=True)
    assert len(steps) > 4 and steps[-1] > 10, steps
    assert expected[1]["optimizer_steps"] == STEPS - len(steps), expected
    assert expected[1]["loss_scale"]["scale"] > 0, expected

    def check(what):
        run = runs.latest(folder)
        found = (runs.weights(run, STEPS), state(run))
        assert found == expected, f"{what}: {found} instead of {expected}"
        print(f"{what}: same", flush=True)

    for _ in range(runs.ATTEMPTS):
        process = runs.start(arguments.muster, job, "--workers", "3", *FP16, *RECOMPUTED)
        if struck := runs.killed_in_time(process, folder, 5, lambda pids: [pids[1]]):
            break
    assert struck, "it has come to its end each time before a worker could be killed"
    code, output = runs.finish(process)
    assert code == 0, f"exit code {code}:\n{output}"
    check("3 workers, one of which dies")
    assert skipped(runs.latest(folder)) == steps, skipped(runs.latest(folder))

    runs.killed_after(arguments.muster, job, folder, 60, 3, *FP16, *runs.settings("strategy.type=sharded"))
    train(2, "--resume", *RECOMPUTED)
    check("3 workers with shards, killed, then 2 without")

    code, output = runs.finish(runs.start(arguments.muster, job, "--workers", "2", *FP16, *HOPELESS))
    assert code == 4, f"exit code {code}:\n{output}"
    assert "3 steps in a row overflowed at the smallest loss scale" in output, output
    print("no scale helps: exit code 4", flush=True)
