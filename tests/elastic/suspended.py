"""A job that is stopped as a whole and continued (by a scheduler, Ctrl-Z, a host put to sleep), or of which the
launcher alone is, goes on as if nothing had been: nobody is missed, the weights stay the same."""
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

STEPS = 600
SILENCE = 3  # seconds: workers.heartbeat_timeout, much less than it is stopped
APART = 0.2  # seconds: who wakes first finds that its time for those who still sleep is up


def suspend(pids):
    for pid in pids:
        runs.kill(pid, signal.SIGSTOP)
    time.sleep(3 * SILENCE)
    for pid in pids:
        runs.kill(pid, signal.SIGCONT)
        time.sleep(APART)


def main():
    muster = runs.arguments().muster
    with runs.workplace() as folder:
        runs.write_data(folder)
        expected = runs.undisturbed(muster, folder, "gpt", STEPS)
        job = runs.write_job(folder, "gpt", steps=STEPS)
        process = runs.start(muster, job, "--workers", "2",
                             *runs.settings(f"run_folder={folder / 'suspended'}", "workers.max_restarts=0",
                                            f"workers.heartbeat_timeout={SILENCE}s", "communication.timeout=5s"))
        run = runs.wait_for_step(process, folder, 50, "suspended")
        everybody = [process.pid, *runs.workers_of(process).values()]
        # While the launcher alone is stopped the others may well come to the end.
        for step, pids in ((50, everybody), (150, everybody[::-1]), (250, everybody[:1])):
            runs.wait_for_step(process, folder, step, "suspended")
            suspend(pids)
        code, output = runs.finish(process)
        assert code == 0, f"exit code {code}:\n{output}"
        assert "silent" not in output and "going on" not in output, output
        assert runs.weights(run, STEPS) == expected, "other weights"


if __name__ == "__main__":
    main()
