"""Starts muster and looks at what it leaves behind. For the tests of this folder."""
import argparse
import contextlib
import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import zlib

DEADLINE = 240  # seconds: a bound on a hang, not a measurement

IMAGES = """
name: tiny
seed: 5
model: {{type: {model}, dropout: 0.2{more}}}
data:
  type: idx
  path: {folder}
  augment: {{crop_padding: 2, flip: true}}
training: {{max_steps: {steps}, global_batch_size: 18, virtual_workers: 8}}
optimizer: {{type: sgd, learning_rate: 0.05, weight_decay: 1e-3}}
schedule: {{type: cosine, warmup: 10%}}
evaluation: {{every: 50 steps, batch_size: 40}}
checkpoint: {{every: 20 steps, keep: 2}}
run_folder: {runs}
"""

TEXT = """
name: tiny
seed: 5
model: {{type: gpt, n_layer: 2, n_head: 2, n_embd: 32, dropout: 0.1}}
data: {{type: text, path: {folder}/text.txt, context_length: 32, validation_split: 10%}}
training: {{max_steps: {steps}, global_batch_size: 18, virtual_workers: 8, max_grad_norm: 1.0}}
optimizer: {{type: adamw, learning_rate: 3e-3, weight_decay: 0.1}}
schedule: {{type: one_cycle, warmup: 10%}}
evaluation: {{every: 50 steps, batch_size: 40}}
checkpoint: {{every: 20 steps, keep: 2}}
run_folder: {runs}
"""


def arguments(*extra):
    parser = argparse.ArgumentParser()
    parser.add_argument("--muster", required=True)
    for name in extra:
        parser.add_argument(name)
    return parser.parse_args()


STARTED = []
NOT_FOUND = 127  # how shells, and programs that start others, end where a program is not there


@contextlib.contextmanager
def workplace():
    """A folder of its own, by which holders_of_memory knows what was started for it."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-test-"))
    os.environ["TEST_WORKPLACE"] = str(folder)
    try:
        yield folder
    finally:
        for process in STARTED:  # those that a failure has left running; their workers go with them
            process.kill()
            process.wait()
        shutil.rmtree(folder)


def pixels(count, salt):
    """Images of which a model can learn something: a bright bar where the label says."""
    data = bytearray()
    for i in range(count):
        label = (i * 7 + salt) % 10
        for row in range(14):
            for column in range(14):
                bright = 200 if row == label or column == label else 0
                data.append((bright + (i * 31 + row * 17 + column * 13 + salt) % 55) & 255)
    return bytes(data)


PARTS = {"train": (300, 0), "t10k": (77, 3)}  # samples of each, and what sets its numbers apart


def write_idx(path, extents, content):
    with (gzip.open if path.suffix == ".gz" else open)(path, "wb") as file:
        file.write(struct.pack(f">{1 + len(extents)}I", 0x800 + len(extents), *extents) + content)


def write_images(folder, part, side=14):
    count, salt = PARTS[part]
    write_idx(folder / f"{part}-images-idx3-ubyte.gz", (count, side, side), pixels(count, salt)[:count * side * side])


def write_data(folder):
    for part, (count, salt) in PARTS.items():
        write_images(folder, part)
        write_idx(folder / f"{part}-labels-idx1-ubyte", (count,), bytes((i * 7 + salt) % 10 for i in range(count)))
    words = ["and", "it", "came", "to", "pass", "in", "those", "days", "that", "he", "went"]
    text = " ".join(words[(i * i + i // 7) % len(words)] for i in range(4000))
    (folder / "text.txt").write_text(text)


def write_png(path, pixels, side):
    """A grey picture."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = b"".join(b"\0" + pixels[row * side:(row + 1) * side] for row in range(side))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_pictures(folder, side=14):
    """The images of write_data as files, in folders train and val with one for each class."""
    for part, (count, salt) in PARTS.items():
        images = pixels(count, salt)
        for i in range(count):
            name = folder / {"train": "train", "t10k": "val"}[part] / f"bar{(i * 7 + salt) % 10}" / f"{i:03}.png"
            write_png(name, images[i * side * side:(i + 1) * side * side], side)


