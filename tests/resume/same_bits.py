"""The weights after 200 steps, and what evaluations found, do not depend on how many workers and lanes
computed them."""
import runs

arguments = runs.arguments("--model", "--set")
FLAGS = runs.settings(arguments.set) if arguments.set else ()
with runs.workplace() as folder:
    runs.write_data(folder)
    job = runs.write_job(folder, arguments.model)
    expected = None
    for workers, lanes in [(w, lanes) for w in (1, 2, 3, 4, 5, 7) for lanes in (1, 2)]:
        runs.train(arguments.muster, job, "--workers", str(workers), *FLAGS,
                   "--set", f"training.lanes={lanes}")
        found = runs.weights(runs.latest(folder), 200)
        found["evaluations"] = runs.evaluations(runs.latest(folder))
        assert len(found["evaluations"]) == 4, found
        expected = expected or found
        assert found == expected, f"{workers} workers, {lanes} lanes: {found} instead of {expected}"
        print(f"{workers} workers, {lanes} lanes: {found['model.safetensors'][:16]}", flush=True)

    # The comparison can fail: another seed gives other weights.
    runs.train(arguments.muster, job, "--workers", "2", *FLAGS, "--set", "seed=6")
    assert runs.weights(runs.latest(folder), 200) != expected, "the seed changes nothing"
