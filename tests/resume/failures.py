"""What happens when something goes wrong: the right exit code, the right culprit, nothing lost, nothing
left behind."""
import functools
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import time

import runs

# Whoever runs this may have it ignored (nohup), and what is ignored stays so in programs that are started.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def expect(code, wanted, output, *fragments):
    assert code == wanted, f"exit code {code} instead of {wanted}:\n{output}"
    for fragment in fragments:
        assert fragment in output, f"no {fragment!r} in:\n{output}"


def gone(workers):
    end = time.monotonic() + runs.DEADLINE
    while any(runs.alive(pid) for pid in workers.values()) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(runs.alive(pid) for pid in workers.values()), "a worker outlived its job"


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
    mend_ledger()
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


def with_code(asked, wanted):
    return asked[0], wanted, asked[1]


def numbers_run_away(muster, folder):
    job = runs.write_job(folder, "mlp", steps=400)
    code, output = runs.finish(runs.start(muster, job, "--workers", "2", "--set",
                                          "optimizer.learning_rate=1e30", "--set", "checkpoint.every=1 steps"))
    expect(code, 4, output, "learning rate", "step", "the gradient of ")


def ruined_weights_are_put_away(muster, folder):
    """An update may ruin the weights that the next loss tells of: by then they are saved. The checkpoint before them is
    there, whatever is kept, and the way out that is shown leads on."""
    job = runs.write_job(folder, "mlp", steps=30)
    sane = runs.settings("checkpoint.keep=1", "evaluation.keep_best=false")
    runs.train(muster, job, "--workers", "2", *sane)
    run = runs.latest(folder)
    wild = runs.settings("training.max_steps=60", "checkpoint.every=1 steps", "optimizer.learning_rate=1e30",
                         "schedule.type=constant", "schedule.warmup=0 steps")
    code, output = runs.finish(runs.start(muster, job, "--workers", "2", "--resume", *sane, *wild))
    expect(code, 4, output, "step 32", "the checkpoint of step 31 has the weights whose loss is no number",
           "ruined-step-00000031")
    assert saved_steps(run) == [30] and (run / "checkpoints/ruined-step-00000031").is_dir(), saved_steps(run)
    assert output.count("optimizer.learning_rate=") == 1, output
    assert json.loads((run / "summary.json").read_text())["step"] == 31
    runs.train(muster, job, "--workers", "1", "--resume", *sane, "--set", "training.max_steps=60")
    assert saved_steps(run) == [60]


def the_last_update_counts(muster, folder):
    """The loss of a step is that of the weights before it: what the last update has done only the evaluation tells."""
    job = runs.write_job(folder, "mlp", steps=1)
    code, output = runs.finish(runs.start(muster, job, "--workers", "2", *runs.settings(
        "optimizer.learning_rate=1e38", "schedule.type=constant", "schedule.warmup=0 steps")))
    expect(code, 4, output, "the loss of the evaluation after step 1 is ", "learning_rate")
    assert not saved_steps(runs.latest(folder))


def loss_runs_away(muster, folder):
    """Long before there is a NaN: checkpoints of that time must not replace the good ones before."""
    job = runs.write_job(folder, "mlp", steps=400)
    def settings(warmup):
        return runs.settings(f"optimizer.learning_rate={2000 * warmup / 300}", "schedule.type=linear",
                             f"schedule.warmup={warmup} steps", "checkpoint.every=2 steps")

    code, output = runs.finish(runs.start(muster, job, "--workers", "2", *settings(300)))
    expect(code, 4, output, "learning rate")
    run = runs.latest(folder)
    loss = {row["step"]: row["train/loss"] for row in runs.rows(run) if "train/loss" in row}
    saved = saved_steps(run)
    assert saved and max(loss[step] for step in saved) <= 10 * loss[1], (saved, loss)
    # It ends before it is judged: the end is saved beside the last good one, not in its place.
    last = max(loss) - 1
    runs.train(muster, job, "--workers", "2", *settings(last), *runs.settings(
        "checkpoint.keep=1", f"training.max_steps={last}"))
    # Nor has it proven the last good one, so the one before is there as well.
    assert saved_steps(runs.latest(folder)) == [*saved[-2:], last], saved_steps(runs.latest(folder))