def write_table(path, side=14):
    """The same as a table, with a column that only counts, one of words, and a cell that is missing."""
    count, salt = PARTS["train"]
    images = pixels(count, salt)
    with open(path, "w") as table:
        table.write("id," + ",".join(f"p{k}" for k in range(0, side * side, 3)) + ",parity,bar\n")
        for i in range(count):
            cells = [str(images[i * side * side + k]) for k in range(0, side * side, 3)]
            cells[i % 7] = "" if i % 50 == 0 else cells[i % 7]
            label = (i * 7 + salt) % 10
            table.write(f"{i},{','.join(cells)},\"{'even, so' if label % 2 == 0 else 'odd'}\",bar{label}\n")


def write_job(folder, model, steps=200, runs="runs", into=None):
    """A job on the data of `folder`; its file lies in `into`, or there as well."""
    more = {"mlp": ", hidden_sizes: [24]", "resnet": ", channels: [4, 8]", "gpt": ""}[model]
    template = TEXT if model == "gpt" else IMAGES
    job = (into or folder) / "tiny.yaml"
    job.write_text(template.format(model=model, more=more, folder=folder, steps=steps, runs=folder / runs))
    return job


def settings(*pairs):
    """Flags that set fields of the job."""
    return [word for pair in pairs for word in ("--set", pair)]


def start(muster, job, *flags, before=(), **options):
    """`before`: a command that starts it where it is to be."""
    started = time.time()
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True} | options
    process = subprocess.Popen([*before, muster, "train", str(job), *flags], **options)
    process.started = started
    STARTED.append(process)
    return process


