#!/usr/bin/env python3
"""SIGKILL of a worker to the next committed step, 2 to 8 workers, both models; torchrun beside it.

muster's workers are killed one after the other until one is left; "beyond" is the time between the two
committed steps around the death, less that of a step as the survivors run it. No new worker is started
meanwhile. torchrun starts its two workers again from a checkpoint of every 20 steps. Afterwards the
ledger holds every sample once.

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

import harness

STEPS_BETWEEN = 8
PATIENCE_S = 40
TORCHRUN_KILLS = 5
TORCHFT = harness.ROOT / ".deps/torchft"


def children(pid, name):
    """By rank: processes called `name` below `pid`."""
    found = {}
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            head, fields = status.read_text().rsplit(")", 1)
            environment = (status.parent / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        ours = int(fields.split()[1]) == pid and name in head and fields.split()[0] != "Z"
        for variable in environment if ours else []:
            if variable.startswith(b"RANK="):
                found[int(variable[5:])] = int(status.parent.name)
    return found


class Follower:
    """Reads rows of JSON as they are written: (step, time)."""

    def __init__(self, rows_of):
        self.rows_of = rows_of

    def wait(self, enough):
        end = time.time() + PATIENCE_S
        while time.time() < end:
            rows = self.rows_of()
            if enough(rows):
                return rows
            time.sleep(0.002)
        raise TimeoutError("no step was committed in time")


def muster_rows(folder):
    def read():
        for path in folder.glob("*/latest/metrics.jsonl"):
            lines = path.read_text().split("\n")[:-1]
            records = [json.loads(line) for line in lines if '"train/loss"' in line]
            return [(row["step"], row["time"]) for row in records]
        return []
    return read


def intervals(rows):
    return [after[1] - before[1] for before, after in zip(rows, rows[1:])]


def kill_all_but_one(options, job, workers, draw):
    """[(beyond, from the kill to the next step, a step's time)] of workers - 1 kills."""
    found = []
    with tempfile.TemporaryDirectory() as place:
        sets = (f"run_folder={place}", "training.max_steps=100000", "logging.logging_steps=1000",
                "workers.max_restarts=0")
        process = subprocess.Popen(harness.train_command(options.build, job, workers, sets), cwd=harness.ROOT,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        follower = Follower(muster_rows(pathlib.Path(place)))
        rows = follower.wait(lambda rows: len(rows) > STEPS_BETWEEN)
        alive = children(process.pid, "muster-worker")
        while len(alive) > 1:
            time.sleep(draw.random() * (rows[-1][1] - rows[-2][1]))
            victim = draw.choice(sorted(alive))
            killed = time.time()
            os.kill(alive.pop(victim), signal.SIGKILL)
            rows = follower.wait(lambda rows: rows[-1][1] > killed)
            at = next(i for i, row in enumerate(rows) if row[1] > killed)
            step = rows[-1][0]
            rows = follower.wait(lambda rows: rows[-1][0] >= step + STEPS_BETWEEN)
            usual = statistics.median(intervals(rows[-STEPS_BETWEEN:]))
            found.append((rows[at][1] - rows[at - 1][1] - usual, rows[at][1] - killed, usual))
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=PATIENCE_S)
        if process.returncode != 130 or output.count("going on") != workers - 1:
            raise SystemExit(f"muster ended with {process.returncode}:\n{output}")
        [run] = pathlib.Path(place).glob("*/latest")
        harness.run([options.build / "bin/muster", "data", "audit", run])
    return found


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


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main():
    options = harness.options(__doc__, repetitions=2)
    draw = random.Random(1)
    ours = {}
    for job in ("fashion.yaml", "gpt.yaml"):
        deaths = []
        for workers in list(range(2, 9)) * options.repetitions:
            deaths += kill_all_but_one(options, job, workers, draw)
            harness.say(f"{job}, {workers} workers: beyond the step "
                        f"{', '.join(f'{1e3 * one[0]:.0f}' for one in deaths[1 - workers:])} ms")
        ours[job] = deaths
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
    theirs = statistics.median(one[0] - one[2] for one in peer)
    for job, deaths in ours.items():
        beyond = [max(one[0], 0.001) for one in deaths]
        half, most = percentile(beyond, 0.5), percentile(beyond, 0.99)
        harness.table((f"ms from SIGKILL to the next committed step beyond the step itself, {job.split('.')[0]}, "
                       f"2–8 workers ({len(beyond)} kills): p50 (p99), against torchrun ({len(peer)} kills)",
                       f"{1e3 * half:.0f} ({1e3 * most:.0f})", f"{1e3 * theirs:,.0f}",
                       f"{theirs / half:.0f} × sooner", "p50 ≤ 100, p99 ≤ 500; ≥ 20 ×"))
    if TORCHFT.exists():
        tries = [torchft(options) for _ in range(TORCHRUN_KILLS)]
        harness.say("torchft: " + ", ".join(f"{one:.2f} s" for one in tries))
        theirs = statistics.median(tries)
        for job, deaths in ours.items():
            half = percentile([max(one[0], 0.001) for one in deaths], 0.5)
            harness.table((f"the same, {job.split('.')[0]}, against torchft ({len(tries)} kills)", f"{1e3 * half:.0f}",
                           f"{1e3 * theirs:,.0f}", f"{theirs / half:.0f} × sooner", "≥ 5 ×"))
    lost = [one[1] for one in peer]
    raw = [one[1] for deaths in ours.values() for one in deaths]
    harness.table(("ms from SIGKILL to the next committed step, whole, both models", harness.describe_times(raw),
                   f"{1e3 * statistics.median(one[0] for one in peer):,.0f}", "–", "–"))
    harness.table(("steps lost by a death", 0, f"{statistics.median(lost):.0f} (up to {max(lost)})", "–", "–"))


if __name__ == "__main__":
    main()
