"""SIGTERM to a worker that has only just been started: it goes as any other, with 0, and is no loss."""
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs
from join import Host, start

STEPS = 2000


def first_pids(process, count):
    """Of so many workers, as soon as they run."""
    return runs.wait_for(lambda: len(found := runs.workers_of(process)) == count and found, "the workers")


def end(process, wanted):
    code, output = runs.finish(process)
    assert code == wanted, f"exit code {code}:\n{output}"
    assert "SIGTERM at" not in output and "killed" not in output and "143" not in output, output
    return output


def at_the_start(muster, folder, expected):
    job = runs.write_job(folder, "mlp", steps=STEPS, runs="start")
    process = runs.start(muster, job, "--workers", "3")
    runs.kill(first_pids(process, 3)[1], signal.SIGTERM)
    assert "worker 1 was told to go and leaves with the step" in end(process, 0)
    assert runs.weights(runs.latest(folder, "start"), STEPS) == expected, "other weights"


def all_at_the_start(muster, folder, _):
    job = runs.write_job(folder, "mlp", steps=STEPS, runs="all")
    process = runs.start(muster, job, "--workers", "2")
    for pid in first_pids(process, 2).values():
        runs.kill(pid, signal.SIGTERM)
    assert "checkpoint written" in end(process, 143)


def in_place_of_another(muster, folder, _):
    job = runs.write_job(folder, "mlp", steps=3 * STEPS, runs="place")
    process = runs.start(muster, job, "--workers", "2")
    runs.wait_for_step(process, folder, 1, "place")
    before = runs.workers_of(process)[1]
    runs.kill(before)
    anew = runs.wait_for(lambda: (pid := runs.workers_of(process).get(1)) not in (None, before) and pid, "a new one")
    runs.kill(anew, signal.SIGTERM)
    runs.wait_for(lambda: not runs.alive(anew), "its end")
    assert process.poll() is None, "the job ended before it did"
    code, output = runs.finish(process)
    assert code == 0 and output.count("going on") == 1, output


def beside_a_newcomer(muster, folder, _):
    """Whoever leaves takes nobody along who is still on the way into the training."""
    job = runs.write_job(folder, "mlp", steps=3 * STEPS, runs="beside")
    process = runs.start(muster, job, "--workers", "3")
    run = runs.wait_for_step(process, folder, 1, "beside")
    before = runs.workers_of(process)
    runs.kill(before[1])
    runs.wait_for(lambda: runs.workers_of(process).get(1) not in (None, before[1]), "a new one")
    runs.kill(before[2], signal.SIGTERM)
    runs.wait_for_newcomer(run, 1)
    code, output = runs.finish(process)
    assert code == 0 and "worker 2 was told to go" in output, output


def of_another_host(muster, folder, _):
    process, run, key = start(muster, folder, "way")
    host = Host(muster, folder, key)
    runs.kill(host.worker(), signal.SIGTERM)
    assert host.wait() == 0 and "done" in host.output(), host.output()
    code, output = runs.finish(process)
    assert code == 0 and "going on" not in output, output


if __name__ == "__main__":
    runs.play((at_the_start, all_at_the_start, in_place_of_another, beside_a_newcomer, of_another_host),
              runs.arguments().muster, "mlp", STEPS)
