"""Twelve kinds of fault, while workers train, evaluate, save and recover: the right worker is named with
what happened to it, nothing waits past its deadline, the weights stay the same, nothing is left behind."""
import pathlib
import random
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

STEPS = 400
DEATHS = ("SIGKILL", "SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL", "SIGQUIT", "SIGSYS", "SIGXCPU")

# What makes the work last, so that a fault meets it.
PLACES = {
    "training": (),
    "evaluating": ("evaluation.every=2 steps", "evaluation.keep_best=false"),
    "saving": ("checkpoint.every=1 steps",),
    "recovering": (),
}


def die(name):
    number = getattr(signal, name)
    return (lambda pid: runs.kill(pid, number)), f"killed by {name}", "going on"


def hiccup(pid):
    runs.kill(pid, signal.SIGSTOP)
    time.sleep(0.2)
    runs.kill(pid, signal.SIGCONT)


# What is done to the worker, what is told of it, and what becomes of the job.
FAULTS = {
    **{name: die(name) for name in DEATHS},
    "stopped": ((lambda pid: runs.kill(pid, signal.SIGSTOP)), "was silent for too long", "going on"),
    "told to go": ((lambda pid: runs.kill(pid, signal.SIGTERM)), "was told to go", "leaves with the step"),
    "stopped for a moment": (hiccup, None, None),
}


def play(muster, folder, fault, place, expected, draw):
    act, told, outcome = FAULTS[fault]
    name = f"{fault}-{place}".replace(" ", "-")
    job = runs.write_job(folder, "mlp", steps=STEPS)
    process = runs.start(muster, job, "--workers", "4", *runs.settings(
        f"run_folder={folder / name}", "workers.heartbeat_timeout=1500ms", *PLACES[place]))
    run = runs.wait_for_step(process, folder, draw.randint(20, 100), name)
    workers = runs.workers_of(process)
    victim, another = draw.sample(sorted(workers), 2)
    if place == "recovering":
        runs.kill(workers[another])
        time.sleep(draw.random() * 0.005)
    act(workers[victim])
    code, output = runs.finish(process)
    assert code == 0, f"exit code {code}:\n{output}"
    of_victim = [line for line in output.splitlines() if line.startswith((
        f"[WARN] worker {victim} (pid {workers[victim]})", f"worker {victim} was told"))]
    if told is None:
        assert not of_victim, output
    else:
        assert len(of_victim) == 1 and told in of_victim[0] and outcome in of_victim[0], output
    others = [rank for rank in workers if f"[WARN] worker {rank} (pid {workers[rank]})" in output]
    accused = {victim} if told and not told.startswith("was told") else set()
    assert set(others) == accused | ({another} if place == "recovering" else set()), output
    assert runs.weights(run, STEPS) == expected, f"other weights\n{output}"
    assert not any(runs.alive(pid) for pid in workers.values()), "a worker outlived its job"


def main():
    muster = runs.arguments().muster
    seed = random.SystemRandom().randrange(1 << 31)
    print(f"seed {seed}", flush=True)
    draw = random.Random(seed)
    with runs.workplace() as folder:
        runs.write_data(folder)
        expected = runs.undisturbed(muster, folder, "mlp", STEPS)
        assert len(FAULTS) == 12
        for fault in FAULTS:
            for place in PLACES:
                play(muster, folder, fault, place, expected, draw)
            print(f"ok  {fault}", flush=True)


if __name__ == "__main__":
    main()