def saved_steps(run):
    return sorted(int(path.name[5:13]) for path in run.glob("checkpoints/step-*"))


def stops_early(muster, folder):
    """Nothing is learnt, so nothing gets better; the first checkpoint stays the best, and is kept if it should."""
    job = runs.write_job(folder, "mlp", steps=400)
    for keep_best, wanted in (("true", [10, 40]), ("false", [40])):
        code, output = runs.finish(runs.start(muster, job, "--workers", "2", *runs.settings(
            "optimizer.learning_rate=1e-15", "optimizer.weight_decay=0", "evaluation.every=10 steps",
            "evaluation.early_stop_patience=3", "checkpoint.every=10 steps", "checkpoint.keep=1",
            f"evaluation.keep_best={keep_best}")))
        expect(code, 0, output, "stopped early")
        run = runs.latest(folder)
        assert [step for step, *_ in runs.evaluations(run)] == [10, 20, 30, 40], output
        assert saved_steps(run) == wanted, (keep_best, saved_steps(run))
        output = runs.train(muster, job, "--workers", "1", "--resume", *runs.settings(
            "optimizer.learning_rate=1e-15", "optimizer.weight_decay=0", "evaluation.every=10 steps",
            "evaluation.early_stop_patience=3", "checkpoint.every=10 steps", "checkpoint.keep=1",
            f"evaluation.keep_best={keep_best}"))
        assert "stopped early" in output, output
        assert runs.last_step(run) == 40 and saved_steps(run) == wanted, "trained on after an early stop"


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


def missing_instructions(muster, folder):
    """A worker would be killed by SIGILL."""
    if "avx512f" in pathlib.Path("/proc/cpuinfo").read_text():
        return print("left out: an instruction set that is missing, since this processor has all that a job can ask for")
    job = runs.write_job(folder, "mlp")
    code, output = runs.finish(runs.start(muster, job, "--set", "training.isa=avx512"))
    expect(code, 3, output, "training.isa: avx512", "muster doctor")


def missing_data(muster, folder):
    job = runs.write_job(folder, "mlp")
    code, output = runs.finish(runs.start(muster, job, "--set", f"data.path={folder}/nowhere"))
    expect(code, 3, output, "data.path", "nowhere")
    dry = runs.finish(runs.start(muster, job, "--dry-run", "--set", f"data.path={folder}/nowhere"))
    expect(dry[0], 3, dry[1], f"data.path: there is no {folder}/nowhere", f"      | --set data.path={folder}",
           "\n      |                 ^")
    elsewhere = runs.finish(runs.start(muster, job, "--set", "data.path=nowhere", cwd=folder))
    expect(elsewhere[0], 3, elsewhere[1], "there is no nowhere", "relative to the folder in which muster runs")
    assert not (folder / "runs").exists(), "a run was made that could never be"


def copy_of_data(folder, name):
    copy = folder / name
    copy.mkdir()
    for file in folder.glob("*-ubyte*"):
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


def wrong_labels(path):
    labels = bytearray(path.read_bytes())
    labels[8:] = bytes([200]) * (len(labels) - 8)
    with open(path, "r+b") as file:  # in place: a file that is mapped changes for its readers
        file.write(labels)


def wrong_label(muster, folder):
    job = runs.write_job(folder, "mlp")
    bad = copy_of_data(folder, "bad")
    wrong_labels(bad / "train-labels-idx1-ubyte")
    code, output = runs.finish(runs.start(muster, job, "--workers", "2", "--set", f"data.path={bad}"))
    expect(code, 2, output, "train-labels-idx1-ubyte", "label 200 at row 0, but model.classes is 10")


