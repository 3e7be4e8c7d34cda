"""How a training ends that somebody or something stops: signals, a terminal or a launcher that goes, a reader who leaves."""
import functools
import json
import re
import signal
import subprocess
import time

import runs
from cases import expect, gone, play


def launcher_killed(muster, folder):
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    process = runs.start(muster, job, "--workers", "2")
    runs.wait_for_step(process, folder, 30)
    workers = runs.workers_of(process)
    assert len(workers) == 2
    held = runs.holders_of_memory(folder)
    assert set(workers.values()) <= held.keys(), f"who trains has memory that is seen: {held}, {workers}"
    process.kill()
    runs.finish(process)
    gone(workers)
    run = runs.latest(folder)
    assert not (run / "report.html").exists()
    made = subprocess.run([muster, "report", str(run)], capture_output=True, text=True)
    expect(made.returncode, 0, made.stdout + made.stderr, f"{run}/report.html")
    assert "no end was recorded" in (run / "report.html").read_text()


def interrupted(muster, folder):
    """Ctrl-C, SIGTERM and the like: a checkpoint at the step's end; resumed, the weights are the undisturbed ones."""
    constant = runs.settings(*runs.UNTIL_STOPPED)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        job = runs.write_job(folder, "mlp", steps=1_000_000)
        process = runs.start(muster, job, "--workers", "2", *constant)
        run = runs.wait_for_step(process, folder, 33)
        process.send_signal(number)
        code, output = runs.finish(process)
        expect(code, 128 + number, output, "checkpoint", "--resume")
        end = runs.rows(run)[-1]["step"] + 100
        runs.train(muster, job, "--workers", "1", "--resume", *constant, "--set", f"training.max_steps={end}")
        alone = runs.undisturbed(muster, folder, "mlp", end, *constant, runs=f"alone-{number}")
        assert runs.weights(run, end) == alone, "interrupting changed the weights"


def all_signalled(muster, folder):
    """As a batch system signals a whole group of processes, or somebody all workers: a checkpoint all the same."""
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    for launcher_too in (True, False):
        process = runs.start(muster, job, "--workers", "2")
        run = runs.wait_for_step(process, folder, 33)
        workers = runs.workers_of(process)
        if launcher_too:
            process.send_signal(signal.SIGTERM)
        for pid in workers.values():
            runs.kill(pid, signal.SIGTERM)
        code, output = runs.finish(process)
        expect(code, 143, output, "checkpoint written", "--resume")
        last = runs.rows(run)[-1]["step"]
        assert runs.weights(run, last), "no checkpoint of the last step"
        gone(workers)


def worker_told_to_stop(muster, folder):
    """Signals that mean the job, though a worker gets them: a checkpoint, and that signal's exit code."""
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        for worker in (0, 1):
            process = runs.start(muster, job, "--workers", "2")
            runs.wait_for_step(process, folder, 33)
            workers = runs.workers_of(process)
            runs.kill(workers[worker], number)
            code, output = runs.finish(process)
            expect(code, 128 + number, output, "checkpoint written", "--resume")
            gone(workers)


def interrupted_twice(muster, folder):
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    process = runs.start(muster, job, "--workers", "2", "--set", "workers.heartbeat_timeout=60s")
    run = runs.wait_for_step(process, folder, 20)
    workers = runs.workers_of(process)
    runs.kill(workers[0], signal.SIGSTOP)  # so that the first signal cannot end it
    process.send_signal(signal.SIGINT)
    runs.wait_for(lambda: any("finishing the step" in row["text"] for row in runs.records(run, "notice")), "the first")
    time.sleep(0.3)  # a second one within 150 ms counts as the first
    process.send_signal(signal.SIGINT)
    code, output = runs.finish(process)
    expect(code, 130, output)
    gone(workers)


def timed_out(muster, folder):
    """timeout(1) signals the process and then its group, so a signal comes twice; that is one wish. Its time is up when it
    gets SIGALRM: here once the job trains, however long that takes to come about."""
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    for _ in range(3):
        process = runs.command("timeout", str(2 * runs.DEADLINE), muster, "train", job, "--workers", "2")
        process.started = time.time()
        try:
            runs.wait_for_step(process, folder, 20)
            process.send_signal(signal.SIGALRM)
            code, output = runs.finish(process)
        finally:
            process.terminate()  # what a failure has left running: it hands that on
        expect(code, 124, output, "checkpoint written", "--resume")
        assert "again: leaving at once" not in output, output


