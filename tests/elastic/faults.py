"""Fourteen kinds of fault at every place of a step, on the first, a middle and the last rank: each time the
right worker is named with its host, what happened to it, where it was and what became of the job; nothing waits
past its deadline; the weights stay the same; nothing is left behind. faulty_worker.cc makes the faults."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

HOST = re.escape(socket.gethostname())
STEPS = 1_000_000
SAVED = 500  # steps from one checkpoint that is compared to the next
# Weights after a step that do not depend on how many are planned.
LENGTH = runs.settings("schedule.type=constant", "schedule.warmup=0 steps", f"checkpoint.every={SAVED} steps",
                       "checkpoint.keep=100")
SILENCE, WAIT = 1.5, 2  # seconds: workers.heartbeat_timeout, communication.timeout
BUSY = 15  # seconds more that a machine with more workers than cores may need for anything

COMPUTING = r"computing and reducing gradients, in "
# What the message says of the place, which is the very one where the fault is made.
PLACES = {
    "data": r"waiting for data$",
    "forward": COMPUTING + r"forward of slice \d+$",
    "backward": COMPUTING + r"backward of slice \d+$",
    "all-reduce": COMPUTING + r"backward of slice \d+ beside all_reduce sum .* \(gradients/\d+\)$",
    "update": r"updating$",
    "evaluation": r"evaluating, in evaluation of slice \d+$",
    "checkpoint": r"saving a checkpoint$",
    # Long after an evaluation, a checkpoint or the beginning: how long to wait is learnt from such steps.
    "usual step": r"^at step \d*[5-9]\d, " + COMPUTING + r"forward of slice \d+$",
}

# The same of a change of members, in the middle of which somebody dies as well.
CHANGES = {
    "in recovery": r"waiting for the next generation$",
    "the newcomer catches up": r"catching up$",
    "others take the newcomer in": r"waiting for newcomers$",
}

# Faults that the job outlives: what is told of the worker, and how long its peers may wait for it. A hang, or
# a link that is cut, costs two rounds of waiting, each with a second for a better explanation: the first, in an
# operation, is taken for an accident of the way; then all try to connect, for 15 s.
CUT = WAIT + 1 + 15 + 1
# What is learnt from steps that take milliseconds is a sixth of the longest wait; a machine that stalls for two
# seconds in one of them has the others wait for all of LEARNS.
LONG, LEARNS = 60, 40 + 1 + 40 + 1
LONGER = 35  # than a generation is usually given before it counts as sound
SURVIVED = {
    "SIGKILL": ("killed by SIGKILL", 0),  # as the system does it when memory runs out
    "segfault": ("killed by SIGSEGV", 0),
    "abort": ("killed by SIGABRT", 0),
    "bus": ("killed by SIGBUS", 0),  # a file that is cut off under its reader
    "SIGSTOP": ("was silent for too long", SILENCE),
    "hang": ("is out of others' reach", CUT),
    "cut": ("is out of others' reach", CUT),
    "bit": ("held other bits than the others", 0),
}

WHO = ("first", "middle", "last")


def at_every_place(act, first=0):
    """One after the other, each time on the next rank."""
    places = list(PLACES)[:-1]
    return [(WHO[(first + at) % len(WHO)], act, place) for at, place in enumerate(places)]


# Of one job after the other: who is struck (by rank), by what, and where.
SCENES = {
    "SIGKILL": at_every_place("SIGKILL"),
    "segfault": at_every_place("segfault", 1),
    "abort": at_every_place("abort", 2),
    "bus": at_every_place("bus"),
    "SIGSTOP": at_every_place("SIGSTOP", 1),
    "hang": [("last", "hang", "forward"), ("first", "hang", "backward")],
    "learnt": [("middle", "hang", "usual step")],
    "patient": [("last", "hang", "evaluation")],
    "links": [("middle", "cut", "backward"), ("first", "cut", "all-reduce")],
    "silence": [("middle", "hang", "data"), ("last", "hang", "evaluation")],
    "bits": [("middle", "bit", "update"), ("last", "bit", "update"), ("first", "bit", "update")],
}
FLAGS = {"links": ["communication.transport=tcp"], "learnt": [f"communication.timeout={LONG}s"],
         "patient": [f"communication.timeout={LONGER}s"]}
PATIENCE = {"learnt": LEARNS, "patient": LONGER + 1 + LONGER + 1}  # where it is not the fault's own


class Job:
    """Three workers that train until they are stopped."""

    started = []

    def __init__(self, muster, folder, name, *flags, **variables):
        self.name = name
        self.faults = folder / f"faults-{name}"
        self.faults.mkdir()
        self.file = runs.write_job(self.faults, "mlp", steps=STEPS)
        self.file.write_text(self.file.read_text().replace(f"path: {self.faults}", f"path: {folder}"))
        self.process = runs.start(
            muster, self.file, "--workers", "3", *LENGTH, *runs.settings(
                f"run_folder={folder / name}", f"workers.heartbeat_timeout={SILENCE}s", "workers.max_restarts=100",
                f"communication.timeout={WAIT}s", "evaluation.every=100 steps", "evaluation.keep_best=false",
                "training.lanes=1", "replicas.compare_every=50 steps", *flags),
            env=dict(os.environ, MUSTER_FAULTS=str(self.faults), **variables))
        Job.started.append(self)
        self.lines = []  # as they come, each with the time of day
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append((time.time(), line.rstrip("\n")))

    def output(self):
        return "\n".join(line for _, line in self.lines)

    def wait_for(self, pattern, begin=0):
        """The first line from `begin` on that fits, when it came, and its place among the lines."""
        def find():
            for at in range(begin, len(self.lines)):
                if found := re.search(pattern, self.lines[at][1]):
                    return found, self.lines[at][0], at
            assert self.process.poll() is None, f"ended without `{pattern}`:\n{self.output()}"
            return None
        try:
            return runs.wait_for(find, pattern)
        except AssertionError as failure:
            raise AssertionError(f"{failure} in:\n{self.output()}") from failure

    def begin(self, folder):
        self.run = runs.wait_for_step(self.process, folder, 20, self.name)
        self.ranks = [0, 1, 2]  # their workers

    def arm(self, worker, act, place):
        """The worker of that number, or whoever is started in its place, will be struck there."""
        path = self.faults / f"worker-{worker}"
        path.with_suffix(".struck").unlink(missing_ok=True)
        path.with_suffix(".new").write_text(f"{act} {place}")
        path.with_suffix(".new").rename(path)

    def struck(self, worker):
        """What the worker itself wrote down when it was struck: when, and where."""
        path = self.faults / f"worker-{worker}.struck"
        when, where = runs.wait_for(path.read_text, f"a fault of worker {worker}").split(" ", 1)
        return float(when), where.strip()

    def end(self):
        code = self.process.wait(timeout=runs.DEADLINE)
        self.reader.join()
        return code


def check_loss(job, worker, pid, told, where, begin):
    """Who was lost, on which host, by what, where, and what becomes of the job: in one line."""
    line = job.wait_for(rf"\[WARN\] worker \d+ \(pid \d+ on \S+\) .* (is|are) left", begin)
    text = line[0].string
    expected = rf"\[WARN\] worker {worker} \(pid {pid} on {HOST}\) {told} (.*); 2 workers are left, going on$"
    found = re.fullmatch(expected, text)
    assert found, f"{text!r} is not {expected!r}\n{job.output()}"
    if where:
        assert found[1] == where, f"{found[1]!r}, but it was {where!r}\n{job.output()}"
    return line


def strike(job, who, act, place):
    """One fault from its beginning until a new worker has taken the lost one's place."""
    rank = {"first": 0, "middle": 1, "last": 2}[who]
    worker = job.ranks.pop(rank)
    pid = runs.workers_of(job.process)[worker]
    begin = len(job.lines)
    told, patience = SURVIVED[act]
    patience = PATIENCE.get(job.name, patience)
    job.arm(worker, act, PLACES[place])
    struck, where = job.struck(worker)
    # Wrong bits and a cut link show when the worker has gone on for a while.
    check_loss(job, worker, pid, told, where if act not in ("cut", "bit") else None, begin)
    _, stands, at = job.wait_for(r"generation \d+ of 2 workers stands after", begin)
    assert stands - struck < patience + BUSY, f"{who} {act} at {place}: {stands - struck} s\n{job.output()}"
    job.wait_for(rf"worker {worker} got the state", at)
    job.ranks.append(worker)
    print(f"ok  {act}, {who} rank, {place}: {stands - struck:.2f} s", flush=True)


