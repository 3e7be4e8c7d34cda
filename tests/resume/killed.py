"""Killed at a random step – one worker, and the job with it, or all of it at once, launcher and workers – and
resumed at another size: the same weights as undisturbed."""
import contextlib
import random

import runs

SIZES = [(3, 2), (1, 4), (2, 5)]  # workers before, workers after
ALL_AT_ONCE = (2, 3)

arguments = runs.arguments("--model", "--seed")
seed = int(arguments.seed) if arguments.seed else random.SystemRandom().randrange(1 << 32)
print(f"--seed {seed}", flush=True)
draw = random.Random(seed)


def begin(job, folder, workers):
    """A job that a death ends, after a random step and a checkpoint; its run, and its process ids by rank."""
    process = runs.start(arguments.muster, job, "--workers", str(workers),
                         "--set", f"workers.min_workers={workers}", "--set", "workers.max_restarts=0")
    step = draw.randrange(21, 180)
    run = runs.wait_for_step(process, folder, step)
    runs.wait_for(lambda: list(run.glob("checkpoints/*/manifest.json")), "a checkpoint")
    pids = runs.workers_of(process)
    assert len(pids) == workers, pids
    return process, run, pids, step


def kill_one(job, folder, workers):
    """What the job says of the one that died; the run, and what happened."""
    process, run, pids, step = begin(job, folder, workers)
    victim = draw.randrange(workers)
    runs.kill(pids[victim])
    code, output = runs.finish(process)
    assert code == 1, f"exit code {code}:\n{output}"
    assert f"rank {victim}" in output and "SIGKILL" in output, output
    place = runs.place_of(output, victim, run)
    assert runs.PLACE.fullmatch(place) or place == runs.BETWEEN, place
    assert not any(runs.alive(pid) for pid in pids.values()), "a worker outlived its job"
    runs.no_memory_stays(folder)
    return run, place, f"rank {victim} killed after step {step}, {place}"


def kill_all(job, folder, workers):
    """As when the host loses power: nobody is left to say or save anything."""
    process, run, pids, step = begin(job, folder, workers)
    for pid in (process.pid, *pids.values()):
        with contextlib.suppress(ProcessLookupError):  # gone with its launcher
            runs.kill(pid)
    code, output = runs.finish(process)
    assert code < 0, f"exit code {code}:\n{output}"
    runs.wait_for(lambda: not any(runs.alive(pid) for pid in pids.values()), "the end of the workers")
    runs.no_memory_stays(folder)
    done = max(row["step"] for row in runs.rows(run))
    assert done < 200, "it had come to its end before it was killed"
    return run, f"all killed after step {step}"


def goes_on(job, folder, run, after, expected, what):
    output = runs.train(arguments.muster, job, "--workers", str(after), "--resume")
    assert runs.latest(folder) == run, f"resumed into another folder:\n{output}"
    assert list(run.glob("checkpoints/step-00000200*")), f"{what}: no checkpoint of the end:\n{output}"
    found = runs.weights(run, 200)
    assert found == expected, f"{what}, then {after} workers: {found}, {expected}"
    steps = [row["step"] for row in runs.rows(run) if "train/loss" in row]
    assert steps[-1] == 200, steps[-1]
    print(f"{what}, {after} workers: same", flush=True)


with runs.workplace() as folder:
    runs.write_data(folder)
    job = runs.write_job(folder, arguments.model)
    runs.train(arguments.muster, job, "--workers", "2")
    expected = runs.weights(runs.latest(folder), 200)

    places = []
    for before, after in SIZES:
        run, place, what = kill_one(job, folder, before)
        places.append(place)
        goes_on(job, folder, run, after, expected, f"{before} workers, {what}")
    while set(places) == {runs.BETWEEN}:  # a moment between two passes, of which small models have many
        assert len(places) < 12, "deaths in a step are told without the operation"
        places.append(kill_one(job, folder, 2)[1])

    before, after = ALL_AT_ONCE
    run, what = kill_all(job, folder, before)
    goes_on(job, folder, run, after, expected, f"{before} workers, {what}")
