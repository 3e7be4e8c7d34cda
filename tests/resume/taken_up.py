"""Runs that are taken up again, or cannot be: damaged, finished, of another job, or with somebody there already."""
import signal
import subprocess

import runs
from cases import expect, play


def nothing_to_resume(muster, folder):
    job = runs.write_job(folder, "mlp", runs="fresh")
    code, output = runs.finish(runs.start(muster, job, "--resume"))
    expect(code, 3, output, "fresh")


def another_job_resumed(muster, folder):
    """What decides the order of the data cannot change within a run."""
    job = runs.write_job(folder, "mlp")
    runs.train(muster, job, "--set", "training.max_steps=20")
    run = runs.latest(folder)
    before = runs.weights(run, 20)
    code, output = runs.finish(runs.start(muster, job, "--resume", "--set", "seed=6", "--set",
                                          "training.global_batch_size=20"))
    expect(code, 2, output, "seed: 5 -> 6", "training.global_batch_size: 18 -> 20")
    assert runs.weights(run, 20) == before


def finished_run_resumed(muster, folder):
    job = runs.write_job(folder, "mlp")
    runs.train(muster, job)
    run = runs.latest(folder)
    checkpoints = sorted(path.name for path in (run / "checkpoints").iterdir())
    output = runs.train(muster, job, "--resume")
    assert "accuracy" in output, output
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == checkpoints


def two_launchers(muster, folder):
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    process = runs.start(muster, job, "--workers", "2")
    run = runs.wait_for_step(process, folder, 30)
    runs.wait_for(lambda: list(run.glob("checkpoints/*/manifest.json")), "a checkpoint to resume from")
    code, output = runs.finish(runs.start(muster, job, "--resume"))
    expect(code, 3, output, str(run), "another muster still trains there")
    process.send_signal(signal.SIGTERM)
    expect(runs.finish(process)[0], 143, "")
    runs.train(muster, job, "--resume", "--set", "training.max_steps=40")


def two_begin_at_once(muster, folder):
    job = runs.write_job(folder, "mlp", steps=20)
    for _ in range(3):
        both = [runs.start(muster, job, "--workers", "1") for _ in range(4)]
        for process in both:
            code, output = runs.finish(process)
            expect(code, 0, output)
    names = sorted(path.name for path in (folder / "runs/tiny").iterdir())
    assert len(names) == 13 and names[-1] == "latest", names
    assert all(len(runs.rows(folder / "runs/tiny" / name)) >= 20 for name in names), names


def with_code(asked, wanted):
    return asked[0], wanted, asked[1]


def damaged_run(muster, folder):
    """Files of a run that a bad disk has changed: each command says what is wrong, and none of them hangs."""
    job = runs.write_job(folder, "mlp", steps=40)
    runs.train(muster, job, "--workers", "2")
    run = runs.latest(folder)
    rubbish = b"\x00\xff{rubbish\n"

    def ask(*words):
        done = subprocess.run([muster, *map(str, words)], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def damage(name, change):
        path = run / name
        before = path.read_bytes()
        path.write_bytes(change(before))
        return lambda: path.write_bytes(before)

    def torn(before):
        lines = before.splitlines(keepends=True)
        return b"".join([*lines[:1], rubbish, *lines[1:]])

    mend = damage("metrics.jsonl", torn)
    expect(*with_code(ask("report", run), 0), "metrics.jsonl: line 2: ", "report.html")
    # As a launcher leaves it that is killed before it has written of any step.
    expect(*with_code(ask("data", "audit", run), 0), "every sample exactly once")
    mend_ledger = damage("ledger.jsonl", lambda before: before.splitlines(keepends=True)[0])
    expect(*with_code(ask("train", job, "--resume", "--set", "training.max_steps=60"), 0), "not in the report")
    mend()
    code, output = ask("data", "audit", run)
    expect(code, 3, output, "every recorded sample once; 40 steps are in no ledger")
    assert "exactly once" not in output, output
    expect(*with_code(ask("data", "audit", "--json", run), 3), '"well":true', '"proven":false')
    # It held lines back for up to a second.
    mend_ledger()
    cut = damage("ledger.jsonl", lambda before: b"".join(before.splitlines(keepends=True)[:2]))
    code, output = ask("data", "audit", run)
    expect(code, 3, output, "every recorded sample once", "in no ledger")
    cut()
    mend = damage("ledger.jsonl", torn)
    expect(*with_code(ask("data", "audit", run), 1), "line 2")
    mend()
    mend = damage("ledger.jsonl", lambda before: rubbish)
    expect(*with_code(ask("data", "audit", run), 3), "not a ledger")
    mend()
    for change in (lambda before: rubbish, lambda before: before[:100], lambda before: b""):
        mend = damage("resolved.yaml", change)
        expect(*with_code(ask("train", job, "--resume"), 3), "resolved.yaml does not say any more")
        mend()
    (run / "debug.json").write_bytes(rubbish)
    expect(*with_code(ask("debug", run), 3), "debug.json")
    for manifest in run.glob("checkpoints/*/manifest.json"):
        manifest.write_bytes(rubbish)
    expect(*with_code(ask("checkpoint", "list", run), 1), "damaged")
    code, output = ask("train", job, "--resume", "--set", "training.max_steps=80")
    expect(code, 3, output, "none of its checkpoints is whole", "without --resume", f"checkpoint verify {run}")
    assert "go on with" not in output, output


play([nothing_to_resume, another_job_resumed, finished_run_resumed, two_launchers, two_begin_at_once, damaged_run])
