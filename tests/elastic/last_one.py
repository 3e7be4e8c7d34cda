"""Nobody is left who holds the state: the training goes back to its last checkpoint by itself, or begins anew where there
is none, with the bits of an undisturbed run; it ends only where no new worker comes either."""
import json
import pathlib
import re
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

STEPS = 300
NOBODY = r"since nobody (is left who holds the state|else has what workers? [\d, ]+ held)"
NEVER = ("checkpoint.every=never", "evaluation.keep_best=false")


class Stage:
    def __init__(self, muster, folder):
        self.muster, self.folder = muster, folder
        self.expected = runs.undisturbed(muster, folder, "resnet", STEPS)
        self.job = runs.write_job(folder, "resnet", steps=STEPS)

    def start(self, name, workers, *settings, step=60):
        process = runs.start(self.muster, self.job, "--workers", str(workers),
                             *runs.settings(f"run_folder={self.folder / name}", *settings))
        return process, runs.wait_for_step(process, self.folder, step, name)

    def check_end(self, process, run, returns=1):
        """It has gone back so often, and come to what an undisturbed run comes to; the lines that say so."""
        code, output = runs.finish(process)
        assert code == 0, f"exit code {code}:\n{output}"
        assert runs.weights(run, STEPS) == self.expected, f"other weights:\n{output}"
        steps = [row["step"] for row in runs.rows(run) if "train/loss" in row]
        assert steps == list(range(1, STEPS + 1)), f"told {steps}\n{output}"
        told = [line for line in output.splitlines() if line.startswith("generation ") and re.search(NOBODY, line)]
        assert len(told) == returns, output
        audit = subprocess.run([self.muster, "data", "audit", "--json", str(run)], capture_output=True, text=True)
        ledger = json.loads(audit.stdout)
        assert ledger["well"] and ledger["proven"] and ledger["steps"] == STEPS, ledger
        backs = [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines() if "back_to" in line]
        assert len(backs) == returns, backs
        for line, back in zip(told, backs):
            check_line(line, back["back_to"])
        return told, output


def check_line(line, to):
    """That it says to where, and how many steps that costs."""
    whereto = f"all go back to step {to}, the last checkpoint" if to else "all begin anew, for there is no checkpoint"
    found = re.search(f"{whereto}, {NOBODY}" + r"; (\d+) steps? (is|are) taken again$", line)
    assert found, f"to {to}: {line}"


