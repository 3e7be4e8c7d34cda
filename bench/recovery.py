#!/usr/bin/env python3
"""SIGKILL of a worker to the next committed step, 2 to 8 workers, both shipped jobs; torchrun beside it.

The jobs are those of jobs/, but for evaluations and checkpoints, which would take their time in some of the
steps. "Beyond" is the time between the two committed steps around the death, less that of a step. Once
workers are killed one after the other until one is left, no new one is started, and a step is one of the
survivors'; once as many are killed, a new one is started in the place of each, which loads libtorch beside
the others and joins before the next death, and a step is one before the death. Afterwards the ledger holds
every sample once, and says how many steps were taken again. torchrun starts its two workers (the image
job's) again from a checkpoint of every 20 steps.

Where torchft is installed (script/torchft.txt says how), it is killed as well: one of two replicas, with
time-outs of 1 s for joining (instead of 60) and heartbeats (instead of 5).

Usage: bench/recovery.py [--build build/release] [--repetitions 2]
"""
import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import tempfile
import time

import following
import harness
from following import PATIENCE_S, Follower, children, intervals, percentile

STEPS_BETWEEN = 8
UNDISTURBED = ("training.epochs=1000000", "evaluation.every=never", "checkpoint.every=never", "checkpoint.at_end=false")
JOINED = " got the state ("  # a newcomer, as the log says
JOBS = ("fashion", "gpt")
TORCHRUN_KILLS = 5
TORCHFT = harness.ROOT / ".deps/torchft"


class Deaths:
    """Of the workers of one job."""

    def __init__(self, training, draw, replaced):
        self.training, self.draw, self.replaced = training, draw, replaced
        self.found = []  # (beyond, from the kill to the next step, a step's time)
        self.rows = training.wait(lambda rows: len(rows) > STEPS_BETWEEN)

    def kill_one_of(self, alive):
        time.sleep(self.draw.random() * (self.rows[-1][1] - self.rows[-2][1]))
        victim = self.draw.choice(sorted(alive))
        before = statistics.median(intervals(self.rows[-STEPS_BETWEEN:]))
        killed = self.training.kill(victim)
        rows = self.training.wait(lambda rows: rows[-1][1] > killed)
        at = next(i for i, row in enumerate(rows) if row[1] > killed)
        step = rows[-1][0]
        self.rows = rows = self.training.wait(lambda rows: rows[-1][0] >= step + STEPS_BETWEEN)
        usual = before if self.replaced else statistics.median(intervals(rows[-STEPS_BETWEEN:]))
        self.found.append((rows[at][1] - rows[at - 1][1] - usual, rows[at][1] - killed, usual))
        return victim

    def end(self):
        """What was found, and how many steps were taken again."""
        output = self.training.end()
        if output.count("going on") != len(self.found):
            raise SystemExit(f"{len(self.found)} workers died:\n{output}")
        return self.found, self.training.ledger["superseded_steps"]


def kill_all_but_one(options, job, workers, draw):
    with following.training(options, job, workers, *UNDISTURBED, "workers.max_restarts=0") as training:
        deaths = Deaths(training, draw, replaced=False)
        alive = set(training.workers())
        while len(alive) > 1:
            alive.remove(deaths.kill_one_of(alive))
        return deaths.end()


def kill_and_replace(options, job, workers, draw):
    """As many deaths as above."""
    with following.training(options, job, workers, *UNDISTURBED, "workers.max_restarts=100") as training:
        deaths = Deaths(training, draw, replaced=True)
        for death in range(1, workers):
            deaths.kill_one_of(training.workers())
            joined = training.wait(lambda _, death=death: len(training.records("metrics.jsonl", JOINED)) >= death)
            deaths.rows = training.wait(lambda rows, step=joined[-1][0]: rows[-1][0] >= step + 2 * STEPS_BETWEEN)
        return deaths.end()


def torchrun(options, rank):
    """(from the kill of `rank` to the next step, steps lost, a step's time)"""
    with tempfile.TemporaryDirectory() as place:
        log, state = pathlib.Path(place) / "rows", pathlib.Path(place) / "state.pt"
        log.touch()
        process = subprocess.Popen(
            harness.torchrun_command(options.python, ["--max-restarts", 100, "--monitor-interval", 0.1,
                                                      harness.PEERS / "elastic.py", 256, log, state]),
            cwd=harness.ROOT, env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        follower = Follower(lambda: [tuple(json.loads(line)) for line in log.read_text().split("\n")[:-1]])
        try:
            rows = follower.wait(lambda rows: len(rows) > 30)
            usual = statistics.median(intervals(rows[-STEPS_BETWEEN:]))
            killed = time.time()
            os.kill(children(process.pid, "python")[rank], signal.SIGKILL)
            rows = follower.wait(lambda rows: rows[-1][1] > killed + 0.5)
            reached = max(row[0] for row in rows if row[1] <= killed + 0.5)
            again = next(row for row in rows if row[1] > killed + 0.5)
            return again[1] - killed, reached + 1 - again[0], usual
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            subprocess.run(["pkill", "-KILL", "-f", str(log)], check=False)  # they have groups of their own


def torchft_environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
            "PYTHONPATH": f"{TORCHFT}:{harness.PEERS}"}


