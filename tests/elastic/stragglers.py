"""A worker that is slowed down is named, loses slices, gets them back, is helped, or sent away; the weights
stay the same."""
import contextlib
import pathlib
import re
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

STEPS = 800


@contextlib.contextmanager
def slowed(pid, factor=6, period=0.03):
    """The process runs for one part in `factor` of the time."""
    over = threading.Event()

    def drive():
        with contextlib.suppress(ProcessLookupError):  # it may be sent away
            while not over.is_set():
                runs.kill(pid, signal.SIGSTOP)
                time.sleep(period * (factor - 1) / factor)
                runs.kill(pid, signal.SIGCONT)
                time.sleep(period / factor)

    thread = threading.Thread(target=drive)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def train_slowed(muster, folder, job, name, *settings):
    flags = runs.settings(f"run_folder={folder / name}", "stragglers.compare_every=50ms", "training.lanes=1",
                          *settings)
    process = runs.start(muster, job, "--workers", "3", *flags)
    run = runs.wait_for_step(process, folder, 50, name)
    with slowed(runs.workers_of(process)[1]):
        runs.wait_for_step(process, folder, STEPS // 3, name)
    code, output = runs.finish(process)
    assert code == 0, f"exit code {code}:\n{output}"
    return run, output


def check_order(output, *expected):
    at = 0
    for pattern in expected:
        found = re.search(pattern, output[at:])
        assert found, f"no `{pattern}` (in this order) in:\n{output}"
        at += found.end()


def main():
    muster = runs.arguments().muster
    with runs.workplace() as folder:
        runs.write_data(folder)
        expected = runs.undisturbed(muster, folder, "resnet", STEPS)
        job = runs.write_job(folder, "resnet", steps=STEPS)

        run, output = train_slowed(muster, folder, job, "shared")
        check_order(output, r"slices are shared out .* by speed", r"worker 1 \(pid \d+ on \S+\) keeps pace again")
        check_order(output, r"worker 1 \(pid \d+ on \S+\) computes [\d.]+ × slower than the others")
        assert runs.weights(run, STEPS) == expected, "other weights after slices changed hands"

        run, output = train_slowed(muster, folder, job, "even", "stragglers.rebalance=false")
        assert "computes" in output and "shared out" not in output, output
        assert runs.weights(run, STEPS) == expected, "other weights"

        run, output = train_slowed(muster, folder, job, "helped", "stragglers.rebalance=false",
                                   "stragglers.backup=true")
        # Whether anybody was late enough to be helped is up to the machine; the unit tests force it.
        assert runs.weights(run, STEPS) == expected, "other weights after others computed slices"

        run, output = train_slowed(muster, folder, job, "evicted", "stragglers.evict_factor=2")
        # The verdict is a worker's log, the rest the launcher's: they come over two ways, in any order.
        check_order(output, r"worker 1 \(.*\) stays too slow")
        check_order(output, r"worker 1 was told to go", r"generation 2 of 2 workers")
        assert runs.weights(run, STEPS) == expected, "other weights after an eviction"


if __name__ == "__main__":
    main()
