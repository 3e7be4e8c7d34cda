"""docs/elastic.md: each death, delay and fault of which the page shows what is told, brought about."""
import json
import re
import signal
import time

import early_signals
import elsewhere
import faulty
import jobs
import measured
import place
import runs
import shapes
import stragglers
import training
from training import Training, told_in

FASHION = "muster train jobs/fashion.yaml --workers"
STANDS = r"generation \d+ of {} workers stands"


def stands_again(job, size):
    """Returns a wait for the next generation of that size."""
    begin = len(job.lines)
    return lambda: job.wait_for(STANDS.format(size), begin)


def entered(job):
    return [row for row in runs.records(job.run(), "notice") if row.get("recovery", {}).get("turn") == "entered"]


def others_go_on(page):
    first = page.take("$ muster train jobs/fashion.yaml --workers 4 &")
    turns = page.take("worker 2 (pid 23967 on node3) killed by SIGKILL")
    command, kill = place.commands_of(first)
    with Training(page, command.removesuffix(" &")) as job:
        job.wait_for_step(30)

        def strike():
            again, before = stands_again(job, 3), len(entered(job))
            page.place().run(kill.replace("<pid of worker 2>", str(job.pid(2))))
            again()
            runs.wait_for(lambda: len(entered(job)) > before, "the newcomer")
            job.goes_on()
        told_in(job, [first], strike)
        notices = "\n".join(row["text"] for row in runs.records(job.run(), "notice"))
        shapes.compare(turns.place, turns.lines, notices, training.ANY_MOMENT)
        job.stop()


def too_few_wait(page):
    block = page.take("[WARN] worker 1 (pid 8122 on node3) killed by SIGKILL at step 95")
    with Training(page, f"{FASHION} 2", "workers.min_workers=2") as job:
        job.wait_for_step(30)

        def strike():
            again = stands_again(job, 2)
            job.kill(1)
            again()
            job.goes_on()
        told_in(job, [block], strike)


def nobody_has_the_state(page):
    block = page.take("[WARN] worker 0 (pid 8121")
    with Training(page, f"{FASHION} 2") as job:
        job.wait_for_step(30)
        job.wait_for(r"checkpoint\s+step")  # it is written beside the training

        def strike():
            begin = len(job.lines)
            job.kill(0, 1)
            job.wait_for("all go back to step", begin)
            job.goes_on()
        told_in(job, [block], strike, {r"of 2 workers stands": "of (1 worker|2 workers) stands"})


def dies_as_it_starts(page):
    block = page.take("[WARN] worker 1 (pid 8122 on node3) killed by SIGKILL as it started")
    for attempt in range(training.ATTEMPTS):  # whoever is held up here kills one that has started
        with Training(page, f"{FASHION} 3") as job:
            early_signals.first_pids(job.process, 3)
            job.kill(1)
            job.wait_for("worker 1 is started anew")
            try:
                return shapes.compare(block.place, block.lines, job.stop(), training.ANY_MOMENT)
            except AssertionError:
                if attempt + 1 == training.ATTEMPTS:
                    raise
    return None


def nobody_else_has_the_part(page):
    block = page.take("[WARN] worker 2 (pid 23967 on node3) killed by SIGKILL at step 214")
    with Training(page, f"{FASHION} 3", "strategy.type=sharded") as job:
        job.wait_for_step(50)

        def strike():
            again = stands_again(job, 3)
            job.kill(2)
            again()
            job.goes_on()
        told_in(job, [block], strike)


def another_has_the_part(page):
    block = page.take("generation 2 of 4 workers stands after 1.1 s: it goes on after step 213; worker 3 got")
    text = []
    for size, settings in ((4, ("strategy.type=pipeline", "strategy.stages=2")),
                           (3, ("strategy.type=sharded", "strategy.redundancy=1"))):
        with Training(page, f"{FASHION} {size}", *settings) as job:
            job.wait_for_step(30)
            for _ in range(training.ATTEMPTS):
                again = stands_again(job, size)
                job.kill(size - 1)
                if re.search("got its state from", again()):
                    break
                job.goes_on()
            text.append(job.text())
    shapes.compare(block.place, block.lines, "".join(text))