def strike_in_change(job, other, what):
    """Worker 1 is killed; what follows from that kills `other` as well, or the one that comes for worker 1."""
    begin = len(job.lines)
    pids = runs.workers_of(job.process)
    job.arm(other, "SIGKILL", CHANGES[what])
    runs.kill(pids[1])
    struck, where = job.struck(other)
    told = r"\[WARN\] worker {} \(pid {} on " + HOST + r"\) killed by SIGKILL {}; (1 worker is|2 workers are) left, going on$"
    _, _, at = job.wait_for(told.format(1, pids[1], "at step .*"), begin)
    later = at + 1 if other == 1 else begin
    pid = r"\d+" if other == 1 else pids[other]
    _, _, at = job.wait_for(told.format(other, pid, re.escape(where)), later)
    _, stands, at = job.wait_for(r"generation \d+ of [12] workers? stands after", at)
    assert stands - struck < BUSY, f"{what}: {stands - struck} s\n{job.output()}"
    _, _, at = job.wait_for(r"generation \d+ of 3 workers stands after", at)
    step = runs.rows(job.run)[-1]["step"]
    # No newcomer lacks more steps than it keeps updates of: by then all have the state.
    runs.wait_for(lambda: runs.rows(job.run)[-1]["step"] > step + 200, "the newcomers")
    print(f"ok  SIGKILL, {what}, worker {other}: {stands - struck:.2f} s", flush=True)


