"""A standby takes the place of a worker that dies: the step goes on, the weights stay the same, and nobody waits
for a worker that is started anew. Where each worker has a part of the state, it gets the rank and that part."""
import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import faulty
import runs

STEPS = 400
SLICES = 8
STANDBY = 2  # beside workers 0 and 1


def pids_of(run, worker):
    """Of all processes that have had a rank under that number."""
    log = (run / f"logs/rank-{worker}.log").read_text()
    return set(re.findall(r" rank \d+ of \d+ in generation \d+: pid (\d+) ", log))


def slices_of(faults, workers, step):
    """How often these workers have computed each slice of that step."""
    return collections.Counter(at for worker in workers for of, at in faults.passes(worker) if of == step)


def check_takeover(faults, victim, step):
    """The standby has computed nothing before that step, and from then on what the dead one would have."""
    left = [1 - victim, STANDBY]
    passes = faults.passes(STANDBY)
    assert passes and passes[0][0] >= step, f"the standby, of which step {step} needed the first slice: {passes[:3]}"
    each = collections.Counter(range(SLICES))
    for at in (step, step + 1, step + 2):
        found = slices_of(faults, left, at)
        assert found == each, f"step {at}, how often each slice: {found}"
    for at in (step + 1, step + 2):
        assert slices_of(faults, [STANDBY], at).total() == SLICES // 2, f"step {at}: {passes}"


def replace(muster, folder, model, victim, restarts):
    """Kills a worker while the others wait for it, as was decided before; everything that was printed, and the run."""
    name = f"{model}-{victim}-{restarts}"
    faults = faulty.Faults(folder / f"faults-{name}")
    faults.arm(victim, "SIGKILL-late", r"^at step 6\d, .*forward of slice \d+$")
    job = runs.write_job(folder, model, steps=STEPS, runs=name)
    process = runs.start(muster, job, "--workers", "2", *runs.settings(
        "workers.standbys=1", f"workers.max_restarts={restarts}", "training.lanes=1", "stragglers.rebalance=false"),
        env=faults.environment(MUSTER_PASSES="yes"))
    code, output = runs.finish(process)
    assert code == 0, f"exit code {code}:\n{output}"
    run = runs.latest(folder, name)
    _, where = faults.struck(victim)
    assert all(len(pids_of(run, worker)) == 1 for worker in (1 - victim, STANDBY)), "others were started anew as well"
    assert "2 workers × " in output and "1 standby" in output, output
    step = faulty.step_of(where)
    told = rf"generation 2 of 2 workers stands after .*: step {step} goes on, {SLICES // 2} of {SLICES} slices are " \
        "computed again"
    assert re.search(told, output), f"no `{told}` in:\n{output}"
    check_takeover(faults, victim, step)
    return run, output


def has_rank(run, worker, generation):
    """That worker is rank 1 of two from that generation on."""
    log = run / f"logs/rank-{worker}.log"
    return lambda: f"rank 1 of 2 in generation {generation}: pid" in log.read_text()


def replace_part(muster, folder, model, restarts, *strategy):
    """The second of two ranks dies and the standby has it; then that one does, where another one is started."""
    name = f"part-{model}-{restarts}"
    job = runs.write_job(folder, model, steps=10**6, runs=name)
    process = runs.start(muster, job, "--workers", "2", *runs.settings(
        *runs.UNTIL_STOPPED, "workers.standbys=1", f"workers.max_restarts={restarts}", *strategy))
    run = runs.wait_for_step(process, folder, 60, name)
    before = runs.workers_of(process)
    assert len(before) == 3, before
    assert "in generation" not in (run / f"logs/rank-{STANDBY}.log").read_text(), "the standby takes part"
    runs.kill(before[1])
    runs.wait_for(has_rank(run, STANDBY, 2), "the standby with the rank")
    runs.goes_on(process, run, 20)
    if restarts:
        runs.kill(before[STANDBY])
        runs.wait_for(has_rank(run, 1, 3), "the one that was started for the first")
        runs.goes_on(process, run, 20)
    output = runs.stop(muster, process, folder, run, model=model)
    assert "2 workers × " in output and "1 standby" in output, output
    assert output.count("is started anew") == restarts, output
    loss = r"worker 1 \(pid \d+ on \S+\) killed by SIGKILL at step \d+.*; 2 workers are left, going on"
    assert re.search(loss, output), f"no `{loss}` in:\n{output}"
    steps = [row["step"] for row in runs.rows(run) if "train/loss" in row]
    assert steps == list(range(1, len(steps) + 1)), f"told {steps}"
    return run, output


