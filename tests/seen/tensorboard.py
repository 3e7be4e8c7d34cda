"""The event files of runs of one worker, of three and of one that was resumed, in the real TensorBoard: its reader finds
what is in metrics.jsonl, number by number, and nothing else; so does the server that people look at."""
import contextlib
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

PYTHON = pathlib.Path(__file__).parents[2] / ".deps" / "tensorboard" / "bin" / "python"
READER = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0}).Reload()
others = {kind: there for kind, there in events.Tags().items() if there and kind != "scalars"}
assert not others, others
print(json.dumps([(name, one.step, one.wall_time, one.value) for name in events.Tags()["scalars"]
                  for one in events.Scalars(name)]))
"""


def single(value):
    """As much of it as an event file keeps."""
    return struct.unpack("f", struct.pack("f", value))[0]


def told(run):
    """What metrics.jsonl has, {(name, step): (time, value)}, and what it has besides of steps that a resume took again."""
    holds, past = {}, set()
    for row in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()):
        if row["type"] == "run_started":
            past |= {one for one in holds.items() if one[0][1] > row["first_step"]}
            holds = dict(holds.items() - past)
        elif row["type"] == "metrics":
            holds |= {(name, row["step"]): (row["time"], single(value)) for name, value in row.items() if "/" in name}
    assert {"train/loss", "eval/accuracy", "perf/samples_per_s", "phase/forward_s"} <= {name for name, _ in holds}, holds
    return holds, past


def read(run):
    """What TensorBoard's reader makes of the run's event files."""
    assert PYTHON.exists(), "no TensorBoard here: script/dependencies --with-pytorch installs it"
    ended = subprocess.run([PYTHON, "-c", READER, run], capture_output=True, text=True, timeout=runs.DEADLINE)
    assert ended.returncode == 0, ended.stderr
    return [((name, step), (time, value)) for name, step, time, value in json.loads(ended.stdout)]


def compare(run, numbers, forgets=True):
    """With what was told, each once; `forgets`: nothing that a resume took again is left."""
    (holds, past), found = told(run), dict(numbers)
    wrong = [(at, found.get(at), number) for at, number in holds.items() if found.get(at) != number]
    assert not wrong, f"{len(wrong)} of {len(holds)} are not there, or others: {wrong[:5]} …"
    more = found.items() - holds.items() - (set() if forgets else past)
    assert not more, f"nobody told it of {sorted(more)[:5]} …"
    assert len(numbers) == len(found), f"some of {len(numbers)} numbers are of one name and step"


def undisturbed(muster, folder, workers):
    runs.train(muster, runs.write_job(folder, "mlp", steps=60), "--workers", str(workers))
    run = runs.latest(folder)
    holds, past = told(run)
    assert {step for name, step in holds if name == "train/loss"} == set(range(1, 61)) and not past, (holds, past)
    compare(run, read(run))


def by_one(muster, folder):
    undisturbed(muster, folder, 1)


def by_three(muster, folder):
    undisturbed(muster, folder, 3)


def resumed(muster, folder):
    """Each start has a file of its own; together they are the run."""
    job = runs.write_job(folder, "mlp", steps=10**6)
    flags = runs.settings(*runs.UNTIL_STOPPED)
    run = runs.killed_after(muster, job, folder, 45, 1, *flags)
    aim = runs.last_step(run) + 20
    runs.train(muster, job, "--resume", "--workers", "3", *flags, "--set", f"training.max_steps={aim}")
    assert runs.latest(folder) == run and len(list(run.glob("events.out.tfevents.*.muster"))) == 2
    holds, past = told(run)
    assert {step for name, step in holds if name == "train/loss"} == set(range(1, aim + 1)), holds
    assert past, "no step was taken again"
    compare(run, read(run))


@contextlib.contextmanager
def server(folder):
    """Its address, while it runs."""
    path = folder / "tensorboard.log"
    command = [PYTHON, "-m", "tensorboard.main", "--logdir", folder / "runs", "--host", "127.0.0.1", "--port", "0",
               "--samples_per_plugin", "scalars=100000"]
    with open(path, "w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True,
                                   env=os.environ | {"TMPDIR": str(folder)})

    def address():
        assert process.poll() is None, path.read_text()
        return re.search(r"TensorBoard \S+ at (http://127\.0\.0\.1:\d+/)", path.read_text())

    try:
        yield runs.wait_for(address, "the server")[1]
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # with the process that reads for it
        process.wait()


def ask(address, path, **query):
    with urllib.request.urlopen(f"{address}data/{path}?{urllib.parse.urlencode(query)}", timeout=60) as answer:
        return json.load(answer)


def drawn(address, run, name):
    """The points of a curve."""
    return [((name, step), (time, value)) for time, step, value in
            ask(address, "plugin/scalars/scalars", run=run, tag=name)]


def served(muster, folder):
    """All three, as `tensorboard --logdir runs` draws them: every curve, with one point for each step."""
    there = {str(run.relative_to(folder / "runs")): run for run in (folder / "runs/tiny").iterdir() if not run.is_symlink()}
    assert len(there) == 3, there
    with server(folder) as address:
        runs.wait_for(lambda: set(ask(address, "runs")) == {*there, "tiny/latest"}, "the runs")
        for shown, run in there.items():
            last = list(told(run)[0])[-1]
            runs.wait_for(lambda: last[0] in ask(address, "plugin/scalars/tags").get(shown, {}) and
                          last in dict(drawn(address, shown, last[0])), f"the end of {shown}")
            tags = ask(address, "plugin/scalars/tags")[shown]
            # Its reader goes by steps alone, name by name: what is told of every other step may stay.
            compare(run, [point for name in tags for point in drawn(address, shown, name)], forgets=False)


def main():
    arguments = runs.arguments()
    runs.play((by_one, by_three, resumed, served), arguments.muster)


if __name__ == "__main__":
    main()