def dry_run_fails(muster, folder):
    """What keeps a job from training is said by a dry run as well, with the same exit code."""
    job = runs.write_job(folder, "mlp")
    faults = (("model.hidden_sizes=[1,10000000,10000000]", 3, "allocate 400000000000000 bytes"),
              ("model.hidden_sizes=[1,10000000,10000000]", 3, "need less memory"),
              ("model.classes=5", 2, "but model.classes is 5"),
              ("data.augment.crop_padding=1000", 2, "but data.augment.crop_padding is 1000"),
              ("model.classes=9223372036854775807", 3, "size calculation overflowed"),
              ("training.freeze=[layer9.*]", 2, "no parameter has a name like `layer9.*`; there are layer0."),
              ('training.freeze=["*"]', 2, "leaves nothing to train"),
              ("training.recompute=[layer7]", 2, "no block has a name like `layer7`; there are layer0, head"),
              ("optimizer.groups=[{match: bias}]", 2, "no parameter has a name like `bias`"))
    own = job.with_name("own.yaml")
    own.write_text(job.read_text() + "lora: {rank: 2, target_modules: [nowhere]}\n")
    line = len(own.read_text().splitlines())
    for flags in (["--dry-run"], []):
        code, output = runs.finish(runs.start(muster, own, *flags))
        expect(code, 2, output, f"{own}:{line}:33: lora.target_modules: no layer has a name like `nowhere`",
               "\n      |" + 33 * " " + "^")
    for setting, wanted, said in faults:
        for flags in (["--dry-run"], []):
            code, output = runs.finish(runs.start(muster, job, *flags, "--set", setting))
            expect(code, wanted, output, said)
            if wanted == 2:
                expect(code, 2, output, f"      | --set {setting}\n      |       {' ' * len(setting.split('=')[0])} ^")


def step_fails(muster, folder):
    """A worker that fails in the middle of a step: its data turns bad under it."""
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    bad = copy_of_data(folder, "bad")
    process = runs.start(muster, job, "--workers", "2", "--set", f"data.path={bad}")
    run = runs.wait_for_step(process, folder, 30)
    workers = runs.workers_of(process)
    wrong_labels(bad / "train-labels-idx1-ubyte")
    code, output = runs.finish(process)
    expect(code, 1, output, "Target 200 is out of bounds", "--resume")
    rank = int(re.search(r"\[ERROR\] rank (\d)", output)[1])
    place = runs.place_of(output, rank, run)
    assert re.match(r"computing and reducing gradients, in forward of slice \d+\b", place), place
    gone(workers)


def torn_data(muster, folder):
    job = runs.write_job(folder, "mlp")
    bad = copy_of_data(folder, "torn")
    path = bad / "train-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-5])
    code, output = runs.finish(runs.start(muster, job, "--set", f"data.path={bad}"))
    expect(code, 3, output, "train-labels-idx1-ubyte")
    path.unlink()
    path.mkdir()
    code, output = runs.finish(runs.start(muster, job, "--set", f"data.path={bad}"))
    expect(code, 3, output, "data.train_labels", "train-labels-idx1-ubyte is a folder")


def way_to_mount():
    """Something to run it where it may mount, seen by nobody else. Root may by itself, and in a chroot only so;
    everybody else in a user namespace, where the system allows that."""
    ways = (["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"])
    return next((way for way in ways if runs.allowed(*way, "true")), None)


def with_own_mounts(script):
    return subprocess.run([*way_to_mount(), "sh", "-c", script], capture_output=True, text=True, timeout=runs.DEADLINE)


def mounts(scenario):
    """One that does, and is left out where this user may not."""
    @functools.wraps(scenario)
    def played(muster, folder):
        if way_to_mount() is None:
            return runs.leave_out("this system lets this user mount nothing, not even in a namespace of his own")
        return scenario(muster, folder)

    return played


@mounts
def full_disk(muster, folder):
    """The disk fills up while checkpoints are written: a clear error, the ones before are whole."""
    job = runs.write_job(folder, "mlp", steps=5000)
    small = folder / "small"
    small.mkdir()
    script = (f"mount -t tmpfs -o size=1m none {small} && {muster} train {job} --workers 2 --set run_folder={small}"
              f" --set checkpoint.keep=100000; code=$?; {muster} checkpoint verify {small}/tiny/latest || code=77; "
              f"find {small} -name '*.new' -printf 'LEFT %p\\n'; "
              f"{muster} report {small}/tiny/latest -o {folder}/page.html || code=78; "
              "exit $code")
    done = with_own_mounts(script)
    output = done.stdout + done.stderr
    expect(done.returncode, 3, output, "No space left on device", f"{folder}/page.html")
    # Whether the page found room after the last checkpoint was given up.
    told = "  report  " in output
    assert told != (f"muster report {small}" in output), output
    assert "LEFT" not in done.stdout, f"half a file was left behind:\n{output}"