def interrupted_early(muster, folder):
    """Whenever in its first moments: it leaves at once, or with a checkpoint, and nothing stays behind."""
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background would have it ignored in children
    for tenths in (0, 1, 2, 3, 4, 6, 8, 10, 13, 16):
        # A job that waited for that would still run at the deadline.
        process = runs.start(muster, job, "--workers", "2", "--set", "workers.join_timeout=10 min")
        time.sleep(tenths / 10)
        workers = runs.workers_of(process)
        process.send_signal(signal.SIGINT)
        code, output = runs.finish(process)
        assert code in (130, -signal.SIGINT), f"exit code {code}:\n{output}"
        assert "[ERROR]" not in output and "rank" not in output.replace("a rank without", ""), output
        gone(workers)
    runs.train(muster, job, "--workers", "2", "--set", "training.max_steps=20")


def hung_up(muster, folder):
    """nohup: the terminal goes, the training stays; SIGHUP alone ends it (interrupted)."""
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    ignored = functools.partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)
    process = runs.start(muster, job, "--workers", "2", preexec_fn=ignored)
    run = runs.wait_for_step(process, folder, 10)
    process.send_signal(signal.SIGHUP)
    runs.wait_for_step(process, folder, runs.rows(run)[-1]["step"] + 50)
    process.send_signal(signal.SIGINT)
    code, output = runs.finish(process)
    expect(code, 130, output, "checkpoint written")


def stopped_where_an_evaluation_is_due(muster, folder):
    """Whoever stops does not wait for it; it is made up for, so that the best is that of an undisturbed run."""
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    every_step = runs.settings("evaluation.every=1 steps", *runs.UNTIL_STOPPED)
    process = runs.start(muster, job, "--workers", "2", *every_step)
    run = runs.wait_for_step(process, folder, 33)
    process.send_signal(signal.SIGINT)
    code, output = runs.finish(process)
    expect(code, 130, output, "checkpoint")
    assert len(runs.evaluations(run)) < runs.last_step(run), "it waited for the evaluation"
    end = runs.settings(f"training.max_steps={runs.last_step(run) + 50}")
    runs.train(muster, job, "--workers", "1", "--resume", *every_step, *end)
    found = runs.evaluations(run)
    runs.train(muster, job, "--workers", "2", *every_step, *end)
    assert found == runs.evaluations(runs.latest(folder)), "an evaluation is lost, or another one than before"


def asked_where_it_stands(muster, folder):
    """SIGUSR2: where every worker is, with its stacks, is written down, and all go on. One that gets it by itself
    writes stacks and operations to its log."""
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    process = runs.start(muster, job, "--workers", "2")
    run = runs.wait_for_step(process, folder, 30)
    told = run / "debug.json"

    def all_have_answered():
        """Whoever needs longer than it is waited for is left out: then they are asked again."""
        told.unlink(missing_ok=True)
        process.send_signal(signal.SIGUSR2)
        runs.wait_for(told.exists, "what the workers say")
        return all("dump" in worker for worker in json.loads(told.read_text())["workers"])

    runs.wait_for(all_have_answered, "the answers of all workers")
    for worker in json.loads(told.read_text())["workers"]:
        assert "muster::app::run_worker" in worker["dump"]["stacks"], worker
    runs.kill(runs.workers_of(process)[1], signal.SIGUSR2)
    log = runs.wait_for(lambda: next(iter(re.findall(r"stacks:[^\0]*operations in flight[^\0]*",
                                                     (run / "logs/rank-1.log").read_text())), None), "its stacks")
    assert "muster::app::run_worker" in log, log
    runs.goes_on(process, run)
    runs.wait_for(all_have_answered, "the answers of all workers, another time")
    process.send_signal(signal.SIGTERM)
    code, output = runs.finish(process)
    expect(code, 143, output, "where every worker is: ")
    assert output.count("where every worker is") == 1, f"each time that somebody asks is told:\n{output}"


def nobody_reads_along(muster, folder):
    """The reader of its output goes away: the training does not."""
    job = runs.write_job(folder, "mlp", steps=400)
    process = runs.start(muster, job, "--workers", "2")
    run = runs.wait_for_step(process, folder, 20)
    process.stdout.close()
    assert process.wait(timeout=runs.DEADLINE) == 0
    assert runs.rows(run)[-1]["step"] == 400


def nothing_can_be_shown(muster, folder):
    """Its output cannot be written: the training is done, and the exit code says that it was not told."""
    job = runs.write_job(folder, "mlp", steps=40)
    with open("/dev/full", "wb") as full:
        done = subprocess.run([muster, "train", job], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    run = runs.latest(folder)
    expect(done.returncode, 3, done.stderr, "standard output could not be written, its disk is full", str(run))
    assert json.loads((run / "summary.json").read_text())["state"] == "finished"
    assert runs.rows(run)[-1]["step"] == 40


play([launcher_killed, interrupted, all_signalled, worker_told_to_stop, interrupted_twice, timed_out,
      interrupted_early, hung_up, stopped_where_an_evaluation_is_due, asked_where_it_stands, nobody_reads_along,
      nothing_can_be_shown])
