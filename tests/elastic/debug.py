"""`muster debug` names who holds the others up, in which operation on which tensor, since when, and where it is,
while the job hangs and after it has failed; of a pipeline not who only waits for another one."""
import ctypes
import errno
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import faulty
import runs

HOST = re.escape(socket.gethostname())
FIXED = ["--workers", "3", *runs.settings("workers.min_workers=3", "workers.max_restarts=0",
                                          "workers.heartbeat_timeout=100s")]
PATIENCE = 40  # seconds: communication.timeout of the job whose worker hangs
UNITS = {"µs": 1e-6, "ms": 1e-3, "s": 1}
# The first operation that the culprit, which stands before it, has not called: who, for how long, in what.
WAITED_IN = r"workers 0, 2 have waited ([\d.]+) (µs|ms|s) in "
WAITED = WAITED_IN + r"all_reduce sum in the tree of 8 leaves F32 \[\d+\] " \
    r"\(gradients/0\), #\d+ of generation 1"
MISSED = WAITED + ", which worker 1 has not called"
SILENT = WAITED + "; worker 1 does not answer"


def ask(muster, run, *flags):
    return subprocess.run([muster, "debug", *flags, str(run)], capture_output=True, text=True, timeout=60)


def debug(muster, run, *flags, code=0):
    asked = ask(muster, run, *flags)
    assert asked.returncode == code, asked
    return asked.stdout + asked.stderr


def debug_until(muster, run, *patterns):
    """What it says once all of this is in it: the others come to where they have to wait when they come to it, who
    answers late is left out, and a launcher on a busy machine may answer late itself."""
    text = ""

    def told():
        nonlocal text
        asked = ask(muster, run)
        text = asked.stdout + asked.stderr
        if "has not answered within" in text:
            return False
        assert asked.returncode == 0, asked
        return all(re.search(pattern, text, re.MULTILINE) for pattern in patterns)

    try:
        runs.wait_for(told, "all of it")
    except AssertionError as late:
        raise AssertionError(f"{late}: {patterns} in:\n{text}") from late
    return text


FORWARD = r"forward of slice \d+$"  # before it has handed over any gradient


def hold(muster, folder, job, name, act, *flags, place=FORWARD, worker=1):
    """The worker does that there; the run, its pid, where it was struck and when."""
    faults = faulty.Faults(folder / f"faults-{name}")
    process = runs.start(muster, job, *FIXED, "--set", f"run_folder={folder / name}", *flags,
                         env=faults.environment())
    run = runs.wait_for_step(process, folder, 30, name)
    victim = runs.workers_of(process)[worker]
    faults.arm(worker, act, place)
    struck, where = faults.struck(worker)
    return process, run, victim, where, struck


def find(pattern, text):
    found = re.search(pattern, text, re.MULTILINE)
    assert found, f"no `{pattern}` in:\n{text}"
    return found


def seconds_waited(pattern, text, struck):
    """As told, and since the worker was struck at the longest."""
    found = find(pattern, text)
    waited = float(found[1]) * UNITS[found[2]]
    assert 0 < waited < time.time() - struck + 1, f"{waited} s, but it was struck {time.time() - struck} s ago\n{text}"
    return waited


def check_stopped(text, victim, where):
    """What is said of one that cannot answer."""
    find(rf"worker 1 \(pid {victim} on {HOST}\) does not answer: its process is stopped \(SIGSTOP\); "
         rf"it was {re.escape(where)}$", text)
    assert "stacks of worker 1" not in text, text


