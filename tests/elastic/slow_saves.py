"""A disk that takes much longer for a checkpoint than the workers wait for each other: nobody is taken for stuck,
beside the training and where it stands still for each save; what comes too soon is put off; who saves and is told to
go ends its save first."""
import concurrent.futures
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

STEPS, EVERY = 300, 100
LONGER = 10  # times as many of both, where something is to happen within a save,
SOONER = 0.3  # seconds, which then takes so long for each of its files: longer than to the next save
WAIT = 2  # seconds: communication.timeout
FSYNC = WAIT  # seconds; a save needs one for each of its files
SLOWER = 3 * FSYNC  # where the next save is to come before that is over, on any machine


def start(muster, folder, library, name, *flags, longer=1, fsync=FSYNC):
    surroundings = os.environ | {"LD_PRELOAD": library, "MUSTER_SLOW_DISK": "/checkpoints/",
                                 "MUSTER_SLOW_FSYNC": str(int(1000 * fsync))}
    return runs.start(muster, folder / "tiny.yaml", "--workers", "3", *runs.settings(
        f"run_folder={folder / name}", f"communication.timeout={WAIT}s", f"training.max_steps={longer * STEPS}",
        f"checkpoint.every={longer * EVERY} steps",
        "checkpoint.keep=10", "evaluation.keep_best=false", *flags), env=surroundings)


def finish(process, folder, name):
    code, output = runs.finish(process)
    assert code == 0, f"{name}: exit code {code}\n{output}"
    assert " left, " not in output, f"{name}: a worker was missed\n{output}"
    run = runs.latest(folder, name)
    return run, output, [row["step"] for row in runs.records(run, "checkpoint")]


def train(muster, folder, library, name, *flags, fsync=FSYNC):
    run, output, saved = finish(start(muster, folder, library, name, *flags, fsync=fsync), folder, name)
    assert "generation 2" not in output, f"{name}: a worker was missed\n{output}"
    for row in runs.records(run, "checkpoint"):
        assert row["took_s"] > 2 * WAIT, f"{name}: the disk was not slow: {row}"
    stands_still = "checkpoint.asynchronous=false" in flags
    for row in runs.records(run, "checkpoint")[:-1]:  # the training is over at the last one
        assert (row["stall_s"] > WAIT) == stands_still, f"{name}: not what the training stood still for: {row}"
    return run, output, saved


def beside_the_training(muster, folder, library):
    run, output, saved = train(muster, folder, library, "beside", fsync=SLOWER)
    told = f"the checkpoint of step {2 * EVERY} is put off until the one before is on the disk"
    assert output.count("is put off") == output.count(told) == 1, output
    assert saved == [EVERY, STEPS], saved
    return run


def at_a_standstill(muster, folder, library):
    run, output, saved = train(muster, folder, library, "standstill", "checkpoint.asynchronous=false")
    assert "is put off" not in output, output
    assert saved == [EVERY, 2 * EVERY, STEPS], saved
    return run


def told_to_go(muster, folder, library):
    """The next one that saves begins with its own once the first rank has ended: each would remove what the other
    has not published."""
    process = start(muster, folder, library, "told", longer=LONGER, fsync=SOONER)
    run = runs.wait_for_step(process, folder, 1, "told")
    runs.wait_for(lambda: list(run.glob("checkpoints/step-*/optimizer*")), "a save under way")
    runs.kill(runs.workers_of(process)[0], signal.SIGTERM)
    _, output, saved = finish(process, folder, "told")
    assert "worker 0 was told to go and leaves with the step" in output, output
    assert saved[0] == LONGER * EVERY and saved[-1] == LONGER * STEPS, saved
    assert all((one / "manifest.json").exists() for one in run.glob("checkpoints/step-*")), "a torn save"
    expected = runs.undisturbed(muster, folder, "mlp", LONGER * STEPS, runs="alone")
    assert runs.weights(run, LONGER * STEPS) == expected, f"other weights\n{output}"


def main():
    arguments = runs.arguments("--slow-disk")
    with runs.workplace() as folder, concurrent.futures.ThreadPoolExecutor(3) as pool:
        runs.write_data(folder)
        expected = runs.undisturbed(arguments.muster, folder, "mlp", STEPS)
        ways = [pool.submit(way, arguments.muster, folder, arguments.slow_disk)
                for way in (beside_the_training, at_a_standstill)]
        told = pool.submit(told_to_go, arguments.muster, folder, arguments.slow_disk)
        for way in ways:
            assert runs.weights(way.result(), STEPS) == expected, "other weights"
        told.result()


if __name__ == "__main__":
    main()
