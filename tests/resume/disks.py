"""Disks that are full or cannot be written any more: that is named, and what was there is whole."""
import functools
import json
import re
import subprocess

import runs
from cases import expect, play


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


NEVER = " ".join(runs.settings("'checkpoint.every=1000000 steps'", "'evaluation.every=never'"))  # words of a shell


def on_disk(folder, size, muster, job, script):
    """Plays a shell's script in which `$train` trains the job on a file system of that size, `$small`. Exit code, and
    everything that was printed. The script ends with a code above 70 where it cannot be played."""
    small = folder / "small"
    small.mkdir()
    done = with_own_mounts(f"""
        small={small}
        latest=$small/tiny/latest
        train="{muster} train {job} --set run_folder=$small"
        rows() {{ grep -c train/loss $latest/metrics.jsonl; }}
        trained() {{ until [ $(rows) -ge $1 ]; do kill -0 $job || exit 72; sleep 0.05; done 2>>{folder}/awaited; }}
        fill() {{ head -c 128m /dev/zero >$small/filled 2>{folder}/filled; }}
        mount -t tmpfs -o size={size} none $small || exit 71
        {script}""")
    return done.returncode, done.stdout + done.stderr


@mounts
def full_disk(muster, folder):
    """The disk fills up while checkpoints are written: a clear error, the ones before are whole."""
    job = runs.write_job(folder, "mlp", steps=5000)
    code, output = on_disk(folder, "1m", muster, job, f"""
        $train --workers 2 --set checkpoint.keep=100000; code=$?
        {muster} checkpoint verify $latest || code=77
        find $small -name '*.new' -printf 'LEFT %p\\n'
        {muster} report $latest -o {folder}/page.html || code=78
        exit $code""")
    expect(code, 3, output, "No space left on device", f"{folder}/page.html")
    # Whether the page found room after the last checkpoint was given up.
    told = "  report  " in output
    assert told != (f"muster report {folder}/small" in output), output
    assert "LEFT" not in output, f"half a file was left behind:\n{output}"


@mounts
def full_for_a_moment(muster, folder):
    """What is measured while the disk is full is written once there is room: nothing is missing in the end."""
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    code, output = on_disk(folder, "64m", muster, job, f"""
        $train --workers 2 {NEVER} >{folder}/told 2>&1 & job=$!
        trained 20
        fill
        until grep -q 'metrics.jsonl cannot be written now' {folder}/told && grep -q 'ledger.jsonl cannot' {folder}/told
        do kill -0 $job || exit 73; sleep 0.05; done
        rm $small/filled
        trained $(($(rows) + 40))
        kill -TERM $job
        wait $job; code=$?
        {muster} data audit --json $latest >{folder}/audit || exit 75
        cp -L $latest/metrics.jsonl $latest/summary.json {folder}
        exit $code""")
    output += (folder / "told").read_text()
    expect(code, 143, output, "checkpoint written")
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
    code, output = on_disk(folder, "8m", muster, job, f"""
        $train >{folder}/first || exit 74
        before=$(readlink $latest)
        fill
        $train; code=$?
        [ "$(readlink $latest)" = $before ] || exit 73
        echo runs: $(cd $small/tiny && echo 2*)
        exit $code""")
    expect(code, 3, output, "run_folder", "No space left on device")
    assert len(re.search(r"^runs: (.*)$", output, re.M)[1].split()) == 1, f"half a run was left: {output}"
    assert "another muster" not in output, output


@mounts
def no_file_for_what_is_measured(muster, folder):
    """The file system has room for the run's folder, but not for the last of the files that its numbers go to: no run
    begins, nothing is left of it, and `latest` is the run before."""
    job = runs.write_job(folder, "mlp")
    before_it = 6  # of a run: its folder, logs, checkpoints, the lock, metrics.jsonl, ledger.jsonl
    code, output = on_disk(folder, "8m", muster, job, f"""
        $train >{folder}/first || exit 74
        before=$(readlink $latest)
        used=$(($(stat -f -c %c $small) - $(stat -f -c %d $small)))
        mount -o remount,nr_inodes=$((used + {before_it})) $small || exit 75
        $train; code=$?
        [ "$(readlink $latest)" = $before ] || exit 73
        echo runs: $(cd $small/tiny && echo 2*)
        exit $code""")
    expect(code, 3, output, "cannot be recorded", "events.out.tfevents.", "No space left on device", "run_folder")
    assert len(re.search(r"^runs: (.*)$", output, re.M)[1].split()) == 1, f"half a run was left: {output}"
    assert " step " not in output, output


def something_in_the_place_of_what_is_measured(muster, folder):
    """A run that could not be recorded does not go on, and stays as it was."""
    job = runs.write_job(folder, "mlp", steps=40)
    runs.train(muster, job)
    run = runs.latest(folder)
    for name, place, flags, cure in (("metrics.jsonl", run / "metrics.jsonl", (), "name another run_folder"),
                                     ("trace", run / "trace", ("--trace",), "train without --trace")):
        kept = place.read_bytes() if place.exists() else None
        place.unlink(missing_ok=True)
        place.write_text("") if name == "trace" else place.mkdir()
        before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
        code, output = runs.finish(runs.start(muster, job, "--resume", *flags,
                                              *runs.settings("training.max_steps=60")))
        expect(code, 3, output, "cannot be recorded", f"/{name}", cure)
        left = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.name != ".lock"}
        assert left == {path: time for path, time in before.items() if path.name != ".lock"}, output
        assert runs.latest(folder) == run, output
        place.unlink() if name == "trace" else place.rmdir()
        if kept is not None:
            place.write_bytes(kept)
    runs.train(muster, job, "--resume", "--trace", *runs.settings("training.max_steps=60"))


@mounts
def stopped_on_a_full_disk(muster, folder):
    """SIGTERM, but its checkpoint finds no room: the code is the failure's, since others retry on that of the signal."""
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    code, output = on_disk(folder, "8m", muster, job, f"""
        $train --workers 2 {NEVER} & job=$!
        trained 20
        fill
        kill -TERM $job
        wait $job""")
    expect(code, 3, output, "SIGTERM: finishing the step", "No space left on device")
    assert "checkpoint written" not in output, output


@mounts
def checkpoints_become_unwritable(muster, folder):
    """Their file system becomes read-only, as after an error of the disk: a clear error, and those that were there are
    whole; once it can be written again, the training goes on."""
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    code, output = on_disk(folder, "256m", muster, job, f"""
        $train --workers 2 & job=$!
        until ls $latest/checkpoints/*/manifest.json >{folder}/found 2>&1; do
          kill -0 $job || exit 72
          sleep 0.05
        done
        checkpoints=$(readlink -f $latest)/checkpoints
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
        $train --workers 2 --resume --set training.max_steps=$((step + 20)) || code=78
        {muster} checkpoint verify --step $((step + 20)) $latest || code=79
        exit $code""")
    expect(code, 3, output, "checkpoints", "Read-only file system", "rank 0", ": whole, ", "resumed after step ")


def unwritable(muster, folder):
    job = runs.write_job(folder, "mlp")
    blocked = folder / "blocked"
    blocked.write_text("a file where a folder should be")
    code, output = runs.finish(runs.start(muster, job, "--set", f"run_folder={blocked}"))
    expect(code, 3, output, "run_folder", "blocked")


play([full_disk, full_for_a_moment, started_on_a_full_disk, no_file_for_what_is_measured,
      something_in_the_place_of_what_is_measured, stopped_on_a_full_disk, checkpoints_become_unwritable, unwritable])
