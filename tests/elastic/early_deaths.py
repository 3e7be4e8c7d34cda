"""Workers that are killed before the training has begun are replaced, and it comes to the weights of an undisturbed one;
one that is killed again and again is done without, where workers.min_workers allows."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs
from early_signals import first_pids

STEPS = 200


def train(muster, folder, name, strike, *settings):
    """What was printed; `strike` gets the process as soon as three workers run. Where this process is held up for longer
    than they take to begin it comes too late, and tries again."""
    job = runs.write_job(folder, "resnet", steps=STEPS)
    for _ in range(runs.ATTEMPTS):
        process = runs.start(muster, job, "--workers", "3", *runs.settings(f"run_folder={folder / name}", *settings))
        strike(process, first_pids(process, 3))
        code, output = runs.finish(process)
        assert code == 0, f"exit code {code}:\n{output}"
        assert runs.weights(runs.latest(folder, name), STEPS) == EXPECTED[0], f"other weights:\n{output}"
        if "generation 2" not in output:
            return output
    raise AssertionError(f"{runs.ATTEMPTS} times it had begun before:\n{output}")


EXPECTED = []


def one_and_two(muster, folder):
    for name, victims in (("one", (1,)), ("two", (0, 2))):
        output = train(muster, folder, name, lambda _, pids, of=victims: [runs.kill(pids[rank]) for rank in of])
        assert output.count("killed by SIGKILL as it started") == len(victims), output
        assert output.count("is started anew") == len(victims), output


def of_shards(muster, folder):
    train(muster, folder, "shards", lambda _, pids: runs.kill(pids[1]), "strategy.type=sharded")


def again_and_again(muster, folder):
    def strike(process, pids):
        before = None
        for _ in range(4):
            pid = runs.wait_for(lambda last=before: process.poll() is not None or
                                (pid := runs.workers_of(process).get(1)) not in (None, last) and pid, "another one")
            if process.poll() is not None:
                return  # it had begun, and has ended
            runs.kill(pid)
            before = pid

    output = train(muster, folder, "again", strike, "workers.max_restarts=100")
    assert output.count("is started anew") == 3 and "which begin without it" in output, output


def main():
    muster = runs.arguments().muster
    with runs.workplace() as folder:
        runs.write_data(folder)
        EXPECTED.append(runs.undisturbed(muster, folder, "resnet", STEPS))
        for scenario in (one_and_two, of_shards, again_and_again):
            scenario(muster, folder)
            print(f"ok  {scenario.__name__}", flush=True)


if __name__ == "__main__":
    main()