def play_changes(muster, folder):
    job = Job(muster, folder, "changes", "evaluation.every=never")
    job.begin(folder)
    strikes = [(other, what) for what in CHANGES for other in ((1,) if what == "the newcomer catches up" else (0, 2))]
    for other, what in strikes:
        strike_in_change(job, other, what)
    return end_scene(job, 2 * len(strikes))


def play_scene(muster, folder, name):
    job = Job(muster, folder, name, *FLAGS.get(name, []))
    job.begin(folder)
    for who, act, place in SCENES[name]:
        strike(job, who, act, place)
    return end_scene(job, len(SCENES[name]))


def end_scene(job, losses):
    """Nothing more than these was lost, and nobody is left; a step that was saved, and its weights."""
    newest = runs.rows(job.run)[-1]["step"]
    wanted = (newest // SAVED + 1) * SAVED
    runs.wait_for(lambda: list(job.run.glob(f"checkpoints/step-{wanted:08d}/manifest.json")), "a checkpoint")
    pids = {int(pid) for pid in re.findall(r"\(pid (\d+)", job.output())}
    pids |= set(runs.workers_of(job.process).values())
    job.process.send_signal(signal.SIGINT)
    code = job.end()
    assert code == 130, f"exit code {code}:\n{job.output()}"
    warned = [line for _, line in job.lines if line.startswith("[WARN] worker ") and " left, " in line]
    assert len(warned) == losses, job.output()
    assert not any(runs.alive(pid) for pid in pids), "a worker outlived its job"
    return wanted, runs.weights(job.run, wanted)


# The error is told before the process has ended, or after.
ENDED = r"(exit status \d|reported an error)"


# Faults that end the job, for the others would meet them as well: exit code, who and where, what is told.
def exits(rank):
    return (f"own exit, rank {rank}", rank, "exit", PLACES["backward"], {}, 1,
            (rf"rank {rank} on {HOST} \(pid \d+\): exit status 7", "it was {where}",
             "the job ends: what makes a worker give up the others would meet as well"))


def runs_out_of_memory(rank):
    return (f"out of memory, rank {rank}", rank, "memory", PLACES["forward"], {}, 3,
            (rf"rank {rank} on {HOST} \(pid \d+\): {ENDED}", r"not enough memory|(can.t|Cannot) allocate memory",
             r"it was at step \d+, computing",
             "the job ends: what a worker tells of itself the others would meet as well"))


def cannot_read(rank):
    return (f"unreadable data, rank {rank}", rank, None, None,
            {"MUSTER_UNREADABLE": f"{rank} train-images-idx3-ubyte"}, 3,
            (rf"rank {rank} on {HOST} \(pid \d+\): {ENDED}", "train-images-idx3-ubyte.*: Input/output error",
             "the job ends: "))


def computes_nan(rank):
    return (f"NaN in a gradient, rank {rank}", rank, "nan", PLACES["backward"], {}, 4,
            (rf"rank {rank} on {HOST} \(pid \d+\): {ENDED}", "this worker's part of the sum is not finite",
             r"it was at step \d+, computing and reducing gradients",
             "the job ends: what a worker tells of itself the others would meet as well"))


ENDINGS = [computes_nan(0), computes_nan(1), computes_nan(2), exits(0), exits(1), exits(2),
           runs_out_of_memory(1), cannot_read(0), cannot_read(2),
           ("full disk, the rank that saves", 0, "disk", PLACES["forward"], {}, 3,
            (rf"rank 0 on {HOST} \(pid \d+\): {ENDED}", "checkpoints/.*: No space left on device",
             r"it was at step \d+",
             "the job ends: what a worker tells of itself the others would meet as well"))]


def play_ending(muster, folder, ending):
    name, rank, act, place, variables, expected, told = ending
    job = Job(muster, folder, re.sub(r"\W+", "-", name), "checkpoint.every=20 steps", **variables)
    struck, where = time.time(), ""
    if act:
        job.begin(folder)
        job.arm(rank, act, place)
        struck, where = job.struck(rank)
    code = job.end()
    ended = time.time()
    output = job.output()
    assert code == expected, f"{name}: exit code {code}\n{output}"
    at = 0
    for pattern in told:  # in this order
        found = re.search(pattern.format(where=re.escape(where)), output[at:])
        assert found, f"{name}: no `{pattern}` (in this order) in\n{output}"
        at += found.end()
    assert output.count("[ERROR]") == 1, f"{name}: more than one error\n{output}"
    assert ended - struck < WAIT + BUSY, f"{name}: {ended - struck} s\n{output}"
    print(f"ok  {name}: {ended - struck:.2f} s", flush=True)


def play_slow_link(muster, folder):
    """Nobody is lost: it is told which way is slow, from whom to whom."""
    job = Job(muster, folder, "slow", "communication.transport=tcp", "stragglers.compare_every=100ms")
    job.begin(folder)
    begin = len(job.lines)
    job.arm(1, "slow", PLACES["backward"])
    struck, _ = job.struck(1)
    told = rf"\[WARN\] worker (\d) \(pid \d+ on {HOST}\) hears worker (\d) over a slow link: 64 KiB take"
    found, when, _ = job.wait_for(told, begin)
    assert found.groups() == ("2", "1"), job.output()
    assert when - struck < BUSY, f"{when - struck} s\n{job.output()}"
    job.process.send_signal(signal.SIGINT)
    assert job.end() == 130, job.output()
    print(f"ok  slow link, middle rank: {when - struck:.2f} s", flush=True)


def compare_weights(muster, folder, results):
    """With those of one worker that was left alone."""
    last = max(step for step, _ in results)
    runs.train(muster, runs.write_job(folder, "mlp", steps=last), "--workers", "1", *LENGTH)
    for step, weights in results:
        assert weights == runs.weights(runs.latest(folder), step), f"other weights after step {step}"


def install(folder, muster, worker):
    """A muster whose workers are faulty ones."""
    (folder / "bin").mkdir()
    shutil.copy(muster, folder / "bin/muster")
    (folder / "bin/muster-worker").symlink_to(pathlib.Path(worker).resolve())
    return folder / "bin/muster"


def main():
    arguments = runs.arguments("--worker")
    with runs.workplace() as folder, concurrent.futures.ThreadPoolExecutor(3) as pool:
        runs.write_data(folder)
        muster = install(folder, arguments.muster, arguments.worker)
        scenes = [pool.submit(play_scene, muster, folder, name) for name in SCENES]
        scenes.append(pool.submit(play_changes, muster, folder))
        slow = pool.submit(play_slow_link, muster, folder)
        endings = [pool.submit(play_ending, muster, folder, ending) for ending in ENDINGS]
        try:
            for done in concurrent.futures.as_completed([*scenes, slow, *endings]):
                done.result()
        finally:
            for job in Job.started:
                job.process.kill()  # those that a failure has left running
        compare_weights(arguments.muster, folder, [scene.result() for scene in scenes])


if __name__ == "__main__":
    main()