def command(muster, *words):
    return subprocess.Popen([muster, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process):
    """Exit code and everything that was printed."""
    try:
        output, _ = process.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        raise AssertionError(f"still running after {DEADLINE} s:\n{output}")
    return process.returncode, output


def train(muster, job, *flags, **options):
    code, output = finish(start(muster, job, *flags, **options))
    assert code == 0, f"exit code {code}:\n{output}"
    return output


ATTEMPTS = 5  # to strike a job of few steps before its end: this process may be held up for longer than they take


def killed_in_time(process, folder, step, victims):
    """Kills those that `victims` finds among the workers, by rank, once the metrics show `step` and there is a checkpoint.
    The run, and its workers; nothing where the job has come to its end before."""
    run = wait_for(lambda: process.poll() is not None or step_shown(process, folder, step), f"step {step}")
    if process.poll() is None:
        wait_for(lambda: process.poll() is not None or list(run.glob("checkpoints/*/manifest.json")), "a checkpoint")
        pids = workers_of(process)
        with contextlib.suppress(KeyError, ProcessLookupError):
            for pid in victims(pids):
                kill(pid)
            return run, pids
    code, output = finish(process)
    assert code == 0, f"exit code {code} before step {step}:\n{output}"
    return None


def killed_after(muster, job, folder, step, workers, *flags, **options):
    """The last of so many workers dies after that step and a checkpoint, and the job with it; its run."""
    for _ in range(ATTEMPTS):
        process = start(muster, job, "--workers", str(workers), *settings("workers.max_restarts=0"), *flags, **options)
        if not (found := killed_in_time(process, folder, step, lambda pids: [pids[workers - 1]])):
            continue
        run, pids = found
        code, output = finish(process)
        if code == 0:  # it had done all by then
            continue
        assert code == 1, f"exit code {code}:\n{output}"
        assert f"rank {workers - 1}" in output and "SIGKILL" in output, output
        assert not any(alive(pid) for pid in pids.values()), "a worker outlived its job"
        return run
    raise AssertionError(f"{ATTEMPTS} times no death of a worker after step {step} has ended it")


# What a worker does while it trains, and in which operation; where it computes and reduces, that is always told, but
# for the moments between two passes or operations.
BETWEEN = "computing and reducing gradients"
PLACE = re.compile(r"(waiting for data|updating|evaluating|saving a checkpoint|comparing \w+)(, in \S.*)?|"
                   rf"{BETWEEN}, in \S.*")
DOING = rf"(?:waiting for \w+|updating|evaluating|saving a checkpoint|comparing \w+|{BETWEEN})[^;]*"


def place_of(output, rank, run):
    """What a worker that failed is told to have done, "computing and reducing gradients, in forward of slice 4"; the
    step must be that after the last one told, or next to it: the one who tells may be a little behind or ahead."""
    found = re.search(rf"^\[ERROR\] rank {rank} on \S+ \(pid \d+\): .*\n(?:  .*\n)*?"
                      r"  it was at step (\d+), (.+)$", output, re.MULTILINE)
    assert found, f"no place of rank {rank} in:\n{output}"
    done = max(row["step"] for row in rows(run))
    late = 2 if rank > 0 else 20  # what the first rank had not sent yet dies with it
    assert done <= int(found[1]) <= done + late, f"{done} steps were done:\n{output}"
    return found[2]


def latest(folder, runs="runs"):
    return (folder / runs / "tiny" / "latest").resolve()


def weights(run, step):
    """What identifies the state after `step`: the hashes of its tensors' files."""
    folders = sorted(run.glob(f"checkpoints/step-{step:08d}*"))
    manifest = json.loads((folders[-1] / "manifest.json").read_text())["manifest"]
    return {file["name"]: file["sha256"] for file in manifest["files"]}


def trainer_state(run, step):
    """What the checkpoint of `step` holds besides tensors: position in the data, counters, the best metric."""
    folders = sorted(run.glob(f"checkpoints/step-{step:08d}*"))
    return json.loads((folders[-1] / "manifest.json").read_text())["manifest"]["state"]


def undisturbed(muster, folder, model, steps, *flags, runs="runs"):
    """The weights that one worker comes to, left alone."""
    train(muster, write_job(folder, model, steps=steps, runs=runs), "--workers", "1", *flags)
    return weights(latest(folder, runs), steps)


# A constant learning rate: the weights after a step do not depend on how many were planned.
UNTIL_STOPPED = ("schedule.type=constant", "schedule.warmup=0%")


def endless(muster, folder, name, *flags, **options):
    """An mlp's training that goes on until stop(), in the folder `name`."""
    job = write_job(folder, "mlp", steps=10**6, runs=name)
    return start(muster, job, *settings(*UNTIL_STOPPED), *flags, **options)


def goes_on(process, run, steps=50):
    """Waits until it has trained so many steps more."""
    def done():
        return max((row["step"] for row in rows(run)), default=0)

    aim = done() + steps
    wait_for(lambda: process.poll() is not None or done() >= aim, f"step {aim}")
    assert process.poll() is None, f"ended before step {aim}: {process.communicate()[0]}"


def stop(muster, process, folder, run, model="mlp", flags=()):
    """Ends it with a checkpoint, whose weights are those that one worker comes to, left alone, with the same `flags`;
    what it printed."""
    process.send_signal(signal.SIGINT)
    code, output = finish(process)
    assert code == 128 + signal.SIGINT, f"exit code {code}:\n{output}"
    step = max(int(path.name[5:13]) for path in run.glob("checkpoints/step-*"))
    expected = undisturbed(muster, folder, model, step, *settings(*UNTIL_STOPPED), *flags, runs=f"alone-{step}")
    assert weights(run, step) == expected, f"other weights after step {step}\n{output}"
    return output


def play(scenarios, muster):
    """Each of them in one workplace."""
    with workplace() as folder:
        write_data(folder)
        for scenario in scenarios:
            scenario(muster, folder)
            print(f"ok  {scenario.__name__}", flush=True)


def records(run, kind):
    """What was told so far; a line that is being written is left out."""
    path = run / "metrics.jsonl"
    if not path.exists():
        return []
    lines = path.read_text().split("\n")[:-1]
    return [row for row in map(json.loads, lines) if row["type"] == kind]


def rows(run):
    return records(run, "metrics")


def last_step(run):
    """Of those that were told; 0: none yet. Of the file's end alone, since it is asked a hundred times a second."""
    path = run / "metrics.jsonl"
    if not path.exists():
        return 0
    with path.open("rb") as file:
        begin = max(0, path.stat().st_size - 65536)
        file.seek(begin)
        lines = file.read().split(b"\n")[1 if begin else 0:-1]
    for line in reversed(lines):
        if (row := json.loads(line))["type"] == "metrics":
            return row["step"]
    return 0


def evaluations(run):
    return [(row["step"], row["eval/loss"], row["eval/accuracy"]) for row in rows(run) if "eval/loss" in row]


def wait_for_newcomer(run, worker):
    """Until it has the state, so that it can go on without the others."""
    def has_state():
        return any(re.search(rf"^workers? ([0-9, ]*\b)?{worker}\b[0-9, ]* got the state", row["text"])
                   for row in records(run, "notice"))
    wait_for(has_state, f"the state of worker {worker}")


def wait_for(what, name):
    """The first true answer of `what`."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if answer := what():
                return answer
        time.sleep(0.01)
    raise AssertionError(f"{name} did not come")


def step_shown(process, folder, step, runs="runs"):
    """The run's folder, if its metrics show `step`. `latest` may still name an earlier run."""
    run = latest(folder, runs)
    there = run.exists() and run.stat().st_ctime >= process.started
    return run if there and last_step(run) >= step else None


def wait_for_step(process, folder, step, runs="runs"):
    """The run's folder, once its metrics show `step`."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        assert process.poll() is None, f"ended before step {step}: {process.communicate()[0]}"
        if run := step_shown(process, folder, step, runs):
            return run
        time.sleep(0.01)
    raise AssertionError(f"step {step} did not come")


def workers_of(process):
    """Process ids of the workers, by rank."""
    found = {}
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = status.read_text().rsplit(")", 1)[1].split()
            if int(fields[1]) != process.pid:
                continue
            environment = (status.parent / "environ").read_bytes().split(b"\0")
            for variable in environment:
                if variable.startswith(b"RANK="):
                    found[int(variable[5:])] = int(status.parent.name)
    return found


def holders_of_memory(folder):
    """By process, what it has of the memory that workers share. That has no name, so it is left behind only by a
    process that is."""
    mark = f"TEST_WORKPLACE={folder}".encode()
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark not in (process / "environ").read_bytes().split(b"\0"):
                continue
            held = [line.split()[-2] for line in (process / "maps").read_text().splitlines() if "memfd:" in line]
            for descriptor in (process / "fd").iterdir():
                with contextlib.suppress(OSError):  # closed in the meantime
                    held.append(os.readlink(descriptor))
            if held := sorted({name for name in held if name.startswith("/memfd:muster")}):
                found[int(process.name)] = held
    return found


def no_memory_stays(folder):
    end = time.monotonic() + DEADLINE
    while (left := holders_of_memory(folder)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not left, f"processes that still have shared memory: {left}"


def alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def leave_out(why):
    """Says what this system does not allow; an error where continuous integration is to have played it all."""
    print(f"left out: {why}", flush=True)
    assert not os.environ.get("CI"), f"in continuous integration (CI is set) nothing is left out, but {why}"


def allowed(*command):
    """Whether this system lets us do that: containers often forbid namespaces. A program that is not there is an error."""
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != NOT_FOUND, \
        f"a program of {command} is not here: script/dependencies --for test installs it\n{done.stderr}"
    return done.returncode == 0


def kill(pid, number=signal.SIGKILL):
    os.kill(pid, number)
