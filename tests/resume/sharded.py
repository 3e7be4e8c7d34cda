"""The optimizer's state in shards: the same weights and state as when every worker holds everything, and
a checkpoint of the one goes on as the other, at another size, also after a death."""
import runs

SHARDED = runs.settings("strategy.type=sharded")

arguments = runs.arguments("--model")


def train(job, workers, *flags):
    return runs.train(arguments.muster, job, "--workers", str(workers), *flags)


with runs.workplace() as folder:
    runs.write_data(folder)
    job = runs.write_job(folder, arguments.model)
    train(job, 2)
    expected = runs.weights(runs.latest(folder), 200)
    assert "optimizer.safetensors" in expected, expected

    for workers, lanes in ((1, 1), (3, 2), (8, 1)):
        train(job, workers, *SHARDED, *runs.settings(f"training.lanes={lanes}"))
        found = runs.weights(runs.latest(folder), 200)
        assert found == expected, f"{workers} workers, {lanes} lanes: {found} instead of {expected}"
        print(f"{workers} workers, {lanes} lanes: same", flush=True)

    fixed = runs.settings("workers.min_workers=2", "workers.max_restarts=0")
    for before, after in (((3, *SHARDED), (2,)), ((2, *fixed), (5, *SHARDED)),
                          ((4, *SHARDED), (3, *SHARDED))):
        run = runs.killed_after(arguments.muster, job, folder, 90, *before)
        train(job, *after, "--resume")
        assert runs.latest(folder) == run, "resumed into another folder"
        found = runs.weights(run, 200)
        assert found == expected, f"{before}, then {after}: {found} instead of {expected}"
        print(f"{before}, then {after}: same", flush=True)
