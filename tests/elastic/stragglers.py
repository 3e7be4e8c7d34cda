"""A worker that is slowed down is named, with the cause, loses slices, gets them back, is helped, or sent away;
the weights stay the same."""
import contextlib
import pathlib
import re
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import faulty
import runs

HOST = re.escape(socket.gethostname())
STEPS = 500
LATE = 1  # the worker that is


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


def start(muster, folder, job, name, *settings, **options):
    flags = runs.settings(f"run_folder={folder / name}", "stragglers.compare_every=50ms", "training.lanes=1",
                          *settings)
    process = runs.start(muster, job, "--workers", "3", *flags, **options)
    return process, runs.wait_for_step(process, folder, 50, name)


def told(process, run, *expected):
    """Whether all of it was; others may be late as well, on a machine with other work."""
    assert process.poll() is None, f"ended before `{expected[-1]}`:\n{process.communicate()[0]}"
    notices = [row["text"] for row in runs.records(run, "notice")]
    return all(any(re.search(pattern, text) for text in notices) for pattern in expected)


def train_slowed(muster, folder, name, expected, *settings):
    """Slowed until all that is expected was told, however many steps that takes; with the weights of one worker, left
    alone. What was printed."""
    job = runs.write_job(folder, "resnet", steps=10**6)
    process, run = start(muster, folder, job, name, *settings, *runs.UNTIL_STOPPED)
    with slowed(runs.workers_of(process)[LATE]):
        runs.goes_on(process, run, 100)
        for pattern in expected:
            runs.wait_for(lambda: told(process, run, pattern), pattern)
    return runs.stop(muster, process, folder, run, model="resnet")


def train_faulty(muster, folder, job, name, act, place, *settings):
    """The worker that is late has a fault; nothing changes hands."""
    faults = faulty.Faults(folder / f"faults-{name}")
    process, run = start(muster, folder, job, name, "stragglers.rebalance=false", *settings,
                         env=faults.environment())
    pid = runs.workers_of(process)[LATE]
    faults.arm(LATE, act, place)
    faults.struck(LATE)
    code, output = runs.finish(process)
    assert code == 0, f"exit code {code}:\n{output}"
    return run, output, rf"worker {LATE} \(pid {pid} on {HOST}\)"


def check_order(output, *expected):
    at = 0
    for pattern in expected:
        found = re.search(pattern, output[at:])
        assert found, f"no `{pattern}` (in this order) in:\n{output}"
        at += found.end()


def loses_slices_and_gets_them_back(muster, folder):
    """However many steps that takes: one that has lost all is tried again now and then."""
    job = runs.write_job(folder, "resnet", steps=10**6)
    process, run = start(muster, folder, job, "shared", "logging.logging_steps=50", *runs.UNTIL_STOPPED)

    pid = runs.workers_of(process)[LATE]
    who = rf"worker {LATE} \(pid {pid} on {HOST}\)"
    late = [who + r" computes [\d.]+ × slower than the others", r"slices are shared out .* by speed"]
    with slowed(pid):
        runs.wait_for(lambda: told(process, run, *late), late[-1])
    back = who + " keeps pace again"
    runs.wait_for(lambda: told(process, run, *late, back), back)
    runs.stop(muster, process, folder, run, model="resnet")


def main():
    arguments = runs.arguments("--worker")
    muster = arguments.muster
    with runs.workplace() as folder:
        runs.write_data(folder)
        loses_slices_and_gets_them_back(muster, folder)
        output = train_slowed(muster, folder, "even", ["computes .* slower"], "stragglers.rebalance=false")
        assert "shared out" not in output, output
        # Whether anybody was late enough to be helped is up to the machine.
        train_slowed(muster, folder, "helped", [], "stragglers.rebalance=false", "stragglers.backup=true")
        # The verdict is a worker's log, the rest the launcher's: they come over two ways, in any order.
        output = train_slowed(muster, folder, "evicted", ["worker 1 was told to go", "generation 2 of 2 workers"],
                              "stragglers.evict_factor=2")
        check_order(output, r"worker 1 \(.*\) stays too slow")

        expected = runs.undisturbed(muster, folder, "resnet", STEPS)
        job = runs.write_job(folder, "resnet", steps=STEPS)
        # It stands in the first of its slices until the others have computed the rest.
        with_faults = faulty.install(folder, muster, arguments.worker)
        run, output, who = train_faulty(with_faults, folder, job, "asleep", "doze", r"forward of slice 3\b",
                                        "stragglers.backup=true")
        check_order(output, who + r" was late: others computed [1-9]\d* of its slices so far")
        assert runs.weights(run, STEPS) == expected, "other weights after others computed slices"

        run, output, who = train_faulty(with_faults, folder, job, "input", "data", r"forward of slice \d+$")
        check_order(output, r"\[WARN\] " + who + r" waits [\d.]+ m?s a step for its data, the others [\d.]+ \S+: "
                    "its storage is slow, or it needs more data.loader_threads")
        assert runs.weights(run, STEPS) == expected, "other weights after data that came late"


if __name__ == "__main__":
    main()