def hangs(muster, folder, job):
    """A thread hangs while the heart beats, so it can say where."""
    process, run, victim, where, struck = hold(muster, folder, job, "hangs", "hang", "--set",
                                               f"communication.timeout={PATIENCE}s")
    first = debug_until(muster, run, f"^{MISSED}$", r"faulty::hang\(\)")
    before = seconds_waited(f"^{MISSED}$", first, struck)
    place = re.escape(where.split(", in ")[0].removeprefix("at "))
    find(rf"^  worker 1 \(rank 1, pid {victim} on {HOST}\): {place}; ", first)
    find(rf"^stacks of worker 1 \(rank 1, pid {victim} on {HOST}\):\n(.*\n)*  #\d+ +faulty::hang\(\) \+ ", first)
    assert "stacks of worker 0" not in first and "stacks of worker 2" not in first, first
    stacks = debug(muster, run, "--stacks")
    assert all(f"\nstacks of worker {worker} " in stacks for worker in range(3)), stacks
    report = json.loads(debug(muster, run, "--json"))
    assert [worker["worker"] for worker in report["workers"]] == [0, 1, 2], report
    assert "faulty::hang()" in report["workers"][1]["dump"]["stacks"], report
    after = seconds_waited(f"^{MISSED}$", "\n".join(report["conclusions"]), struck)
    assert after > before, f"the wait grows: {before} s, then {after} s"

    code, output = runs.finish(process)
    assert code != 0, output
    waited = seconds_waited(rf"^\[ERROR\] {MISSED}", output, struck)
    assert waited > PATIENCE - 1, f"it gave up after {waited} s\n{output}"
    find(MISSED, debug(muster, run))


def hangs_with_shards(muster, folder, job):
    """In the call of an operation that only those who hold parts of the state have."""
    process, run, victim, where, struck = hold(muster, folder, write_text_job(folder), "shards", "hang", *runs.settings(
        "strategy.type=sharded", f"communication.timeout={PATIENCE}s"), place=r"^at step \d+, updating, in all_gather of shards .*$")
    _, operation = where.split(", in ", 1)
    told = WAITED_IN + re.escape(operation) + r", #\d+ of generation 1; worker 1 does not answer"
    asleep = rf"^worker 1 \(pid {victim} on {HOST}\) does not answer: its process is asleep; it was {re.escape(where)}$"
    text = debug_until(muster, run, f"^{told}$")
    before = seconds_waited(f"^{told}$", text, struck)
    find(asleep, text)
    for rank in (0, 2):
        find(rf"^  worker {rank} \(rank {rank}, .*; waits .* in {re.escape(operation)}, #", text)
    assert "stacks of worker 0" not in text and "stacks of worker 2" not in text, text
    code, output = runs.finish(process)
    assert code != 0, output
    after = seconds_waited(told, debug(muster, run), struck)
    assert after > before, f"the wait grows: {before} s, then {after} s"
    seconds_waited(rf"^\[ERROR\] {told}", output, struck)


def write_text_job(folder):
    """One whose shards are a single bucket, so that nothing else is under way beside the operation."""
    (folder / "text").mkdir()
    return runs.write_job(folder, "gpt", steps=400, into=folder / "text")


INSIDE = r"computing and reducing gradients, in all_reduce sum .* \(gradients/\d+\)$"  # and no pass beside
STANDS_INSIDE = r"all workers have been in all_reduce sum .* \(gradients/\d+\), #\d+ of generation 1 for ([\d.]+) " \
    r"(µs|ms|s), and the others wait for worker 1, which does not get on"


def hangs_inside(muster, folder, transport):
    """In the middle of a collective, which all have called: who does not get on is named, and where each is shown."""
    name = f"inside-{transport}"
    (folder / f"job-{name}").mkdir()
    job = runs.write_job(folder, "mlp", steps=10**6, into=folder / f"job-{name}")
    # So large that each worker sums a part for all.
    process, run, victim, _, struck = hold(muster, folder, job, name, "hang-inside", *runs.settings(
        "model.hidden_sizes=[256]", f"communication.transport={transport}", "training.lanes=1"), place=INSIDE)
    text = debug_until(muster, run, f"^{STANDS_INSIDE}$", r"faulty::hang\(\)")
    seconds_waited(f"^{STANDS_INSIDE}$", text, struck)
    find(rf"^stacks of worker 1 \(rank 1, pid {victim} on {HOST}\):\n(.*\n)*  #\d+ +faulty::hang\(\) \+ ", text)
    assert all(f"\nstacks of worker {worker} " in text for worker in range(3)), text
    assert text.count("faulty::hang()") == 1 and "connections" not in text, text
    status = subprocess.run([muster, "status", str(run)], capture_output=True, text=True, timeout=60).stdout
    find(rf"^  late +{STANDS_INSIDE}$", status)
    end(process)


