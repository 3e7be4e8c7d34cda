"""Workers whose slices meet at every batch norm (training.sync_batch_norm), of which one is killed or hangs in the middle of a
step: the others take the step again without it, a new one joins, and the weights are those of an undisturbed run."""
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

STEPS = 200
FLAGS = runs.settings("training.sync_batch_norm=true")


def struck(muster, job, folder, number):
    """The last of three workers."""
    for _ in range(runs.ATTEMPTS):
        process = runs.start(muster, job, "--workers", "3", *FLAGS,
                             *runs.settings("training.lanes=2", "communication.timeout=5s"))
        run = runs.wait_for_step(process, folder, 60)
        runs.kill(runs.workers_of(process)[2], number)
        code, output = runs.finish(process)
        assert code == 0, f"exit code {code}:\n{output}"
        if "generation 2" in output:
            return run, output
    raise AssertionError(f"{runs.ATTEMPTS} times it had come to its end before:\n{output}")


def main():
    muster = runs.arguments().muster
    with runs.workplace() as folder:
        runs.write_data(folder)
        expected = runs.undisturbed(muster, folder, "resnet", STEPS, *FLAGS)
        assert expected != runs.undisturbed(muster, folder, "resnet", STEPS), "they meet nobody"
        job = runs.write_job(folder, "resnet", steps=STEPS)
        for number in (signal.SIGKILL, signal.SIGSTOP):
            run, output = struck(muster, job, folder, number)
            assert "2 workers are left, going on" in output, output
            assert runs.weights(run, STEPS) == expected, f"other weights:\n{output}"
            steps = [row["step"] for row in runs.rows(run) if "train/loss" in row]
            assert steps == list(range(1, STEPS + 1)), f"told {steps}\n{output}"
            print(f"ok  {number.name}", flush=True)


if __name__ == "__main__":
    main()
