"""Strategies that spread the model or the optimizer's state over the workers: the same weights and state as
when every worker holds everything, and a checkpoint of the one goes on as the other, at another size, also
after a death."""
import runs

SHARDED = runs.settings("strategy.type=sharded")
ZERO2 = runs.settings("strategy.type=sharded", "strategy.zero_stage=2")
ZERO3 = runs.settings("strategy.type=sharded", "strategy.zero_stage=3")


def pipeline(**fields):
    return runs.settings("strategy.type=pipeline", *(f"strategy.{name}={value}" for name, value in fields.items()))


arguments = runs.arguments("--model")


def train(job, workers, *flags):
    return runs.train(arguments.muster, job, "--workers", str(workers), *flags)


with runs.workplace() as folder:
    runs.write_data(folder)
    job = runs.write_job(folder, arguments.model)
    train(job, 2)
    expected = runs.weights(runs.latest(folder), 200)
    assert "optimizer.safetensors" in expected, expected

    for workers, flags in ((3, SHARDED), (5, ZERO2), (3, ZERO3), (2, ZERO3 + runs.settings("training.lanes=2")),
                           (3, pipeline()), (4, pipeline(stages=2, schedule="interleaved"))):
        train(job, workers, *flags)
        found = runs.weights(runs.latest(folder), 200)
        assert found == expected, f"{workers} workers, {flags}: {found} instead of {expected}"
        print(f"{workers} workers, {flags}: same", flush=True)

    fixed = runs.settings("workers.min_workers=2", "workers.max_restarts=0")
    for before, after in (((3, *ZERO2), (2, *SHARDED)), ((2, *fixed), (4, *pipeline(stages=2))),
                          ((3, *pipeline(schedule="gpipe")), (4, *ZERO2)),
                          ((3, *ZERO3), (2, *ZERO2)), ((2, *SHARDED), (5, *ZERO3)), ((2, *ZERO3), (3, *pipeline())),
                          ((2, *ZERO3), (1,))):
        run = runs.killed_after(arguments.muster, job, folder, 90, *before)
        train(job, *after, "--resume")
        assert runs.latest(folder) == run, "resumed into another folder"
        found = runs.weights(run, 200)
        assert found == expected, f"{before}, then {after}: {found} instead of {expected}"
        print(f"{before}, then {after}: same", flush=True)