@mounts
def full_for_a_moment(muster, folder):
    """What is measured while the disk is full is written once there is room: nothing is missing in the end."""
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    small = folder / "small"
    small.mkdir()
    never = " ".join(runs.settings("'checkpoint.every=1000000 steps'", "'evaluation.every=never'"))
    done = with_own_mounts(f"""
        mount -t tmpfs -o size=64m none {small} || exit 71
        {muster} train {job} --workers 2 --set run_folder={small} {never} >{folder}/told 2>&1 & job=$!
        latest={small}/tiny/latest
        rows() {{ grep -c train/loss $latest/metrics.jsonl; }}
        until [ $(rows) -ge 20 ]; do kill -0 $job || exit 72; sleep 0.05; done 2>{folder}/awaited
        head -c 128m /dev/zero >{small}/filled 2>{folder}/filled
        until grep -q 'metrics.jsonl cannot be written now' {folder}/told && grep -q 'ledger.jsonl cannot' {folder}/told
        do kill -0 $job || exit 73; sleep 0.05; done
        rm {small}/filled
        enough=$(($(rows) + 40))
        until [ $(rows) -ge $enough ]; do kill -0 $job || exit 74; sleep 0.05; done
        kill -TERM $job
        wait $job; code=$?
        {muster} data audit --json $latest >{folder}/audit || exit 75
        cp -L $latest/metrics.jsonl $latest/summary.json {folder}
        exit $code""")
    output = done.stdout + done.stderr + (folder / "told").read_text()
    expect(done.returncode, 143, output, "checkpoint written")
    assert " lacks " not in output, output
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [record["step"] for record in records if "train/loss" in record]
    apart = {after - before for before, after in zip(steps, steps[1:])}
    assert len(apart) == 1, f"rows are missing: {apart}"
    audit = json.loads((folder / "audit").read_text())
    assert audit["proven"] and audit["steps"] >= steps[-1], audit


@mounts
def started_on_a_full_disk(muster, folder):
    """No run begins, nothing is left of it, and `latest` is the run before."""
    job = runs.write_job(folder, "mlp")
    small = folder / "small"
    small.mkdir()
    train = f"{muster} train {job} --set run_folder={small}"
    done = with_own_mounts(f"""
        mount -t tmpfs -o size=8m none {small} || exit 71
        {train} >{folder}/first || exit 72
        before=$(readlink {small}/tiny/latest)
        head -c 16m /dev/zero >{small}/filled 2>{folder}/told
        {train}; code=$?
        [ "$(readlink {small}/tiny/latest)" = $before ] || exit 73
        echo runs: $(cd {small}/tiny && echo 2*)
        exit $code""")
    output = done.stdout + done.stderr
    expect(done.returncode, 3, output, "run_folder", "No space left on device")
    assert len(re.search(r"^runs: (.*)$", done.stdout, re.M)[1].split()) == 1, f"half a run was left: {output}"
    assert "another muster" not in output, output


@mounts
def stopped_on_a_full_disk(muster, folder):
    """SIGTERM, but its checkpoint finds no room: the code is the failure's, since others retry on that of the signal."""
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    small = folder / "small"
    small.mkdir()
    never = " ".join(runs.settings("'checkpoint.every=1000000 steps'", "'evaluation.every=never'"))
    done = with_own_mounts(f"""
        mount -t tmpfs -o size=8m none {small} || exit 71
        {muster} train {job} --workers 2 --set run_folder={small} {never} & job=$!
        until [ $(grep -c train/loss {small}/tiny/latest/metrics.jsonl) -ge 20 ]; do
          kill -0 $job || exit 72
          sleep 0.05
        done 2>{folder}/awaited
        head -c 16m /dev/zero >{small}/filled 2>{folder}/told
        kill -TERM $job
        wait $job""")
    output = done.stdout + done.stderr
    expect(done.returncode, 3, output, "SIGTERM: finishing the step", "No space left on device")
    assert "checkpoint written" not in output, output