def silence(muster, folder):
    """The standby is stopped: nobody waits for it, and it is told what it was."""
    process = runs.endless(muster, folder, "silent", "--workers", "2", *runs.settings(
        "workers.standbys=1", "workers.max_restarts=0", "strategy.type=sharded"))
    run = runs.wait_for_step(process, folder, 20, "silent")
    os.kill(runs.workers_of(process)[STANDBY], signal.SIGSTOP)
    loss = re.compile(rf"worker {STANDBY} \(pid \d+ on \S+\) (.*?); 2 workers are left, going on")
    told = runs.wait_for(lambda: [found[1] for row in runs.records(run, "notice")
                                  if (found := loss.search(row["text"]))], "its loss")
    assert len(told) == 1 and told[0].startswith("stopped answering as a standby at step 0"), told
    runs.goes_on(process, run, 20)
    process.send_signal(signal.SIGINT)
    code, output = runs.finish(process)
    assert code == 128 + signal.SIGINT, f"exit code {code}:\n{output}"


def audit(muster, run):
    told = subprocess.run([muster, "data", "audit", "--json", str(run)], capture_output=True)
    assert json.loads(told.stdout)["well"], told.stdout


def main():
    arguments = runs.arguments("--worker")
    with runs.workplace() as folder:
        runs.write_data(folder)
        muster = faulty.install(folder, arguments.muster, arguments.worker)
        for model in ("resnet", "gpt"):
            expected = runs.undisturbed(arguments.muster, folder, model, STEPS)
            for victim in (0, 1):
                run, output = replace(muster, folder, model, victim, restarts=0)
                assert "is started anew" not in output and "got the state" not in output, output
                assert runs.weights(run, STEPS) == expected, "other weights"
                audit(arguments.muster, run)
                print(f"ok  {model}, worker {victim}", flush=True)
        # The one that is started anew comes long after the standby has gone on, and is the next standby.
        run, output = replace(muster, folder, "gpt", 1, restarts=1)
        assert runs.weights(run, STEPS) == expected, "other weights"
        loss, goes_on, state = (output.find(text) for text in (
            "killed by SIGKILL at step", "generation 2 of 2 workers stands after", "worker 1 got the state"))
        assert 0 <= loss and 0 <= goes_on and (state < 0 or goes_on < state), output
        audit(arguments.muster, run)
        print("ok  gpt, worker 1, started anew beside", flush=True)
        for restarts in (0, 1):
            run, output = replace_part(arguments.muster, folder, "gpt", restarts, "strategy.type=pipeline")
            lost = f"the last checkpoint, since nobody else has what rank 1 (now worker {STANDBY}, a standby) held"
            assert lost in output, output
            if restarts:  # the next standby is the one that was started for worker 1
                assert "since nobody else has what rank 1 (now worker 1) held" in output, output
            audit(arguments.muster, run)
            print(f"ok  stages, {restarts} restarts", flush=True)
        run, output = replace_part(arguments.muster, folder, "mlp", 0, "strategy.type=sharded", "strategy.redundancy=1")
        # Where it died in the moment of an update nobody had its part of the same step.
        how = rf"worker {STANDBY} got its state from the copy that worker 0 has kept|all go back to step \d+, the last"
        assert re.search(how, output), f"no `{how}` in:\n{output}"
        audit(arguments.muster, run)
        print("ok  shards with copies", flush=True)
        silence(arguments.muster, folder)
        print("ok  a standby that is stopped", flush=True)


if __name__ == "__main__":
    main()
