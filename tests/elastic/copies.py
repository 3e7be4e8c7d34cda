"""Of a worker whose neighbour has its whole state in memory (strategy.redundancy) nothing is lost: whoever comes in its
place gets it from there, and nobody goes back to a checkpoint. That the copy is whole is no matter of luck: one worker is
held in a pass, so no other can update, until the neighbour waits for nothing but the sum of the gradients."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import faulty
import losses
import runs

STEPS = 400
SHARDED = runs.settings("strategy.type=sharded", "strategy.redundancy=1")
HELD, VICTIM, KEEPER = 0, 1, 2  # the rank after a worker keeps its copy
SUMS = r"all_reduce sum .* \(gradients/0\)$"  # an operation is told while none that began before it is under way
WAITS = r"2 workers are left, waiting until 1 more has joined \(workers\.min_workers\); missing: worker 1"


def notices(run):
    return [row["text"] for row in runs.records(run, "notice")]


def die_with_a_whole_copy(process, faults):
    """The worker that dies, its process, and at which step."""
    faults.arm(HELD, "stall", r"^at step \d+, .*forward of slice \d+$")  # the others wait meanwhile
    step = faulty.step_of(faults.struck(HELD)[1]) + 2
    # A pass may begin beside an operation, and what is told of it later does not hold the lane.
    faults.arm(HELD, "stall", rf"^at step {step}, .*forward of slice \d+\b")
    faults.arm(KEEPER, "note", rf"^at step {step}, .*{SUMS}")
    faults.arm(VICTIM, "note", rf"^at step {step}, .*forward of slice \d+\b")  # it may come there last
    faults.release(HELD)
    for worker in (HELD, KEEPER, VICTIM):
        _, where = faults.struck(worker)
        assert faulty.step_of(where) == step, where
    pid = runs.workers_of(process)[VICTIM]
    runs.kill(pid)
    faults.release(HELD)
    return pid, step


def main():
    arguments = runs.arguments("--worker")
    with runs.workplace() as folder:
        runs.write_data(folder)
        runs.train(arguments.muster, runs.write_job(folder, "gpt", STEPS), "--workers", "3", *SHARDED)
        expected = runs.weights(runs.latest(folder), STEPS)
        muster = faulty.install(folder, arguments.muster, arguments.worker)
        faults = faulty.Faults(folder / "faults")
        process = runs.start(muster, runs.write_job(folder, "gpt", STEPS, runs="struck"), "--workers", "3", *SHARDED,
                             *runs.settings("training.lanes=1", "checkpoint.every=never"), env=faults.environment())
        run = runs.wait_for_step(process, folder, 20, "struck")
        pid, step = die_with_a_whole_copy(process, faults)
        code, output = runs.finish(process)
        assert code == 0, f"exit code {code}:\n{output}"
        line = losses.line_of(notices(run), VICTIM, pid)
        assert losses.check(line, VICTIM, pid, losses.BY["SIGKILL"], losses.TRAINS, WAITS, output) == step, line
        stands = [line for line in notices(run) if re.match("generation 2 of 3 workers stands after", line)]
        told = f": it goes on after step {step - 1}; worker {VICTIM} got its state from the copy that worker {KEEPER} has kept"
        assert len(stands) == 1 and stands[0].endswith(told), f"{stands}, not {told!r}\n{output}"
        assert "since nobody" not in output, output
        assert runs.weights(run, STEPS) == expected, f"other weights\n{output}"


if __name__ == "__main__":
    main()