def a_failure_says_where(page):
    block = page.take("[ERROR] rank 1 on node3 (pid 24102): exit status 7")
    faults, variables = training.faulty_muster(page)
    with Training(page, f"{FASHION} 3", variables=variables) as job:
        job.wait_for_step(10)
        faults.arm(1, "stall", r"forward of slice \d+$")  # the others wait meanwhile
        step = faulty.step_of(faults.struck(1)[1]) + 2
        for worker in (1, 2):
            faults.arm(worker, "exit", rf"at step {step}, .*backward of slice \d+\b")
        faults.release(1)
        job.process.wait(timeout=runs.DEADLINE)
        shapes.compare(block.place, block.lines, job.stop(), training.ANY_MOMENT)


def others_join(page):
    jobs.valid_part(page, page.take("workers: {count: 2, max_workers: 6, listen: 10.0.0.5:29400}"))
    block = page.take("others join with: muster worker --join 10.0.0.5:29400")
    with Training(page, f"{FASHION} 2", "workers.max_workers=6", "workers.listen=127.0.0.1:0") as job:
        command = job.wait_for("^others join with: ").removeprefix("others join with: ").strip()
        job.wait_for_step(10)
        host = page.place().start(f"exec {command}")
        job.wait_for("it goes on after step")
        host.send_signal(signal.SIGTERM)
        assert host.wait(timeout=runs.DEADLINE) == 0
        shapes.compare(block.place, block.lines, job.stop())


def the_slow_one_is_named(page):
    block = page.take("[WARN] worker 1 (pid 24102 on node3) computes 4.1")
    with Training(page, f"{FASHION} 4", "stragglers.compare_every=50ms", "model.channels=[4,8]") as job:
        job.wait_for_step(50)
        with stragglers.slowed(job.pid(1)):
            job.wait_for(r"^\[WARN\] worker 1 .* computes ")
            job.wait_for("^slices are shared out .* less time")
            begin = len(job.lines)  # before the worker has its time again, and it may be told
        job.wait_for("^worker 1 .* keeps pace again", begin)
        shapes.compare(block.place, block.lines, job.stop())


def late_slices_are_computed_by_others(page):
    block = page.take("worker 1 (pid 24102 on node3) was late")
    faults, variables = training.faulty_muster(page)
    with Training(page, f"{FASHION} 3", "stragglers.compare_every=50ms", "stragglers.rebalance=false",
                  "stragglers.backup=true", variables=variables) as job:
        job.wait_for_step(50)
        faults.arm(1, "doze", r"forward of slice 3\b")
        job.wait_for("was late: others computed")
        shapes.compare(block.place, block.lines, job.stop())


def wrong_bits(page):
    first = page.take("[WARN] worker 2 (pid 4713 on node7) held other weights")
    second = page.take("[WARN] worker 1 is not started anew")
    faults, variables = training.faulty_muster(page)
    with Training(page, f"{FASHION} 3", "replicas.compare_every=10 steps", variables=variables) as job:
        job.wait_for_step(30)
        faults.arm(2, "bit", "updating$")
        job.wait_for("worker 2 got the state")
        job.goes_on()
        faults.arm(1, "bit", "updating$")
        job.wait_for("worker 1 is not started anew")
        text = job.stop()
    shapes.compare(first.place, first.lines, text)
    shapes.compare(second.place, second.lines, text)


def wrong_gradients(page):
    block = page.take("[WARN] worker 2 (pid 4713 on node7) got other reduced gradients")
    faults, variables = training.faulty_muster(page)
    with Training(page, f"{FASHION} 3", "replicas.compare_gradients=1 steps", variables=variables) as job:
        job.wait_for_step(30)
        faults.arm(2, "sum", r"backward of slice \d+$")
        job.wait_for("got other reduced gradients")
        shapes.compare(block.place, block.lines, job.stop())


def heard_of_all(page, workers):
    """Whether a heartbeat of each has come, which says where it is."""
    told = json.loads(page.place().run("muster top runs/fashion/latest --json"))["members"]
    return len(told) == workers and all(one["step"] > 0 for one in told)


# What the missing worker called last is of a gradient, whichever step it hangs in.
ONLY_GRADIENTS = ("stragglers.compare_every=1h", "checkpoint.every=never", "replicas.compare_every=never")


def who_holds_the_job_up(page):
    for act, beginning in (("SIGSTOP", "$ muster debug runs/fashion/latest\nworkers 0, 2 have waited 12 s"),
                           ("hang", "$ muster debug runs/fashion/latest\nworkers 0, 2 have waited 5 s")):
        block = page.take(beginning)
        faults, variables = training.faulty_muster(page)
        with Training(page, f"{FASHION} 3", "workers.min_workers=3", "workers.max_restarts=0", "workers.heartbeat_timeout=100s",
                      *ONLY_GRADIENTS, variables=variables) as job:
            job.wait_for_step(30)
            runs.wait_for(lambda: heard_of_all(page, 3), "heartbeats")
            faults.arm(1, act, r"forward of slice \d+$")
            faults.struck(1)
            stack = {r"#0 __read \+ 0x4c \(libc.so.6\)": r"#0 .* \+ 0x[0-9a-f]+ \(.*\)", r"0x4c": r"0x[0-9a-f]+"}
            (command,) = place.commands_of(block)
            asked_until_told(page, command, block, training.ANY_MOMENT | stack)


