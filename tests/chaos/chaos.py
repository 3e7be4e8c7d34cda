"""Training under fire: scenarios drawn from a seed, with real processes. After each: exit 0, the same
weights as undisturbed, no sample lost or repeated, every fault named, nothing left behind.

  chaos.py --muster build/dev/bin/muster --count 100            any number of scenarios, then a summary
  chaos.py --muster build/dev/bin/muster --seed 1234 --count 1  one of them again
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

STEPS = {"mlp": 1000, "resnet": 120, "gpt": 120}
HEARTBEAT = 1.0  # seconds until a silent worker counts as dead

# What happens to a worker, or to the job; all of it ends in a complete training.
KINDS = ("kill", "kill two", "kill in recovery", "kill the first rank", "freeze", "hiccup",
         "kill while saving", "kill all but one", "drain", "drain and kill", "storm", "slow", "slow and kill",
         "kill with a standby", "slow disk", "slow disk and kill")


class Scenario:
    def __init__(self, seed):
        draw = random.Random(seed)
        self.seed = seed
        self.model = draw.choices(list(STEPS), weights=(6, 2, 2))[0]
        self.workers = draw.randint(2, 8 if self.model == "mlp" else 4)
        self.kind = draw.choice(KINDS)
        self.transport = draw.choices(("shm", "tcp"), weights=(3, 1))[0]
        self.lanes = draw.choice((1, 1, 2))
        self.backup = draw.random() < 0.3
        self.standbys = 1 if self.kind == "kill with a standby" else 0
        self.step = draw.randint(5, STEPS[self.model] * 2 // 3)
        self.draw = draw

    def __str__(self):
        return (f"seed {self.seed}: {self.kind}, {self.model}, {self.workers} workers × {self.lanes} over "
                f"{self.transport}{' with backup' if self.backup else ''}, from step {self.step} on")

    def flags(self):
        settings = [f"workers.heartbeat_timeout={HEARTBEAT:g}s", f"communication.transport={self.transport}",
                    f"training.lanes={self.lanes}", f"workers.standbys={self.standbys}",
                    "stragglers.compare_every=20ms",
                    f"stragglers.backup={'true' if self.backup else 'false'}"]
        if self.kind == "kill while saving":
            settings.append("checkpoint.every=1 steps")
        return ["--workers", str(self.workers)] + runs.settings(*settings)


def kill_some(victims, workers, pause=lambda: 0, number=signal.SIGKILL):
    for victim in victims:
        runs.kill(workers[victim], number)
        time.sleep(pause())
    return len(victims)


def slow(pid, draw):
    """Lets it run for a fifth of the time, for a while."""
    end = time.monotonic() + 0.5 + draw.random()
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < end:
            runs.kill(pid, signal.SIGSTOP)
            time.sleep(0.02)
            runs.kill(pid, signal.SIGCONT)
            time.sleep(0.005)


def storm(scenario, process, spared, run):
    """Whoever is there may be hit, those who have just come as well; but for one, who keeps the state.
    A process that still ends is not hit twice, and nobody is hit who may have ended its part."""
    hit = set()
    for _ in range(4):
        workers = runs.workers_of(process)
        others = sorted(rank for rank in workers if rank != spared and workers[rank] not in hit)
        if others and runs.rows(run)[-1]["step"] < 0.8 * STEPS[scenario.model]:
            victim = scenario.draw.choice(others)
            kill_some([victim], workers)
            hit.add(workers[victim])
        time.sleep(scenario.draw.random() * 0.6)
    return len(hit)


def strike(scenario, process, workers, run):
    """Does it; how many workers are lost by it."""
    draw = scenario.draw
    ranks = list(workers)
    draw.shuffle(ranks)
    most = ranks[:-1]
    match scenario.kind:
        case "kill the first rank":
            return kill_some([0], workers)
        case "hiccup":
            kill_some(ranks[:1], workers, lambda: HEARTBEAT / 4, signal.SIGSTOP)
            kill_some(ranks[:1], workers, number=signal.SIGCONT)
            return 0
        case "freeze":
            return kill_some(ranks[:1], workers, number=signal.SIGSTOP)
        case "kill two":
            return kill_some(most[:2], workers)
        case "kill in recovery":
            return kill_some(most[:3], workers, lambda: draw.random() * 0.006)
        case "kill all but one":
            return kill_some(most, workers)
        case "drain":
            kill_some(most[:2], workers, lambda: draw.random() * 0.01, signal.SIGTERM)
            return 0
        case "drain and kill":
            kill_some(ranks[:1], workers, lambda: draw.random() * 0.004, signal.SIGTERM)
            return kill_some(most[1:2], workers)
        case "slow disk":
            return 0
        case "slow":
            slow(workers[ranks[0]], draw)
            return 0
        case "slow and kill":
            slowing = threading.Thread(target=slow, args=(workers[ranks[0]], random.Random(scenario.seed)))
            slowing.start()
            time.sleep(draw.random() * 0.2)
            lost = kill_some(most[1:2], workers)
            slowing.join()
            return lost
        case "storm":
            return storm(scenario, process, ranks[0], run)
        case _:
            return kill_some(ranks[:1], workers)


def left_behind(folder):
    """Processes that still work for a run in `folder`."""
    found = []
    for command in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = command.read_bytes().decode(errors="replace")
            if "muster-worker" in words and str(folder) in words and runs.alive(int(command.parent.name)):
                found.append(words)
    return found


def environment(scenario, slow_disk, folder):
    if "disk" not in scenario.kind:
        return None
    return dict(os.environ, LD_PRELOAD=str(slow_disk.resolve()), MUSTER_SLOW_DISK=str(folder))


def play(muster, slow_disk, folder, scenario, expected):
    jobs = folder / str(scenario.seed)
    jobs.mkdir()
    job = runs.write_job(folder, scenario.model, steps=STEPS[scenario.model], runs=jobs.name)
    process = runs.start(muster, job, *scenario.flags(), env=environment(scenario, slow_disk, jobs))
    run = runs.wait_for_step(process, folder, scenario.step, jobs.name)
    workers = runs.workers_of(process)
    assert len(workers) == scenario.workers + scenario.standbys, workers
    lost = strike(scenario, process, workers, run)
    code, output = runs.finish(process)
    assert code == 0, f"exit code {code}:\n{output}"
    assert output.count("going on") == lost, f"{lost} lost, but:\n{output}"
    steps = [row["step"] for row in runs.rows(run) if "train/loss" in row]
    told = collections.Counter(steps)
    wrong = {step: told[step] for step in range(1, STEPS[scenario.model] + 1) if told[step] != 1}
    assert not wrong and steps == sorted(steps), f"told how often: {wrong}\n{output}"
    audit = subprocess.run([muster, "data", "audit", "--json", str(run)], capture_output=True, text=True)
    ledger = json.loads(audit.stdout)
    assert audit.returncode == 0 and ledger["well"] and ledger["steps"] == STEPS[scenario.model], ledger
    found = runs.weights(run, STEPS[scenario.model])
    assert found == expected, f"other weights: {found}, {expected}\n{output}"
    assert not left_behind(jobs), left_behind(jobs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--muster", required=True)
    parser.add_argument("--slow-disk", type=pathlib.Path, help="the library that makes a disk slow, slow_disk.so "
                        "(where it was built beside muster)")
    parser.add_argument("--seed", type=int, help="of the first scenario; the others follow it")
    parser.add_argument("--count", type=int, default=20)
    arguments = parser.parse_args()
    first = random.SystemRandom().randrange(1 << 31) if arguments.seed is None else arguments.seed
    slow_disk = arguments.slow_disk or \
        pathlib.Path(arguments.muster).parent.parent / "tests/chaos/slow_disk.so"
    if not slow_disk.exists():
        parser.error(f"--slow-disk: {slow_disk} does not exist")
    kinds, failures = collections.Counter(), []
    with runs.workplace() as folder:
        runs.write_data(folder)
        expected = {model: runs.undisturbed(arguments.muster, folder, model, steps)
                    for model, steps in STEPS.items()}
        for seed in range(first, first + arguments.count):
            scenario = Scenario(seed)
            try:
                play(arguments.muster, slow_disk, folder, scenario, expected[scenario.model])
                kinds[scenario.kind] += 1
                print(f"ok    {scenario}", flush=True)
            except AssertionError as failure:
                failures.append(scenario)
                print(f"FAIL  {scenario}\n{failure}", flush=True)
    print(f"{sum(kinds.values())} of {arguments.count} scenarios passed: " +
          ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items())))
    for scenario in failures:
        print(f"again with --seed {scenario.seed} --count 1: {scenario}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
