"""Killed at a random step – one worker, and the job with it, or all of it at once, launcher and workers – and
resumed at another size: the same weights as undisturbed."""
import contextlib
import random

import runs

SIZES = [(3, 2), (1, 4), (2, 5)]  # workers before, workers after
ALL_AT_ONCE = (2, 3)
STEPS = 200

arguments = runs.arguments("--model", "--seed")
seed = int(arguments.seed) if arguments.seed else random.SystemRandom().randrange(1 << 32)
print(f"--seed {seed}", flush=True)
draw = random.Random(seed)


def begin(job, workers):
    """A job that a death ends."""
    return runs.start(arguments.muster, job, "--workers", str(workers),
                      "--set", f"workers.min_workers={workers}", "--set", "workers.max_restarts=0")


def struck(strike, *where):
    """The first that was struck before it had come to its end: this process may be held up for longer than that takes."""
    for _ in range(runs.ATTEMPTS):
        if found := strike(*where):
            return found
    raise AssertionError("it has come to its end each time before it was struck")


def all_was_done(run):
    return max(row["step"] for row in runs.rows(run)) == STEPS


def kill_one(job, folder, workers):
    """What the job says of the one that died; the run, and what happened."""
    process, step, victim = begin(job, workers), draw.randrange(21, 180), draw.randrange(workers)
    found = runs.killed_in_time(process, folder, step, lambda pids: [pids[victim]])
    if not found:
        return None
    run, pids = found
    code, output = runs.finish(process)
    if all_was_done(run):
        return None
    assert len(pids) == workers, pids
    assert code == 1, f"exit code {code}:\n{output}"
    assert f"rank {victim}" in output and "SIGKILL" in output, output
    place = runs.place_of(output, victim, run)
    assert runs.PLACE.fullmatch(place) or place == runs.BETWEEN, place
    assert not any(runs.alive(pid) for pid in pids.values()), "a worker outlived its job"
    runs.no_memory_stays(folder)
    return run, place, f"rank {victim} killed after step {step}, {place}"


def kill_all(job, folder, workers):
    """As when the host loses power: nobody is left to say or save anything."""
    process, step = begin(job, workers), draw.randrange(21, 180)
    found = runs.killed_in_time(process, folder, step, lambda _: [process.pid])
    if not found:
        return None
    run, pids = found
    for pid in pids.values():
        with contextlib.suppress(ProcessLookupError):  # gone with its launcher
            runs.kill(pid)
    code, output = runs.finish(process)
    if all_was_done(run):
        return None
    assert len(pids) == workers, pids
    assert code < 0, f"exit code {code}:\n{output}"
    runs.wait_for(lambda: not any(runs.alive(pid) for pid in pids.values()), "the end of the workers")
    runs.no_memory_stays(folder)
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
        run, place, what = struck(kill_one, job, folder, before)
        places.append(place)
        goes_on(job, folder, run, after, expected, f"{before} workers, {what}")
    while set(places) == {runs.BETWEEN}:  # a moment between two passes, of which small models have many
        assert len(places) < 12, "deaths in a step are told without the operation"
        places.append(struck(kill_one, job, folder, 2)[1])

    before, after = ALL_AT_ONCE
    run, what = struck(kill_all, job, folder, before)
    goes_on(job, folder, run, after, expected, f"{before} workers, {what}")
