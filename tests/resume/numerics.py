"""What changes the numbers of a training – optimizers and the like – gives the same bits at any number of
workers, with shards or without, and after a death goes on at another size as if nothing had been."""
import runs

STEPS = 60
SHARDED = runs.settings("strategy.type=sharded")

FEATURES = {
    "lars": ("resnet", ["optimizer.type=lars", "optimizer.learning_rate=5"]),
    "lamb": ("gpt", ["optimizer.type=lamb"]),
    "groups": ("resnet", ["optimizer.groups=[{match: ['*.bias', '*norm*'], weight_decay: 0.01}, "
                          "{match: head.*, learning_rate_factor: 3}]"]),
    "ema": ("resnet", ["ema.decay=0.9"]),
    "lora": ("gpt", ["lora.rank=4", "lora.dropout=0.1", "ema.decay=0.9"]),
    "freeze": ("gpt", ["training.freeze=[embedding.*, layer0.*.bias]"]),
    "sync_batch_norm": ("resnet", ["training.sync_batch_norm=true"]),
    "label_smoothing": ("gpt", ["training.label_smoothing=10%"]),
}

arguments = runs.arguments("--feature")
model, settings = FEATURES[arguments.feature]
flags = runs.settings(*settings)


def found(run):
    weights = runs.weights(run, STEPS)
    return weights | {"evaluations": runs.evaluations(run)[-1]}


with runs.workplace() as folder:
    runs.write_data(folder)
    job = runs.write_job(folder, model, steps=STEPS)
    runs.train(arguments.muster, job, "--workers", "1", *flags)
    expected = found(runs.latest(folder))
    print(f"1 worker: {expected}", flush=True)

    runs.train(arguments.muster, job, "--workers", "5", *flags)
    assert found(runs.latest(folder)) == expected, f"5 workers: {found(runs.latest(folder))}"

    run = runs.killed_after(arguments.muster, job, folder, 30, 3, *flags, *SHARDED)
    runs.train(arguments.muster, job, "--workers", "2", "--resume", *flags)
    assert runs.latest(folder) == run, "resumed into another folder"
    assert found(run) == expected, f"3 workers with shards, then 2 without: {found(run)}"
