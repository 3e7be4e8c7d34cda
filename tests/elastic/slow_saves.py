"""A disk that takes much longer for a checkpoint than the workers wait for each other: nobody is taken for stuck,
beside the training and where it stands still for each save; what comes too soon is put off."""
import concurrent.futures
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

STEPS, EVERY = 300, 100
WAIT = 2  # seconds: communication.timeout
FSYNC = WAIT  # seconds; a save needs one for each of its files


def train(muster, folder, library, name, *flags):
    job = folder / "tiny.yaml"
    surroundings = os.environ | {"LD_PRELOAD": library, "MUSTER_SLOW_DISK": "/checkpoints/",
                                 "MUSTER_SLOW_FSYNC": str(1000 * FSYNC)}
    code, output = runs.finish(runs.start(
        muster, job, "--workers", "3", *runs.settings(
            f"run_folder={folder / name}", f"communication.timeout={WAIT}s", f"checkpoint.every={EVERY} steps",
            "checkpoint.keep=10", "evaluation.keep_best=false", *flags), env=surroundings))
    assert code == 0, f"{name}: exit code {code}\n{output}"
    assert "generation 2" not in output, f"{name}: a worker was missed\n{output}"
    run = runs.latest(folder, name)
    stands_still = "checkpoint.asynchronous=false" in flags
    for row in runs.records(run, "checkpoint")[:-1]:  # the training is over at the last one
        assert (row["stall_s"] > WAIT) == stands_still, f"{name}: not what the training stood still for: {row}"
    for row in runs.records(run, "checkpoint"):
        assert row["took_s"] > 2 * WAIT, f"{name}: the disk was not slow: {row}"
    return run, output, [row["step"] for row in runs.records(run, "checkpoint")]


def beside_the_training(muster, folder, library):
    run, output, saved = train(muster, folder, library, "beside")
    told = f"the checkpoint of step {2 * EVERY} is put off until the one before is on the disk"
    assert output.count("is put off") == output.count(told) == 1, output
    assert saved == [EVERY, STEPS], saved
    return run


def at_a_standstill(muster, folder, library):
    run, output, saved = train(muster, folder, library, "standstill", "checkpoint.asynchronous=false")
    assert "is put off" not in output, output
    assert saved == [EVERY, 2 * EVERY, STEPS], saved
    return run


def main():
    arguments = runs.arguments("--slow-disk")
    with runs.workplace() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs.write_data(folder)
        expected = runs.undisturbed(arguments.muster, folder, "mlp", STEPS)
        ways = [pool.submit(way, arguments.muster, folder, arguments.slow_disk)
                for way in (beside_the_training, at_a_standstill)]
        for way in ways:
            assert runs.weights(way.result(), STEPS) == expected, "other weights"


if __name__ == "__main__":
    main()
