"""Killed at a random step and resumed at another size: the same weights as undisturbed."""
import random
import re

import runs

SIZES = [(3, 2), (1, 4), (2, 5)]

arguments = runs.arguments("--model", "--seed")
seed = int(arguments.seed) if arguments.seed else random.SystemRandom().randrange(1 << 32)
print(f"--seed {seed}", flush=True)
draw = random.Random(seed)

with runs.workplace() as folder:
    runs.write_data(folder)
    job = runs.write_job(folder, arguments.model)
    runs.train(arguments.muster, job, "--workers", "2")
    expected = runs.weights(runs.latest(folder), 200)

    for before, after in SIZES:
        process = runs.start(arguments.muster, job, "--workers", str(before),
                             "--set", f"workers.min_workers={before}", "--set", "workers.max_restarts=0")
        step = draw.randrange(21, 180)
        run = runs.wait_for_step(process, folder, step)
        workers = runs.workers_of(process)
        assert len(workers) == before, workers
        victim = draw.randrange(before)
        runs.kill(workers[victim])
        code, output = runs.finish(process)
        assert code == 1, f"exit code {code}:\n{output}"
        assert f"rank {victim}" in output and "SIGKILL" in output, output
        place = runs.place_of(output, victim, run)
        assert re.match(runs.PLACE, place), place
        assert not any(runs.alive(pid) for pid in workers.values()), "a worker outlived its job"

        output = runs.train(arguments.muster, job, "--workers", str(after), "--resume")
        assert runs.latest(folder) == run, "resumed into another folder"
        found = runs.weights(run, 200)
        assert found == expected, f"{before} workers, killed after {step}, then {after}: {found}, {expected}"
        steps = [row["step"] for row in runs.rows(run) if "train/loss" in row]
        assert steps[-1] == 200, steps[-1]
        print(f"{before} workers, rank {victim} killed after step {step}, {place}, {after} workers: same", flush=True)
