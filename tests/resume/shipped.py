"""The shipped jobs as they are, with their models and data: the same bits at any number of workers and lanes,
and when a worker is killed, the job ends with it and goes on at another number of them. same_bits.py and killed.py
have smaller models, for which other kernels are chosen; killed.py kills whole jobs as well."""
import pathlib
import random

import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
FEW = [(1, 1), (2, 1), (3, 2)]  # workers, lanes
ALL = [(workers, lanes) for workers in (1, 2, 3, 4, 5, 7) for lanes in (1, 2)]
SETTINGS = {"fashion": [], "gpt": ["generate.length=0"]}
DEATH_ENDS_IT = ("workers.min_workers=3",)


def flags(folder, name, steps, *settings):
    """So many steps of the job; augmentation is on as it is, dropout as well."""
    return runs.settings("name=tiny", f"run_folder={folder}/runs", f"training.max_steps={steps}", "model.dropout=0.1",
                         "evaluation.every=never", *SETTINGS[name], *settings)


def weights(muster, folder, name, steps, workers, *settings, resume=()):
    """The hashes of what so many steps of the job leave."""
    code, output = runs.finish(runs.start(muster, ROOT / f"jobs/{name}.yaml", "--workers", str(workers), *resume,
                                          *flags(folder, name, steps, *settings), cwd=ROOT))
    assert code == 0, f"exit code {code}:\n{output}"
    return runs.weights(runs.latest(folder), steps)


def killed_and_resumed(muster, folder, name, steps):
    """Three workers of which one dies somewhere in the first third, then two with other lanes."""
    step = random.SystemRandom().randrange(1, steps // 3 + 1)
    print(f"killed after step {step}", flush=True)
    run = runs.killed_after(muster, ROOT / f"jobs/{name}.yaml", folder, step, 3, *flags(
        folder, name, steps, "training.lanes=1", f"checkpoint.every={max(1, steps // 20)} steps", *DEATH_ENDS_IT),
        cwd=ROOT)
    found = weights(muster, folder, name, steps, 2, "training.lanes=2", resume=["--resume"])
    assert runs.latest(folder) == run, "resumed into another folder"
    return found


arguments = runs.arguments("--job", "--steps")
steps = int(arguments.steps)
runs.DEADLINE = max(runs.DEADLINE, 6 * steps)  # a busy machine takes seconds for a step of gpt
with runs.workplace() as folder:
    expected = None
    for workers, lanes in ALL if steps >= 200 else FEW:
        found = weights(arguments.muster, folder, arguments.job, steps, workers, f"training.lanes={lanes}")
        expected = expected or found
        assert found == expected, f"{workers} workers, {lanes} lanes: {found} instead of {expected}"
        print(f"{workers} workers, {lanes} lanes: {found['model.safetensors'][:16]}", flush=True)

    found = killed_and_resumed(arguments.muster, folder, arguments.job, steps)
    assert found == expected, f"killed and resumed: {found} instead of {expected}"
    print(f"3 workers, one killed, then 2 with 2 lanes: {found['model.safetensors'][:16]}", flush=True)

    # The comparison can fail: another seed gives other weights.
    assert weights(arguments.muster, folder, arguments.job, steps, 2, "seed=6") != expected, "the seed changes nothing"