def port_taken(muster, folder):
    """Told before there is a run, as an address that is another host's is."""
    job = runs.write_job(folder, "mlp")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for listen, why in ((address, "in use"), ("198.51.100.7:0", "assign")):
            for words in ((), ("--dry-run",)):
                code, output = runs.finish(runs.start(muster, job, "--set", f"workers.listen={listen}", *words))
                expect(code, 3, output, f"workers.listen: [net/listen] cannot listen at {listen}", why)
    assert not (folder / "runs").exists(), "a run's folder was made"


def port_taken_meanwhile(muster, folder):
    """What a launcher fails for that has made the folder of the run stands there."""
    job = runs.write_job(folder, "mlp")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    # The endpoint is opened first.
    code, output = runs.finish(runs.start(muster, job, *runs.settings(f"workers.listen={address}", f"prometheus.listen={address}")))
    expect(code, 3, output, address, "in use")
    summary = json.loads((runs.latest(folder) / "summary.json").read_text())
    assert summary["state"] == "failed" and summary["reason"] in output, (summary, output)
    listed = subprocess.run([muster, "runs", "--run-folder", str(folder / "runs")], capture_output=True, text=True)
    expect(listed.returncode, 0, listed.stdout + listed.stderr, "failed")


def unwritable(muster, folder):
    job = runs.write_job(folder, "mlp")
    blocked = folder / "blocked"
    blocked.write_text("a file where a folder should be")
    code, output = runs.finish(runs.start(muster, job, "--set", f"run_folder={blocked}"))
    expect(code, 3, output, "run_folder", "blocked")


@mounts
def checkpoints_become_unwritable(muster, folder):
    """Their file system becomes read-only, as after an error of the disk: a clear error, and those that were there are
    whole; once it can be written again, the training goes on."""
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    place = folder / "place"
    place.mkdir()
    train = f"{muster} train {job} --workers 2 --set run_folder={place}"
    done = with_own_mounts(f"""
        mount -t tmpfs -o size=256m none {place} || exit 71
        {train} & job=$!
        until ls {place}/tiny/latest/checkpoints/*/manifest.json >{folder}/found 2>&1; do
          kill -0 $job || exit 72
          sleep 0.05
        done
        checkpoints=$(readlink -f {place}/tiny/latest)/checkpoints
        mount --bind $checkpoints $checkpoints || {{ kill $job; exit 73; }}
        tries=0  # it is busy while a file is written there
        until mount -o remount,bind,ro $checkpoints 2>{folder}/busy; do
          tries=$((tries + 1)); [ $tries -lt 1000 ] || {{ kill $job; exit 73; }}
          sleep 0.01
        done
        wait $job; code=$?
        for whole in $checkpoints/*/manifest.json; do  # one that was being written is left as it is
          {muster} checkpoint verify $(dirname $whole) || code=77
        done
        umount $checkpoints || code=74
        step=$(ls -d $checkpoints/step-*[0-9] | tail -n 1 | sed 's/.*step-0*//; s/[^0-9].*//')
        {train} --resume --set training.max_steps=$((step + 20)) || code=78
        {muster} checkpoint verify --step $((step + 20)) {place}/tiny/latest || code=79
        exit $code""")
    expect(done.returncode, 3, done.stdout + done.stderr, "checkpoints", "Read-only file system", "rank 0",
           ": whole, ", "resumed after step ")


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
    process.send_signal(signal.SIGTERM)
    code, output = runs.finish(process)
    expect(code, 143, output, "where every worker is: ")


def address_space_limited(muster, folder):
    """Batch systems limit it (ulimit -v). That is no worker's fault that another one could do better."""
    job = runs.write_job(folder, "mlp", steps=400)
    limited = functools.partial(resource.setrlimit, resource.RLIMIT_AS, (4 << 30, 4 << 30))
    for count in ("2", "3"):
        code, output = runs.finish(runs.start(muster, job, "--workers", count, preexec_fn=limited))
        expect(code, 3, output, "cannot share memory", "of address space", "ulimit -v unlimited")
    code, output = runs.finish(runs.start(muster, job, "--workers", "2", *runs.settings(
        "communication.transport=tcp", "training.max_steps=3"), preexec_fn=limited))
    expect(code, 0, output)


