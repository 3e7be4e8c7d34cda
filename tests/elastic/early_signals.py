"""SIGTERM to a worker that has only just been started: it goes as any other, with 0, and is no loss."""
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs
from join import Host, check_end, start


def first_pids(process, count):
    """Of so many workers, as soon as they run."""
    return runs.wait_for(lambda: len(found := runs.workers_of(process)) == count and found, "the workers")


def no_loss(output):
    assert "SIGTERM at" not in output and "killed" not in output and "status 143" not in output, output


def at_the_start(muster, folder):
    process = runs.endless(muster, folder, "start", "--workers", "3")
    runs.kill(first_pids(process, 3)[1], signal.SIGTERM)
    run = runs.wait_for_step(process, folder, 100, "start")
    no_loss(output := runs.stop(muster, process, folder, run))
    assert "worker 1 was told to go and leaves with the step" in output, output


def all_at_the_start(muster, folder):
    process = runs.endless(muster, folder, "all", "--workers", "2")
    for pid in first_pids(process, 2).values():
        runs.kill(pid, signal.SIGTERM)
    code, output = runs.finish(process)
    no_loss(output)
    assert code == 143 and "checkpoint written" in output, f"exit code {code}:\n{output}"


def in_place_of_another(muster, folder):
    process = runs.endless(muster, folder, "place", "--workers", "2")
    run = runs.wait_for_step(process, folder, 1, "place")
    before = runs.workers_of(process)[1]
    runs.kill(before)
    anew = runs.wait_for(lambda: (pid := runs.workers_of(process).get(1)) not in (None, before) and pid, "a new one")
    runs.kill(anew, signal.SIGTERM)
    runs.wait_for(lambda: not runs.alive(anew), "its end")
    output = check_end(process, muster, folder, run)
    assert output.count("going on") == 1, output


def beside_a_newcomer(muster, folder):
    """Whoever leaves takes nobody along who is still on the way into the training."""
    process = runs.endless(muster, folder, "beside", "--workers", "3")
    run = runs.wait_for_step(process, folder, 1, "beside")
    before = runs.workers_of(process)
    runs.kill(before[1])
    runs.wait_for(lambda: runs.workers_of(process).get(1) not in (None, before[1]), "a new one")
    runs.kill(before[2], signal.SIGTERM)
    runs.wait_for_newcomer(run, 1)
    output = check_end(process, muster, folder, run)
    assert "worker 2 was told to go" in output, output


def of_another_host(muster, folder):
    process, run, key = start(muster, folder, "way")
    host = Host(muster, folder, key)
    runs.kill(host.worker(), signal.SIGTERM)
    assert host.wait() == 0 and "done" in host.output(), host.output()
    output = check_end(process, muster, folder, run)
    assert "going on" not in output, output


if __name__ == "__main__":
    runs.play((at_the_start, all_at_the_start, in_place_of_another, beside_a_newcomer, of_another_host), runs.arguments().muster)
