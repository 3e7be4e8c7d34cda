"""Fewer workers than workers.min_workers wait for new ones; where none comes the job ends, in time."""
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

STEPS = 300


def start(muster, folder, job, name, *settings):
    flags = runs.settings(f"run_folder={folder / name}", "workers.min_workers=2", *settings)
    process = runs.start(muster, job, "--workers", "2", *flags)
    return process, runs.wait_for_step(process, folder, 60, name)


def comes_back(muster, folder, job, expected, victim):
    process, run = start(muster, folder, job, f"back-{victim}")
    runs.kill(runs.workers_of(process)[victim])
    code, output = runs.finish(process)
    assert code == 0, f"exit code {code}:\n{output}"
    assert "1 worker is left, waiting until 1 more has joined" in output, output
    assert "generation 2 of 2 workers" in output, output
    assert runs.weights(run, STEPS) == expected, "other weights"


def never_comes(muster, folder, job):
    for attempt in range(runs.ATTEMPTS):
        process, run = start(muster, folder, job, f"never-{attempt}", "workers.join_timeout=1 min")
        before = runs.workers_of(process)
        runs.kill(before[1])
        anew = runs.wait_for(lambda: (pid := runs.workers_of(process).get(1)) not in (None, before[1]) and pid, "a new one")
        runs.kill(anew, signal.SIGSTOP)
        code, output = runs.finish(process)
        if "generation 2" not in output:  # else it had joined already
            break
    assert code == 1, f"exit code {code}:\n{output}"
    assert "no new one has joined within 1 min" in output and "--resume" in output, output
    assert not runs.alive(anew) and not runs.alive(before[0]), "a worker outlived its job"


def without_majority(muster, folder, job):
    """Two of three go on without the third; of these two the one that is left does not."""
    process = runs.start(muster, job, "--workers", "3", *runs.settings(
        f"run_folder={folder / 'majority'}", "workers.majority=true", "workers.max_restarts=0"))
    run = runs.wait_for_step(process, folder, 30, "majority")
    workers = runs.workers_of(process)
    runs.kill(workers[2])
    runs.wait_for(lambda: any("generation 2 of 2 workers stands" in row["text"]
                              for row in runs.records(run, "notice")), "the two others")
    runs.kill(workers[1])
    code, output = runs.finish(process)
    assert code == 1, f"exit code {code}:\n{output}"
    assert "2 workers are left, going on" in output, output
    assert "1 worker is left, 2 are needed (workers.majority)" in output, output


def main():
    muster = runs.arguments().muster
    with runs.workplace() as folder:
        runs.write_data(folder)
        expected = runs.undisturbed(muster, folder, "resnet", STEPS)
        job = runs.write_job(folder, "resnet", steps=STEPS)
        for victim in (0, 1):
            comes_back(muster, folder, job, expected, victim)
        never_comes(muster, folder, job)
        without_majority(muster, folder, job)


if __name__ == "__main__":
    main()
