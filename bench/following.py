"""A training of muster whose workers are killed: started, followed step by step, ended and audited."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import harness

PATIENCE_S = 40


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


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Follower:
    """Reads rows as they are written: (step, time)."""

    def __init__(self, rows_of):
        self.rows_of = rows_of

    def wait(self, enough):
        end = time.time() + PATIENCE_S
        while time.time() < end:
            rows = self.rows_of()
            if rows and enough(rows):
                return rows
            time.sleep(0.002)
        raise TimeoutError("no step was committed in time")


class Training(Follower):
    """Goes on until it is ended, or a death ends it."""

    def __init__(self, options, job, workers, place, sets):
        super().__init__(self.steps)
        self.options, self.place = options, pathlib.Path(place)
        sets = (f"run_folder={place}", "training.max_steps=1000000", "logging.logging_steps=1000", *sets)
        with open(self.place / "output", "w") as output:
            self.process = subprocess.Popen(harness.train_command(options.build, job, workers, sets),
                                            cwd=harness.ROOT, stdout=output, stderr=subprocess.STDOUT)

    def records(self, name, mark):
        """What a file of the run's folder holds so far, one a line, where the mark is; to read all of it takes time
        that the training would lack."""
        return [json.loads(line) for path in self.place.glob(f"*/latest/{name}")
                for line in path.read_text().split("\n")[:-1] if mark in line]

    def steps(self):
        return [(row["step"], row["time"]) for row in self.records("metrics.jsonl", '"train/loss"')]

    def workers(self):
        return children(self.process.pid, "muster-worker")

    def kill(self, rank, how=signal.SIGKILL):
        """When it got the signal."""
        pid = self.workers()[rank]
        killed = time.time()
        os.kill(pid, how)
        return killed

    def ended(self, code):
        """What it printed, once it has ended that way."""
        end = time.time() + PATIENCE_S
        while self.process.poll() is None and time.time() < end:
            time.sleep(0.002)
        output = (self.place / "output").read_text()
        if self.process.returncode != code:
            raise SystemExit(f"muster ended with {self.process.returncode} instead of {code}:\n{output}")
        return output

    def end(self):
        """What it printed, after Ctrl-C; its ledger, which holds every sample once, has been audited then."""
        self.process.send_signal(signal.SIGINT)
        output = self.ended(128 + signal.SIGINT)
        [run] = self.place.glob("*/latest")
        self.ledger = json.loads(harness.run([self.options.build / "bin/muster", "data", "audit", "--json", run]))
        return output


@contextlib.contextmanager
def training(options, job, workers, *sets):
    with tempfile.TemporaryDirectory() as place:
        started = Training(options, job, workers, place, sets)
        try:
            yield started
        finally:
            started.process.kill()
            started.process.wait()


def intervals(rows):
    return [after[1] - before[1] for before, after in zip(rows, rows[1:])]


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
