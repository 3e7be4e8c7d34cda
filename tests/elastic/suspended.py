"""A job that is stopped as a whole and continued (by a scheduler, Ctrl-Z, a host put to sleep), or of which the
launcher alone is, or all workers, goes on as if nothing had been: nobody is missed, the weights stay the same."""
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

SILENCE = 3  # seconds: workers.heartbeat_timeout, much less than it is stopped
APART = 0.2  # seconds: who wakes first finds that its time for those who still sleep is up


def suspend(pids):
    for pid in pids:
        runs.kill(pid, signal.SIGSTOP)
    time.sleep(3 * SILENCE)
    for pid in pids:
        runs.kill(pid, signal.SIGCONT)
        time.sleep(APART)


def plays(muster, folder, name, settings, choose):
    """Suspends the groups of processes that `choose` takes of the launcher and its workers, one after the other."""
    job = runs.write_job(folder, "gpt", steps=10**6, runs=name)
    process = runs.start(muster, job, "--workers", "2", *runs.settings(*runs.UNTIL_STOPPED, *settings))
    run = runs.wait_for_step(process, folder, 50, name)
    for pids in choose(process.pid, list(runs.workers_of(process).values())):
        suspend(pids)
        runs.goes_on(process, run, 100)
    output = runs.stop(muster, process, folder, run, model="gpt")
    assert "silent" not in output and "going on" not in output, output


def main():
    muster = runs.arguments().muster
    with runs.workplace() as folder:
        runs.write_data(folder)
        plays(muster, folder, "suspended",
              ("workers.max_restarts=0", f"workers.heartbeat_timeout={SILENCE}s", "communication.timeout=5s"),
              lambda launcher, workers: ([launcher, *workers], [*workers[::-1], launcher], [launcher]))
        # All who have the state at once, for longer than one of them alone may be silent by what is learnt.
        plays(muster, folder, "hiccup", (f"workers.heartbeat_timeout={20 * SILENCE}s",),
              lambda launcher, workers: (workers,))


if __name__ == "__main__":
    main()
