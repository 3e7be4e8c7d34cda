"""What the comparisons share: both sides started in turns, their figures read, a row printed."""
import argparse
import json
import math
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
JOBS = ROOT / "bench/jobs"
PEERS = ROOT / "bench/peer"
TIMEOUT_S = 600
DISTURBED = 0.05
TRIES = int(os.environ.get("BENCH_TRIES", "10"))


def options(description, repetitions=5, add=None):
    """`add(parser)` gives a script options of its own."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    if add:
        add(parser)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--python", type=pathlib.Path, default=ROOT / ".deps/pytorch/bin/python")
    parser.add_argument("--repetitions", type=int, default=repetitions)
    return parser.parse_args()


def run(command, **more):
    """Runs to the end and returns stdout; a failure ends the comparison and shows what was said."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=TIMEOUT_S, cwd=ROOT, **more)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} failed ({done.returncode}):\n"
                         f"{done.stdout}{done.stderr}")
    return done.stdout


def train_command(build, job, workers, sets, core=None):
    """`muster train` of a job of bench/jobs, or one with its whole path; `core`: on that one alone."""
    command = [] if core is None else ["taskset", "-c", core]
    command += [build / "bin/muster", "train", JOBS / job, "--workers", workers]
    for pair in sets:
        command += ["--set", pair]
    return [str(word) for word in command]


def torchrun_command(python, words, workers=2):
    return [str(word) for word in (python.parent / "torchrun", "--standalone", "--nproc-per-node", workers, *words)]


class Run:
    """One `muster train`: `began` and the rows' `time` are seconds since the epoch; `results` are its last figures."""

    def __init__(self, build, job, workers, sets=(), core=None):
        with tempfile.TemporaryDirectory() as folder:
            self.began = time.time()
            run(train_command(build, job, workers, [f"run_folder={folder}", *sets], core))
            self.took = time.time() - self.began
            [metrics] = pathlib.Path(folder).glob("*/latest/metrics.jsonl")
            self.folder = metrics.parent
            records = [json.loads(line) for line in metrics.read_text().splitlines()]
            self.rows = [r for r in records if r["type"] == "metrics" and "train/loss" in r]
            self.written = [r for r in records if r["type"] == "checkpoint"]
            [self.results] = [r["results"] for r in records if r["type"] == "run_ended"]
            if self.written:
                run([build / "bin/muster", "checkpoint", "verify", self.folder])


def torchrun(python, script, arguments, workers=2):
    """Rows of JSON that the peer's script prints, after the time at which the command was given."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    began = time.time()
    text = run(torchrun_command(python, [PEERS / script, *arguments], workers), env=environment)
    return began, [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def machine_cpu_seconds():
    """CPU time that this machine's programs and its neighbours have taken."""
    fields = [int(word) for word in pathlib.Path("/proc/stat").read_text().split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / os.sysconf("SC_CLK_TCK")


def cpu_seconds():
    """CPU time of everybody, and of what this comparison has started and seen end."""
    mine = resource.getrusage(resource.RUSAGE_CHILDREN)
    return machine_cpu_seconds(), mine.ru_utime + mine.ru_stime + time.process_time()


def undisturbed(turn):
    """turn(), again where other programs took more than DISTURBED of the cores meanwhile."""
    for _ in range(TRIES):
        began, (all_before, mine_before) = time.time(), cpu_seconds()
        result = turn()
        took, (all_after, mine_after) = time.time() - began, cpu_seconds()
        others = (all_after - all_before) - (mine_after - mine_before)
        share = others / (took * os.cpu_count())
        if share <= DISTURBED:
            return result
        say(f"other programs took {100 * share:.0f} % of the cores; once more")
    say("never undisturbed: the last try counts, its figures do not")
    return result


def p95(values):
    """The 95th percentile by nearest rank."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


def p5(values):
    return sorted(values)[math.ceil(0.05 * len(values)) - 1]


def describe_rates(values, digits=0):
    return f"{statistics.median(values):,.{digits}f} ({p5(values):,.{digits}f})"


def describe_times(values, unit=1e3, digits=0):
    return f"{unit * statistics.median(values):,.{digits}f} ({unit * p95(values):,.{digits}f})"


def ratio(values, others):
    """Median of the ratios of neighbours in time: what loads the machine loads both."""
    return statistics.median(a / b for a, b in zip(values, others, strict=True))


def check_alike(losses, others, tolerance, what):
    """Both learn, and to about the same place: the mean of the last quarter."""
    ends = []
    for series in (losses, others):
        tail = statistics.fmean(series[-max(1, len(series) // 4):])
        if not tail < series[0]:
            raise SystemExit(f"{what}: the loss went from {series[0]:.3f} to {tail:.3f}")
        ends.append(tail)
    if abs(ends[0] - ends[1]) > tolerance * max(ends):
        raise SystemExit(f"{what}: losses end at {ends[0]:.3f} and {ends[1]:.3f}")


def circumstances(build):
    """What figures need beside them: the machine, the day, the commit that was built."""
    models = [line.partition(":")[2].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
              if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    version = run([build / "bin/muster", "--version"]).splitlines()[0]
    return (f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB · "
            f"{time.strftime('%Y-%m-%d')} · {version}")


def say(text):
    print(text, file=sys.stderr, flush=True)


def table(*rows):
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)