def kill_at_once(pids):
    """None goes on, or gets another one's state, while this process is held up between two of them."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            runs.kill(pid, number)


def kill_all(process):
    kill_at_once(runs.workers_of(process).values())


def all_at_once(stage):
    for workers in (1, 3):
        process, run = stage.start(f"all-{workers}", workers)
        kill_all(process)
        told, output = stage.check_end(process, run)
        assert "all go back to step" in told[0], told
        assert "0 workers are left, waiting until 1 more has joined" in output, output


def twice(stage):
    process, run = stage.start("twice", 2, "workers.max_restarts=9")
    kill_all(process)
    runs.wait_for(lambda: any("who holds the state" in row["text"] for row in runs.records(run, "notice")), "a return")
    runs.goes_on(process, run, 20)
    kill_all(process)
    stage.check_end(process, run, returns=2)


def long_after(stage):
    """A restart counts within its window, and until the job is past the step of that death."""
    process, run = stage.start("window", 1, "workers.max_restarts=1", "workers.restart_window=1ms")
    kill_all(process)
    runs.wait_for(lambda: any("who holds the state" in row["text"] for row in runs.records(run, "notice")), "a return")
    runs.goes_on(process, run, 20)
    kill_all(process)
    stage.check_end(process, run, returns=2)


def before_a_checkpoint(stage):
    process, run = stage.start("anew", 2, *NEVER, step=20)
    kill_all(process)
    told, _ = stage.check_end(process, run)
    assert "all begin anew" in told[0], told


def all_shards_at_once(stage):
    process, run = stage.start("shards", 2, "strategy.type=sharded")
    kill_all(process)
    stage.check_end(process, run)


def a_part_that_was_taken_over(stage):
    """Who came in the place of one that died and got its part from a neighbour goes back with the others."""
    process, run = stage.start("parts", 3, "strategy.type=sharded", "strategy.redundancy=1", "workers.max_restarts=20",
                               step=40)
    # One that dies while its part is on the way to its neighbour takes it along, and all go back.
    backs = 0
    taken_over = False
    while not taken_over:
        runs.kill(runs.workers_of(process)[0])
        runs.wait_for(lambda: "has kept" in told_of(run) or told_of(run).count("all go back") > backs, "a new one")
        taken_over = "has kept" in told_of(run)
        backs = told_of(run).count("all go back")
        runs.goes_on(process, run, 20)
    workers = runs.workers_of(process)
    kill_at_once([workers[1], workers[2]])
    # One that is amidst an update as the others die has no whole state either.
    stage.check_end(process, run, returns=backs + 1)


def told_of(run):
    return str(runs.records(run, "notice"))


def with_one_that_just_joined(stage, name):
    """A job, its run, and the pid of the only one that is sure to have the state."""
    process, run = stage.start(name, 2)
    before = runs.workers_of(process)
    runs.kill(before[1])
    runs.wait_for(lambda: "of 2 in generation 3: pid" in (run / "logs/rank-1.log").read_text(), "the new one")
    return process, run, before[0]


def is_told_to_go_before_another_has_it(stage):
    """It waits until the other one does."""
    process, run, holder = with_one_that_just_joined(stage, "handed")
    runs.kill(holder, signal.SIGTERM)
    _, output = stage.check_end(process, run, returns=0)
    assert "worker 0 was told to go and leaves" in output, output


def before_another_has_it(stage):
    """The only one with the state dies as soon as a new one has joined."""
    process, run, holder = with_one_that_just_joined(stage, "handover")
    runs.kill(holder)
    code, output = runs.finish(process)
    assert code == 0, f"exit code {code}:\n{output}"
    assert runs.weights(run, STEPS) == stage.expected, f"other weights:\n{output}"


def nobody_comes(stage):
    process, run = stage.start("never", 1, "workers.max_restarts=1")
    kill_all(process)
    runs.wait_for(lambda: any("who holds the state" in row["text"] for row in runs.records(run, "notice")), "a return")
    kill_all(process)
    code, output = runs.finish(process)
    assert code == 1, f"exit code {code}:\n{output}"
    assert "0 workers are left, 1 is needed (workers.min_workers), and no new one comes" in output, output
    assert "SIGKILL" in output, output


def nobody_joins(stage):
    """Others might have come."""
    process, run = stage.start("joins", 1, "workers.max_restarts=0", "workers.listen=127.0.0.1:0",
                               "workers.max_workers=2", "workers.join_timeout=1 min")
    kill_all(process)
    code, output = runs.finish(process)
    assert code == 1, f"exit code {code}:\n{output}"
    assert "no new one has joined within 1 min" in output, output
    assert "0 workers are left, waiting until 1 more has joined" in output, output


def the_new_one_is_told_to_go(stage):
    for attempt in range(runs.ATTEMPTS):
        process, run = stage.start(f"goes-{attempt}", 1, "workers.max_restarts=1")
        before = runs.workers_of(process)[0]
        runs.kill(before)
        anew = runs.wait_for(lambda: (pid := runs.workers_of(process).get(0)) not in (None, before) and pid, "a new one")
        runs.kill(anew, signal.SIGTERM)
        code, output = runs.finish(process)
        if code != 143:  # else it trained already, and stopped as whoever is the last
            break
    assert code == 1, f"exit code {code}:\n{output}"
    assert "--resume" in output and "finished" not in output.splitlines()[-1], output


def all_are_told_to_go_meanwhile(stage):
    """While the training waits for the new one."""
    process, run = stage.start("stop", 1)
    kill_all(process)
    runs.wait_for(lambda: "0 workers are left" in str(runs.records(run, "notice")) or len(runs.workers_of(process)) == 1, "a loss")
    process.send_signal(signal.SIGTERM)
    code, output = runs.finish(process)
    assert code == 143, f"exit code {code}:\n{output}"


def main():
    muster = runs.arguments().muster
    with runs.workplace() as folder:
        runs.write_data(folder)
        stage = Stage(muster, folder)
        for scenario in (all_at_once, twice, long_after, before_a_checkpoint, all_shards_at_once, a_part_that_was_taken_over,
                         before_another_has_it, is_told_to_go_before_another_has_it, nobody_comes, nobody_joins, the_new_one_is_told_to_go,
                         all_are_told_to_go_meanwhile):
            scenario(stage)
            print(f"ok  {scenario.__name__}", flush=True)


if __name__ == "__main__":
    main()
