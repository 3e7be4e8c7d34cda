"""Rates on a machine whose speed changes from minute to minute: all sides are started, then each runs for some
seconds at a time while the others are stopped (SIGSTOP). Only steps inside a turn count, and a round of turns
counts only where nothing else ran meanwhile, so neighbours in time are what is compared."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import harness

SECONDS = 4.0  # a turn, where a comparison names no other
SETTLE = 0.3  # seconds of a turn until caches are warm; the step that was stopped ends meanwhile, or does not count
START_S = 120  # until a side has done its first steps
STEPS = 100_000  # more than any comparison takes


class Side:
    """A training that goes on until it is stopped. `rows`: one a step, with `time`, `loss`, `samples_seen`."""

    def __init__(self, command, folder, environment=None):
        self.folder = pathlib.Path(folder)
        with open(self.folder / "output", "w") as output:
            self.process = subprocess.Popen(command, cwd=harness.ROOT, stdout=output,
                                            stderr=subprocess.STDOUT, env=environment)
        self.family = []

    def wait_for(self, steps):
        end = time.monotonic() + START_S
        while len(self.rows()) < steps:
            self.check_runs()
            if time.monotonic() > end:
                self.fail(f"not {steps} steps after {START_S} s")
            time.sleep(0.1)
        self.family = family_of(self.process.pid)

    def check_runs(self):
        if self.process.poll() is not None:
            self.fail(f"ended ({self.process.returncode})")

    def fail(self, why):
        raise SystemExit(f"{' '.join(self.process.args)}: {why}:\n{(self.folder / 'output').read_text()}")

    def signal(self, number):
        for pid in self.family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def cpu_seconds(self):
        self.check_runs()
        fields = (pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in self.family)
        return sum(int(words[11]) + int(words[12]) for words in fields) / os.sysconf("SC_CLK_TCK")

    def peak_memory(self):
        """Bytes that the largest of its processes ever had resident, but for the one that has started them."""
        return max(peak_of(pid) for pid in self.family[:-1])

    def close(self):
        self.family = self.family or family_of(self.process.pid)
        self.signal(signal.SIGKILL)
        self.process.wait()


class Muster(Side):
    def __init__(self, folder, build, job, workers, sets=(), core=None):
        sets = [f"run_folder={folder}", f"training.max_steps={STEPS}", *sets]
        super().__init__(harness.train_command(build, job, workers, sets, core), folder)

    def rows(self):
        records = [json.loads(line) for path in self.folder.glob("*/latest/metrics.jsonl")
                   for line in path.read_text().splitlines() if line.endswith("}")]
        return [{**row, "loss": row["train/loss"]} for row in records if "train/loss" in row]


class SideBySide:
    """Several sides that share their turns; rows count the samples of all."""

    def __init__(self, sides):
        self.sides = sides

    def wait_for(self, steps):
        for side in self.sides:
            side.wait_for(steps)

    def signal(self, number):
        for side in self.sides:
            side.signal(number)

    def cpu_seconds(self):
        return sum(side.cpu_seconds() for side in self.sides)

    def close(self):
        for side in self.sides:
            side.close()

    def rows(self):
        merged = sorted(((row["time"], which, row) for which, side in enumerate(self.sides) for row in side.rows()),
                        key=lambda entry: entry[:2])
        seen = [0] * len(self.sides)
        rows = []
        for _, which, row in merged:
            seen[which] = row["samples_seen"]
            rows.append({**row, "samples_seen": sum(seen)})
        return rows


class Torchrun(Side):
    def __init__(self, folder, python, script, arguments, workers=2):
        super().__init__(harness.torchrun_command(python, [harness.PEERS / script, *arguments], workers), folder,
                         {**os.environ, "OMP_NUM_THREADS": "1"})

    def rows(self):
        lines = (self.folder / "output").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def family_of(root):
    """The process and all that come from it, those first."""
    parents = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rsplit(")", 1)[1].split()[1])
    found = [root]
    for pid in found:  # which grows meanwhile
        found += [child for child, parent in parents.items() if parent == pid]
    return found[::-1]


def peak_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def turn(side, seconds):
    """When what counts of it began and ended, and the share of the cores that others took."""
    before = harness.machine_cpu_seconds() - side.cpu_seconds()
    began = time.time()
    side.signal(signal.SIGCONT)
    time.sleep(seconds)
    side.signal(signal.SIGSTOP)
    ended = time.time()
    others = harness.machine_cpu_seconds() - side.cpu_seconds() - before
    return began + SETTLE, ended, others / ((ended - began) * os.cpu_count())


def steps_within(rows, began, ended):
    """Samples and seconds of the whole steps between; the first row only says when they begin."""
    inside = [row for row in rows if began <= row["time"] <= ended]
    if len(inside) < 4:
        raise SystemExit(f"{len(inside)} steps in a turn of {ended - began:.1f} s: too few to compare")
    return inside[-1]["samples_seen"] - inside[0]["samples_seen"], inside[-1]["time"] - inside[0]["time"]


def undisturbed_rounds(sides, rounds, seconds):
    """When each side's turn began and ended, in as many rounds as nothing disturbed."""
    windows = []
    for attempt in range(rounds + 10 * harness.TRIES):
        order = list(sides) if attempt % 2 else list(sides)[::-1]  # each goes first as often
        played = {name: turn(sides[name], seconds) for name in order}
        most = max(others for _, _, others in played.values())
        if most <= harness.DISTURBED:
            windows.append({name: (began, ended) for name, (began, ended, _) in played.items()})
        else:
            harness.say(f"other programs took {100 * most:.0f} % of the cores; once more")
        if len(windows) == rounds:
            return windows
    raise SystemExit(f"{len(windows)} of {rounds} rounds were undisturbed: too few")


def play(starters, rounds, warm_up, check=lambda sides, rows: None, seconds=SECONDS):
    """Starts the sides, from functions of a folder. By name: (samples, seconds) of each round, and all losses.

    `check` sees sides and rows by name, while the sides are still there and stand still.
    """
    sides = {}
    with tempfile.TemporaryDirectory() as root, contextlib.ExitStack() as stack:
        for name, start in starters.items():
            folder = pathlib.Path(root, name)
            folder.mkdir()
            sides[name] = stack.enter_context(contextlib.closing(start(folder)))
            sides[name].wait_for(warm_up)
            sides[name].signal(signal.SIGSTOP)
        windows = undisturbed_rounds(sides, rounds, seconds)
        rows = {name: side.rows() for name, side in sides.items()}
        check(sides, rows)
    turns = {name: [steps_within(rows[name], *window[name]) for window in windows] for name in rows}
    shortest = min(map(len, rows.values()))
    return turns, {name: [row["loss"] for row in rows[name][:shortest]] for name in rows}


def rates(turns):
    return [samples / seconds for samples, seconds in turns]


def mean_rate(turns):
    """Of all turns together: what happens only now and then counts as often as it happens."""
    return sum(samples for samples, _ in turns) / sum(seconds for _, seconds in turns)