def file_size_limited(muster, folder):
    """Batch systems limit it (ulimit -f), and a file is what workers share memory through as well. Nobody dies of the
    signal; what did not fit is named, with the limit, and nobody is started in vain."""
    job = runs.write_job(folder, "mlp", steps=400)
    for limit in (600 << 10, 100 << 20):
        limited = {"preexec_fn": functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit))}
        for count in ("1", "2"):
            code, output = runs.finish(runs.start(muster, job, "--workers", count, **limited))
            expect(code, 3, output, "cannot share memory", "File too large", "ulimit -f")
            assert "started anew" not in output and "SIGXFSZ" not in output, output
        code, output = runs.finish(runs.start(muster, job, "--workers", "2", *runs.settings(
            "communication.transport=tcp", "training.max_steps=3"), **limited))
        expect(code, 0, output)
        looked = subprocess.run([muster, "doctor"], capture_output=True, text=True, cwd=folder, **limited)
        expect(looked.returncode, 3, looked.stdout + looked.stderr, "file size", "ulimit -f")
    small = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (600 << 10, 600 << 10))
    code, output = runs.finish(runs.start(muster, job, "--workers", "2", *runs.settings(
        "communication.transport=tcp", "model.hidden_sizes=[1000]"), preexec_fn=small))
    expect(code, 3, output, f"{folder}/runs", ".safetensors", "File too large", "ulimit -f")
    assert "started anew" not in output, output


def processes_limited(muster, folder):
    """ulimit -u: whoever is refused a thread or a process says so and what to raise, at whatever place that is; none
    hangs or aborts. Root has no such limit, and other users' processes do not count."""
    if os.getuid() != 0:
        return runs.leave_out("whose processes count is decided by root alone")
    job = runs.write_job(folder, "mlp", steps=30)
    user = 60_000 + os.getpid() % 5000
    for path in (folder, *folder.iterdir()):
        os.chown(path, user, user)

    def limited(most):
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)

    codes = set()
    for most in (*range(1, 22), 200):
        code, output = runs.finish(runs.start(muster, job, "--workers", "2", "--set", "training.lanes=3",
                                              preexec_fn=functools.partial(limited, most)))
        codes.add(code)
        assert "terminate called" not in output and "SIGABRT" not in output, f"{most}:\n{output}"
        assert output.count("started anew") <= 3, f"{most}:\n{output}"
        if code != 0:
            expect(code, 3, output, "Resource temporarily unavailable", "limit of processes")
    assert codes == {0, 3}, codes


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


def other_images_for_evaluation(muster, folder):
    """Images of another size than the training's would be evaluated as something else, or fail in the middle."""
    job = runs.write_job(folder, "mlp", steps=400)
    runs.write_images(folder, "t10k", side=10)
    for flags in ((), ("--dry-run",)):
        code, output = runs.finish(runs.start(muster, job, "--workers", "2", *flags))
        expect(code, 2, output, "the samples for evaluation are image F32 [1, 10, 10]", "data.validation_path")


CASES = [missing_data, missing_instructions, stops_early, torn_data, wrong_label, dry_run_fails, step_fails, unwritable,
         two_launchers, asked_where_it_stands, checkpoints_become_unwritable, nothing_to_resume, numbers_run_away,
         stopped_where_an_evaluation_is_due, ruined_weights_are_put_away, the_last_update_counts, address_space_limited,
         file_size_limited, processes_limited, hung_up, other_images_for_evaluation,
          loss_runs_away, full_disk, full_for_a_moment, started_on_a_full_disk, stopped_on_a_full_disk, port_taken,
          port_taken_meanwhile, another_job_resumed, finished_run_resumed,
         launcher_killed, interrupted, all_signalled, worker_told_to_stop, nobody_reads_along, nothing_can_be_shown, interrupted_twice,
         timed_out, interrupted_early, two_begin_at_once, damaged_run]

parser = runs.arguments("--only")
for case in CASES:
    if parser.only and parser.only != case.__name__:
        continue
    with runs.workplace() as workplace:
        runs.write_data(workplace)
        outcome = case(parser.muster, workplace) or "as it should be"
        runs.no_memory_stays(workplace)
    print(f"{case.__name__}: {outcome}", flush=True)