@contextlib.contextmanager
def started(options, *command):
    process = subprocess.Popen([str(word) for word in (options.python, *command)], env=torchft_environment(),
                               cwd=harness.ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def torchft(options):
    """The longest time between two steps of the first replica around the kill of the second, less a step."""
    with tempfile.TemporaryDirectory() as place, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        program = "from torchft._torchft import lighthouse_main; lighthouse_main()"
        script = pathlib.Path(place) / "lighthouse.py"
        script.write_text(program)
        logs = [pathlib.Path(place) / f"rows-{replica}" for replica in (0, 1)]
        for log in logs:
            log.touch()
        replicas = [(harness.PEERS / "torchft_replica.py", 256, replica, 2, f"http://localhost:{port}", log)
                    for replica, log in enumerate(logs)]
        with started(options, script, "--min_replicas", 1, "--join_timeout_ms", 1000,
                     "--heartbeat_timeout_ms", 1000, "--bind", f"[::]:{port}"), \
                started(options, *replicas[0]), started(options, *replicas[1]) as victim:
            def rows_of(log):
                return [tuple(json.loads(line)) for line in log.read_text().split("\n")[:-1]]
            Follower(lambda: rows_of(logs[1])).wait(lambda rows: len(rows) > 2 * STEPS_BETWEEN)
            survivor = Follower(lambda: rows_of(logs[0]))
            killed = time.time()
            victim.kill()
            rows = survivor.wait(lambda rows: rows[-1][1] > killed + PATIENCE_S / 4)
            around = intervals([row for row in rows if row[1] > killed - 1])
            return max(around) - statistics.median(around)


def measure(options):
    """By kind and job: what was found of all deaths. And how many steps were taken again."""
    draw = random.Random(1)
    ours, again = {}, 0
    for kind, kill in (("", kill_all_but_one), (", a new worker starting", kill_and_replace)):
        for job in JOBS:
            deaths = ours[kind, job] = []
            for workers in list(range(2, 9)) * options.repetitions:
                found, superseded = kill(options, harness.ROOT / "jobs" / f"{job}.yaml", workers, draw)
                deaths += found
                again += superseded
                harness.say(f"{job}, {workers} workers{kind}: beyond the step "
                            f"{', '.join(f'{1e3 * one[0]:.0f}' for one in found)} ms")
    return ours, again


def measure_torchrun(options):
    peer, hung = [], 0
    for kill in range(TORCHRUN_KILLS):
        try:
            peer.append(torchrun(options, kill % 2))
        except TimeoutError:  # its workers do not always find each other again
            hung += 1
    if not peer:
        raise SystemExit("torchrun never came back")
    if hung:
        harness.say(f"torchrun did not come back within {PATIENCE_S} s {hung} times: left out")
    harness.say("torchrun: " + ", ".join(f"{one[0]:.2f} s and {one[1]} steps" for one in peer))
    return peer


def main():
    options = harness.options(__doc__, repetitions=2)
    ours, again = measure(options)
    peer = measure_torchrun(options)
    theirs = statistics.median(one[0] - one[2] for one in peer)
    for (kind, job), deaths in ours.items():
        beyond = [max(one[0], 0.001) for one in deaths]
        half, most = percentile(beyond, 0.5), percentile(beyond, 0.99)
        harness.table((f"ms from SIGKILL to the next committed step beyond the step itself, {job}, "
                       f"2–8 workers{kind} ({len(beyond)} kills): p50 (p99), against torchrun ({len(peer)} kills)",
                       f"{1e3 * half:.0f} ({1e3 * most:.0f})", f"{1e3 * theirs:,.0f}",
                       f"{theirs / half:.0f} × sooner", "p50 ≤ 100, p99 ≤ 500; ≥ 20 ×"))
    if TORCHFT.exists():
        tries = [torchft(options) for _ in range(TORCHRUN_KILLS)]
        harness.say("torchft: " + ", ".join(f"{one:.2f} s" for one in tries))
        theirs = statistics.median(tries)
        for (kind, job), deaths in ours.items():
            half = percentile([max(one[0], 0.001) for one in deaths], 0.5)
            harness.table((f"the same, {job}{kind}, against torchft ({len(tries)} kills)", f"{1e3 * half:.0f}",
                           f"{1e3 * theirs:,.0f}", f"{theirs / half:.0f} × sooner", "≥ 5 ×"))
    lost = [one[1] for one in peer]
    raw = [one[1] for deaths in ours.values() for one in deaths]
    harness.table(("ms from SIGKILL to the next committed step, whole, all of them", harness.describe_times(raw),
                   f"{1e3 * statistics.median(one[0] for one in peer):,.0f}", "–", "–"))
    harness.table((f"steps taken again after a death, in the mean of {len(raw)}", f"{again / len(raw):g}",
                   f"{statistics.mean(lost):.0f} (up to {max(lost)})", "–", "–"))


if __name__ == "__main__":
    main()
