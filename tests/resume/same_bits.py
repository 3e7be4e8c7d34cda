"""The weights after 200 steps, or --steps of them, and what evaluations found, do not depend on how many
workers and lanes computed them."""
import runs

arguments = runs.arguments("--model", "--set", "--steps")
STEPS = int(arguments.steps or 200)
EVALUATED = 50  # steps from one evaluation to the next
FLAGS = runs.settings(arguments.set) if arguments.set else ()
with runs.workplace() as folder:
    runs.write_data(folder)
    job = runs.write_job(folder, arguments.model, STEPS)
    expected = None
    for workers, lanes in [(w, lanes) for w in (1, 2, 3, 4, 5, 7) for lanes in (1, 2)]:
        runs.train(arguments.muster, job, "--workers", str(workers), *FLAGS,
                   "--set", f"training.lanes={lanes}")
        found = runs.weights(runs.latest(folder), STEPS)
        found["evaluations"] = runs.evaluations(runs.latest(folder))
        assert len(found["evaluations"]) == STEPS // EVALUATED, found
        expected = expected or found
        assert found == expected, f"{workers} workers, {lanes} lanes: {found} instead of {expected}"
        print(f"{workers} workers, {lanes} lanes: {found['model.safetensors'][:16]}", flush=True)

    # The comparison can fail: another seed gives other weights.
    runs.train(arguments.muster, job, "--workers", "2", *FLAGS, "--set", "seed=6")
    assert runs.weights(runs.latest(folder), STEPS) != expected, "the seed changes nothing"