def a_stage_holds_the_pipeline_up(page):
    block = page.take("$ muster debug runs/fashion/latest\nworker 0 has waited 12 s")
    faults, variables = training.faulty_muster(page)
    with Training(page, f"{FASHION} 3", "strategy.type=pipeline", "workers.min_workers=3", "workers.max_restarts=0",
                  "workers.heartbeat_timeout=100s", variables=variables) as job:
        job.wait_for_step(30)
        runs.wait_for(lambda: heard_of_all(page, 3), "heartbeats")
        faults.arm(2, "hang-kernel", r"in forward of slice \d+, chunk 2\b")
        faults.struck(2)
        (command,) = place.commands_of(block)
        asked_until_told(page, command, block, training.ANY_MOMENT)


def asked_until_told(page, command, block, words):
    """The others come to where they have to wait when they come to it."""
    for attempt in range(training.ATTEMPTS):
        time.sleep(1)
        text = page.place().run(command)
        try:
            return shapes.compare(block.place, place.printed_in(block), text, words)
        except AssertionError:
            if attempt + 1 == training.ATTEMPTS:
                raise


def every_sample_once(page):
    block = page.take("$ muster data audit runs/fashion/latest")
    with Training(page, f"{FASHION} 2", "training.epochs=300") as job:  # longer than it takes to kill
        job.wait_for_step(30).kill(1)
        job.process.wait(timeout=runs.DEADLINE)
        assert job.process.returncode == 0, job.stop()
    (command,) = place.commands_of(block)
    shapes.compare(block.place, place.printed_in(block), page.place().run(command))


SCENES = (others_go_on, too_few_wait, nobody_has_the_state, dies_as_it_starts, nobody_else_has_the_part, another_has_the_part,
          others_join, the_slow_one_is_named, every_sample_once, a_failure_says_where, late_slices_are_computed_by_others,
          wrong_bits, wrong_gradients, who_holds_the_job_up, a_stage_holds_the_pipeline_up)


# What a death and a newcomer cost: the page's figures, and the rows of bench/RESULTS.md that have them.
COSTS = (
    (r"a death adds (\d+) ms \(fashion\)", "ms to the next committed step beyond the step itself, fashion ("),
    (r"and (\d+) ms \(gpt\)", "ms to the next committed step beyond the step itself, fashion, gpt ("),
    (r"in the median of (\d+) kills each", "ms to the next committed step beyond the step itself, fashion ("),
    (r"torchrun needs (\d+) s", "ms to the next committed step, whole", "ms"),
    (r"and loses (\d+) steps", "steps lost"),
    (r"holds two others up for (\d+) and \d+ ms", "fashion (4 joins)"),
    (r"holds two others up for \d+ and (\d+) ms", "gpt (4 joins)"),
)


def costs_are_measured(page):
    costs = page.text.split("\n## What it costs\n", 1)[1].split("\n## ", 1)[0]
    measured.text_is_measured(page, costs, COSTS)


def play(page):
    costs_are_measured(page)
    for scene in SCENES:
        began = time.monotonic()
        scene(page)
        print(f"ok  {scene.__name__} ({time.monotonic() - began:.0f} s)", flush=True)
    # Slurm starts it in app.submit, with the words of muster submit.
    elsewhere.run_by(page, "srun --nodes 3", "app.submit")
    # Hosts that are reached by the real ssh.
    elsewhere.run_by(page, "$ muster train jobs/fashion.yaml --hosts localhost:2", "elastic.ssh")
    away = elsewhere.run_by(page, "[WARN] worker 6 on node8 lost its ssh session", "elastic.ssh")
    elsewhere.said_by_the_product(page, away.lines[1:], away.place)
    # Two hosts between which a link is cut: network namespaces.
    link = elsewhere.run_by(page, "[WARN] worker 2 of node7 (pid 811) is not let in yet", "elastic.links")
    elsewhere.said_by_the_product(page, link.lines, link.place, names=[r"\[WARN\] ", ": (?=it cannot)", "connection timed out"])