def hangs_in_memory(muster, folder, _):
    hangs_inside(muster, folder, "shm")


def hangs_over_connections(muster, folder, _):
    hangs_inside(muster, folder, "tcp")


def hold_thread(thread):
    """As a debugger does, until this process ends; False: the system does not let it."""
    seize, interrupt, any_thread = 0x4206, 0x4207, 0x40000000
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(seize, thread, None, None) != 0:
        assert ctypes.get_errno() == errno.EPERM, os.strerror(ctypes.get_errno())
        return False
    assert libc.ptrace(interrupt, thread, None, None) == 0, os.strerror(ctypes.get_errno())
    os.waitpid(thread, any_thread)
    return True


def is_held(muster, folder, job):
    """Its main thread alone, wherever it is, while its heart beats: it is named, and that it is held."""
    process, run, victim, _, _ = hold(muster, folder, job, "held", "note", "--set", "communication.timeout=300s")
    if hold_thread(victim):
        text = debug_until(muster, run, r", which worker 1 has not called$|wait for worker 1, which does not get on$",
                           rf"^thread {victim} .*\n  it does not answer: it is held by a debugger, in ")
        assert "connections" not in text and "does not answer\n" not in text, text
        find(rf"^stacks of worker 1 \(rank 1, pid {victim} on {HOST}\):$", text)
    else:
        runs.leave_out("this system does not let a process hold another one's thread")
    end(process)


def is_held_to_the_end(muster, folder, job):
    """Killed, it stays there for as long as its debugger does not let go: nobody waits for that."""
    process, _, victim, _, _ = hold(muster, folder, job, "kept", "note", "--set", "communication.timeout=3s")
    if hold_thread(victim):
        code, output = runs.finish(process)
        assert code == 1, f"{code}\n{output}"
        find(rf"worker 1 \(pid {victim}\) was killed and is not gone \(its process has ended\): it is left behind; a debugger", output)
        os.waitpid(victim, 0x40000000)  # as its debugger
    else:
        end(process)


def stops(muster, folder, job):
    process, run, victim, where, struck = hold(muster, folder, job, "stops", "SIGSTOP")
    text = debug_until(muster, run, f"^{SILENT}$")
    seconds_waited(f"^{SILENT}$", text, struck)
    check_stopped(text, victim, where)
    stacks = debug(muster, run, "--stacks")
    find(rf"^stacks of worker 0 \(.*\):\n(.*\n)*  #\d+ ", stacks)
    report = json.loads(debug(muster, run, "--json"))
    assert "dump" not in report["workers"][1] and report["conclusions"], report
    runs.kill(victim, signal.SIGCONT)
    code, output = runs.finish(process)
    assert code == 0, output


def fails(muster, folder, job):
    process, run, victim, where, struck = hold(muster, folder, job, "fails", "SIGSTOP", "--set",
                                               "communication.timeout=10s")
    code, output = runs.finish(process)
    assert code != 0, output
    seconds_waited(SILENT, output, struck)
    check_stopped(output, victim, where)
    assert f"muster debug {run.parent.parent}" in output.replace("/latest", ""), output
    after = debug(muster, run)
    seconds_waited(f"^{SILENT}$", after, struck)
    check_stopped(after, victim, where)
    assert "the job failed" in after, after


# Of three stages: what a rank waits for.
GRADIENT = r"\(receive, gradient of micro-batch \d+, stage {0} → {1}\)"
ACTIVATION = r"\(receive, activation of micro-batch \d+, stage {0} → {1}\)"
HAS_WAITED = r"worker {} has waited ([\d.]+) (µs|ms|s) for worker {} "


