"""The shipped jobs as they are, with their models and data: the same bits at any number of workers and lanes.
same_bits.py has smaller models, for which other kernels are chosen."""
import pathlib

import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
FEW = [(1, 1), (2, 1), (3, 2)]  # workers, lanes
ALL = [(workers, lanes) for workers in (1, 2, 3, 4, 5, 7) for lanes in (1, 2)]
SETTINGS = {"fashion": [], "gpt": ["generate.length=1"]}


def weights(muster, folder, name, steps, workers, *settings):
    """The hashes of what so many steps of the job leave; augmentation is on as it is, dropout as well."""
    code, output = runs.finish(runs.start(
        muster, ROOT / f"jobs/{name}.yaml", "--workers", str(workers), *runs.settings(
            f"run_folder={folder}", f"training.max_steps={steps}", "model.dropout=0.1", "evaluation.every=never",
            *SETTINGS[name], *settings), cwd=ROOT))
    assert code == 0, f"exit code {code}:\n{output}"
    return runs.weights((folder / name / "latest").resolve(), steps)


arguments = runs.arguments("--job", "--steps")
steps = int(arguments.steps)
with runs.workplace() as folder:
    expected = None
    for workers, lanes in ALL if steps >= 200 else FEW:
        found = weights(arguments.muster, folder, arguments.job, steps, workers, f"training.lanes={lanes}")
        expected = expected or found
        assert found == expected, f"{workers} workers, {lanes} lanes: {found} instead of {expected}"
        print(f"{workers} workers, {lanes} lanes: {found['model.safetensors'][:16]}", flush=True)

    # The comparison can fail: another seed gives other weights.
    assert weights(arguments.muster, folder, arguments.job, steps, 2, "seed=6") != expected, "the seed changes nothing"