def hold_stage(muster, folder, name, act, stage):
    """The worker of that stage does that in its forward pass; what hold() returns."""
    (folder / f"job-{name}").mkdir()
    job = runs.write_job(folder, "mlp", steps=10**6, into=folder / f"job-{name}")
    return hold(muster, folder, job, name, act, *runs.settings("strategy.type=pipeline", "model.hidden_sizes=[24,24]"),
                place=rf"in forward of slice \d+, chunk {stage}\b", worker=stage)


def check_hung(text, worker, victim, struck):
    """It is said what its model computes and for how long, with its stacks alone."""
    culprit = find(rf"for worker {worker} \([^()]*\), which has been in forward of slice \d+, chunk {worker} for ([\d.]+) (µs|ms|s)", text)
    assert 0 < float(culprit[1]) * UNITS[culprit[2]] < time.time() - struck + 1, text
    find(rf"^stacks of worker {worker} \(rank {worker}, pid {victim} on {HOST}\):\n(.*\n)*  #\d+ +faulty::hang\(\) \+ ", text)
    assert text.count("\nstacks of worker ") == 1, text


def end(process):
    """Of a job that does not end by itself."""
    process.kill()
    process.communicate(timeout=runs.DEADLINE)


def a_stage_stops(muster, folder, _):
    process, run, victim, where, struck = hold_stage(muster, folder, "stage-stops", "SIGSTOP", 1)
    waits = HAS_WAITED.format(0, 1) + GRADIENT.format(1, 0), HAS_WAITED.format(2, 1) + ACTIVATION.format(1, 2)
    text = debug_until(muster, run, *waits, r"for worker 1 \(.*\), which does not answer")
    for told in waits:
        seconds_waited(told, text, struck)
    find(r"^worker \d has waited .* for worker 1 \(.*\), which does not answer(;|$)", text)
    assert "for worker 0" not in text and "for worker 2" not in text, text
    check_stopped(text, victim, where)
    end(process)


def a_stage_hangs(muster, folder, _):
    process, run, victim, _, struck = hold_stage(muster, folder, "stage-hangs", "hang-kernel", 1)
    waits = HAS_WAITED.format(0, 1) + GRADIENT.format(1, 0), HAS_WAITED.format(2, 1) + ACTIVATION.format(1, 2)
    text = debug_until(muster, run, *waits, r"which has been in forward", r"faulty::hang\(\)")
    for told in waits:
        seconds_waited(told, text, struck)
    assert "for worker 0" not in text and "for worker 2" not in text, text
    check_hung(text, 1, victim, struck)
    end(process)


def the_last_stage_hangs(muster, folder, _):
    """The first one waits for the middle one, which only waits itself."""
    process, run, victim, _, struck = hold_stage(muster, folder, "last-stage-hangs", "hang-kernel", 2)
    told = "^" + HAS_WAITED.format(0, 1) + GRADIENT.format(1, 0) + ", which waits for worker 2 " + \
        GRADIENT.format(2, 1) + ", which has been in forward"
    text = debug_until(muster, run, told, r"faulty::hang\(\)")
    seconds_waited(told, text, struck)
    check_hung(text, 2, victim, struck)
    end(process)


def well(muster, folder, job):
    output = runs.train(muster, job, "--set", f"run_folder={folder / 'well'}")
    assert "nobody trains in" in debug(muster, runs.latest(folder, "well"), code=3), output


def main():
    arguments = runs.arguments("--worker")
    with runs.workplace() as folder:
        runs.write_data(folder)
        muster = faulty.install(folder, arguments.muster, arguments.worker)
        job = runs.write_job(folder, "resnet", steps=200)
        for scene in (hangs, hangs_with_shards, hangs_in_memory, hangs_over_connections, is_held, is_held_to_the_end,
                      stops, fails,
                      a_stage_stops, a_stage_hangs, the_last_stage_hangs, well):
            scene(muster, folder, job)
            print(f"ok  {scene.__name__}", flush=True)


if __name__ == "__main__":
    main()
