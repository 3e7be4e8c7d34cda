"""Fourteen kinds of fault at every place of a step, on the first, a middle and the last rank in turn: each time the
right worker is named with its host, what happened to it, where it was and what became of the job; nothing waits
past its deadline; nobody else is started anew; the weights stay the same; nothing is left behind.
faulty_worker.cc makes the faults.

  SIGKILL, segfault, abort, bus, SIGSTOP, hang, exit   at every place
  hang      also in the middle of an all-reduce, which all the others are in as well
  memory    forward, backward and evaluation: elsewhere no tensor is made
  NaN       forward and backward: elsewhere no kernel computes that the weights depend on
  cut       backward, all-reduce and evaluation: elsewhere nothing is sent, so it would show in the next all-reduce
  bit       in the weights, at the update: wherever it flips, it shows when they are compared next
  disk      in the writer of checkpoints, on the first rank: nobody else writes; in the save under way or the next
  data      as the files are opened, before there is a step
  slow      a link, told of in the comparison of paces; nobody is lost
"""
import collections
import concurrent.futures
import json
import pathlib
import re
import signal
import sys
import threading
import time
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import faulty
import join
import losses
import runs
from losses import HOST

STEPS = 1_000_000
SAVED = 500  # steps from one checkpoint that is compared to the next
# Weights after a step that do not depend on how many are planned.
LENGTH = runs.settings("schedule.type=constant", "schedule.warmup=0 steps", f"checkpoint.every={SAVED} steps",
                       "checkpoint.keep=100")
SILENCE, WAIT = 1.5, 2  # seconds: workers.heartbeat_timeout, communication.timeout
SLOW = 20  # seconds until two comparisons have found a link slow
BUSY = 5  # seconds more that a machine with more workers than cores may need; it needed 0.4 at most

COMPUTING = r"computing and reducing gradients, in "
# What the message says of the place, which is the very one where the fault is made.
PLACES = {
    "data": r"waiting for data$",
    "forward": COMPUTING + r"forward of slice \d+$",
    "backward": COMPUTING + r"backward of slice \d+$",
    # Before the first bucket is handed over: no step is without it.
    "all-reduce": COMPUTING + r"backward of slice \d+ beside all_reduce sum .* \(gradients/0\)$",
    # Once the lane has done all it has to, so that nothing is summed but among the workers.
    "inside": COMPUTING + r"all_reduce sum .* \(gradients/\d+\)$",
    "update": r"updating$",
    "evaluation": r"evaluating, in evaluation of slice \d+$",
    "checkpoint": r"saving a checkpoint$",
    # Long after an evaluation, a checkpoint or the beginning: how long to wait is learnt from such steps.
    "usual step": r"^at step \d*[5-9]\d, " + COMPUTING + r"forward of slice \d+$",
}

EVERYWHERE = [place for place in PLACES if place not in ("inside", "usual step")]

# The same of a change of members, in the middle of which somebody dies as well.
CHANGES = {
    "in recovery": r"waiting for the next generation$",
    "the newcomer catches up": r"catching up$",
    "others take the newcomer in": r"waiting for newcomers$",
}

# Faults that the job outlives: what is told of the worker, and how long its peers may wait for it. A hang, or
# a link that is cut, costs two rounds of waiting, each with a second for a better explanation: the first, in an
# operation, is taken for an accident of the way; then all come together, for as long again, and connect, for 15 s.
HANG, CUT = WAIT + 1 + WAIT + 1, WAIT + 1 + 15 + 1
# What is learnt from steps that take milliseconds is a fifteenth of the longest wait; a machine that stalls for two
# seconds in one of them has the others wait for all of LEARNS.
LONG, LEARNS = 60, 40 + 1 + 40 + 1
LONGER = 35  # than a generation is usually given before it counts as sound
SURVIVED = {
    "SIGKILL": ("killed by SIGKILL", 0),  # as the system does it when memory runs out
    "segfault": ("killed by SIGSEGV", 0),
    "abort": ("killed by SIGABRT", 0),
    "bus": ("killed by SIGBUS", 0),  # a file that is cut off under its reader
    "SIGSTOP": ("was silent for too long", SILENCE),
    "hang": ("lives, but does not answer the others", HANG),
    "hang-inside": ("lives, but does not answer the others", HANG),
    "cut": ("lives, but does not answer the others", CUT),
    "bit": ("held other bits than the others", 5),  # until they are compared
    "exit": ("exit status 7", 0),  # without a word, as of a library
    "memory": (r"reported an error \(.*memory.*\)", 0),
    "SIGKILL-late": ("killed by SIGKILL", 1),  # when all others wait for it
}

WHO = ("first", "middle", "last")


# Of one job after the other: by what and where a worker is struck. Those first that wait for long. In a job whose last
# loss is not long ago a hang costs one round, in which a stack may come too late to be looked at.
STRIKES = {
    "patient": [("hang", "evaluation")],
    "learnt": [("hang", "usual step")],
    "hang": [("hang", "forward"), ("hang", "backward"), ("hang", "all-reduce")],
    "links": [("hang-inside", "inside"), ("cut", "backward"), ("cut", "all-reduce"), ("cut", "evaluation")],
    "silence": [("hang", place) for place in ("data", "evaluation", "update", "checkpoint")],
    "memory": [("memory", place) for place in ("forward", "backward", "evaluation")],
    "parts": [("SIGKILL-late", place) for place in ("forward", "backward", "all-reduce")],
    **{act: [(act, place) for place in EVERYWHERE] for act in ("SIGKILL", "segfault", "abort", "bus", "exit", "SIGSTOP")},
}


def on_one_rank_after_the_other(scene, strikes):
    """Whom of them each strikes: the scene's name draws the first, so that a place is not the same rank's everywhere."""
    first = zlib.crc32(scene.encode())
    return [(WHO[(first + at) % len(WHO)], act, place) for at, (act, place) in enumerate(strikes)]


SCENES = {
    **{scene: on_one_rank_after_the_other(scene, strikes) for scene, strikes in STRIKES.items()},
    # A job each: after a second one of a host nobody is started there any more.
    **{f"bits-{who}": [(who, "bit", "update")] for who in WHO},
}
FLAGS = {"links": ["communication.transport=tcp"], "learnt": [f"communication.timeout={LONG}s"],
         "patient": [f"communication.timeout={LONGER}s"],
         "parts": [f"communication.timeout={LONG}s", "stragglers.rebalance=false"]}
SLICES, SHARES = 8, (3, 3, 2)  # by rank, where they are shared out evenly
COMPARED = 50  # steps from one comparison of the workers' bits to the next
PATIENCE = {"learnt": LEARNS, "patient": LONGER + 1 + LONGER + 1}  # where it is not the fault's own


class Job:
    """Three workers that train until they are stopped."""

    started = []

    def __init__(self, muster, folder, name, *flags, **variables):
        self.name = name
        self.faults = faulty.Faults(folder / f"faults-{name}")
        self.file = runs.write_job(folder, "mlp", steps=STEPS, into=self.faults.folder)
        self.process = runs.start(
            muster, self.file, "--workers", "3", *LENGTH, *runs.settings(
                f"run_folder={folder / name}", f"workers.heartbeat_timeout={SILENCE}s", "workers.max_restarts=100",
                f"communication.timeout={WAIT}s", "evaluation.every=100 steps", "evaluation.keep_best=false",
                "training.lanes=1", f"replicas.compare_every={COMPARED} steps", *flags),
            env=self.faults.environment(**variables))
        Job.started.append(self)
        self.lines = []  # as they come, each with the time of day
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append((time.time(), line.rstrip("\n")))

    def output(self):
        return "\n".join(line for _, line in self.lines)

    def wait_for(self, pattern, begin=0, since=0):
        """The first line from `begin` on that fits and came after `since`, when it came, and its place among the
        lines."""
        def find():
            for at in range(begin, len(self.lines)):
                if self.lines[at][0] >= since and (found := re.search(pattern, self.lines[at][1])):
                    return found, self.lines[at][0], at
            assert self.process.poll() is None, f"ended without `{pattern}`:\n{self.output()}"
            return None
        try:
            return runs.wait_for(find, pattern)
        except AssertionError as failure:
            raise AssertionError(f"{failure} in:\n{self.output()}") from failure

    def told(self):
        """Each notice; of a usual recovery the console has one line."""
        return [row["text"] for row in runs.records(self.run, "notice")]

    def wait_told(self, pattern, generation):
        """A notice that fits and came after that of the generation."""
        def find():
            texts = self.told()
            begin = next((at for at, text in enumerate(texts) if text.startswith(f"generation {generation} of ")), len(texts))
            return any(re.search(pattern, text) for text in texts[begin + 1:])
        runs.wait_for(find, f"{pattern} after generation {generation}")

    def begin(self, folder):
        self.run = runs.wait_for_step(self.process, folder, 20, self.name)
        self.ranks = [0, 1, 2]  # their workers

    def end(self):
        code = self.process.wait(timeout=runs.DEADLINE)
        self.reader.join()
        return code


def check_loss(job, worker, pid, told, where, begin, left=2, host=HOST):
    """Who was lost, on which host, by what, where (a pattern), and what becomes of the job: in one line, which has the
    last words of its log, or of its output where that is on another host, in the run's files."""
    line = job.wait_for(rf"\[WARN\] worker \d+ \(pid \d+ on \S+\) .* (is|are) left", begin)
    losses.check(line[0].string, worker, pid, told, where, rf"{left} workers are left, going on(; .*)?", job.output(), host)
    kept = runs.wait_for(lambda: losses.line_of(job.told(), worker, pid), "the loss in metrics.jsonl")
    words = "; its log: .*" if host == HOST else "(; its last line: .*)?"
    losses.check(kept, worker, pid, told, where, f"{left} workers are left, going on{words}", job.output(), host)
    return line


def place_of_loss(act, where):
    """A pattern for where a worker is that was struck `where`, when it is given up. With a cut link it goes on until
    it misses the others in the all-reduce of that step, with wrong bits until they are compared."""
    step = faulty.step_of(where)
    match act:
        case "cut":
            # What that step sends may have been on its way already: then it is missed in the next one.
            return rf"at step ({step}|{step + 1}), computing and reducing gradients, in .*\(gradients/\d+\)|" \
                rf"at step {step}, evaluating, in .*|" \
                rf"at step ({step - 1}|{step}), waiting for the next generation"
        case "hang-inside":
            # In the next sum that it has a part of.
            return rf"at step ({step}|{step + 1}), {COMPUTING}all_reduce sum .* \(gradients/\d+\)"
        case "bit":
            compared = (step // COMPARED + 1) * COMPARED
            return rf"at step {compared}, comparing replicas(, in barrier \(going back\))?"
        case _:
            return re.escape(where)


def check_stacks(job, act, worker):
    """Before it was given up all were asked where they are: that it was this worker is told and kept, with its stack."""
    report = json.loads((job.run / "debug.json").read_text())
    assert report["occasion"] == "a worker did not answer the others", report
    found = "\n".join(report["conclusions"])
    others = ", ".join(str(one["worker"]) for one in report["workers"] if one["worker"] != worker)
    if act == "hang-inside":
        told = rf"^all workers have been in .* and the others wait for worker {worker}, which does not get on$"
    else:
        told = rf"^workers? [{others}]+ ha(ve|s) waited .*, which worker {worker} has not called$"
    assert re.search(told, found, re.MULTILINE), f"not worker {worker}: {report}"
    assert all(line in job.output() for line in report["conclusions"]), f"{found}\n{job.output()}"
    dump = report["workers"][worker].get("dump", {})
    assert "faulty::hang()" in dump.get("stacks", ""), f"{report}\n{job.output()}"


def check_parts(job, rank, worker, where, stands):
    """The step in which the worker died went on, and nothing but its slices was computed again."""
    step = faulty.step_of(where)
    told = f": step {step} goes on, {SHARES[rank]} of {SLICES} slices are computed again"
    assert re.search(rf"{re.escape(told)}(;|$)", stands), f"{stands!r} does not say {told!r}"
    computed = collections.Counter(slice_of for one in job.ranks if one != worker
                                   for at, slice_of in job.faults.passes(one) if at == step)
    assert computed == collections.Counter(range(SLICES)), f"step {step}, how often each slice: {computed}"


def strike(job, who, act, place):
    """One fault from its beginning until a new worker has taken the lost one's place."""
    rank = {"first": 0, "middle": 1, "last": 2}[who]
    pids = runs.workers_of(job.process)
    worker = job.ranks.pop(rank)
    others = {other: pids[other] for other in job.ranks}
    begin = len(job.lines)
    told, patience = SURVIVED[act]
    patience = PATIENCE.get(job.name, patience)
    job.faults.arm(worker, act, PLACES[place])
    struck, where = job.faults.struck(worker)
    line, _, loss = check_loss(job, worker, pids[worker], told, place_of_loss(act, where), begin)
    assert faulty.step_of(line[0][line[0].index("at step"):]) >= faulty.step_of(where) - 1, f"{where}: {line[0]}"
    line, stands, at = job.wait_for(r"generation (\d+) of 2 workers stands after", begin)
    assert at >= loss, f"what came of the loss is told before it:\n{job.output()}"
    assert stands - struck < patience + BUSY, f"{who} {act} at {place}: {stands - struck} s\n{job.output()}"
    job.wait_told(rf"worker {worker} got the state", line[1])
    job.ranks.append(worker)
    now = runs.workers_of(job.process)
    assert {other: now.get(other) for other in others} == others, f"others were started anew: {others}, {now}"
    if act.startswith("hang") and stands - struck > WAIT + 2:  # else it was given up before its stack had names
        check_stacks(job, act, worker)
    if act == "SIGKILL-late":
        check_parts(job, rank, worker, where, line.string)
    print(f"ok  {act}, {who} rank, {place}: {stands - struck:.2f} s", flush=True)


def strike_in_change(job, other, act, what):
    """Worker 1 is killed; what follows from that strikes `other` as well, or the one that comes for worker 1."""
    begin = len(job.lines)
    pids = runs.workers_of(job.process)
    job.faults.arm(other, act, CHANGES[what])
    runs.kill(pids[1])
    struck, where = job.faults.struck(other)
    told = r"\[WARN\] worker {} \(pid {} on " + HOST + r"\) {} {}; (1 worker is|2 workers are) left, going on"
    _, _, at = job.wait_for(told.format(1, pids[1], SURVIVED["SIGKILL"][0], "at step .*"), begin)
    later = at + 1 if other == 1 else begin
    pid = r"\d+" if other == 1 else pids[other]
    became, patience = SURVIVED[act]
    job.wait_for(told.format(other, pid, became, re.escape(where)), later)
    line, stands, _ = job.wait_for(r"generation (\d+) of [12] workers? stands after", begin, struck)
    assert stands - struck < patience + BUSY, f"{what}: {stands - struck} s\n{job.output()}"
    job.wait_told(r"generation \d+ of 3 workers stands after", line[1])
    step = runs.rows(job.run)[-1]["step"]
    # No newcomer lacks more steps than it keeps updates of: by then all have the state.
    runs.wait_for(lambda: runs.rows(job.run)[-1]["step"] > step + 200, "the newcomers")
    print(f"ok  {act}, {what}, worker {other}: {stands - struck:.2f} s", flush=True)


def play_changes(muster, folder):
    job = Job(muster, folder, "changes", "evaluation.every=never")
    job.begin(folder)
    strikes = [(other, "SIGKILL", what)
               for what in CHANGES for other in ((1,) if what == "the newcomer catches up" else (0, 2))]
    strikes.append((1, "hang", "the newcomer catches up"))
    for strike_of in strikes:
        strike_in_change(job, *strike_of)
    return end_scene(job, 2 * len(strikes))


def play_scene(muster, folder, name):
    counts = {"MUSTER_PASSES": "yes"} if name == "parts" else {}
    job = Job(muster, folder, name, *FLAGS.get(name, []), **counts)
    job.begin(folder)
    for who, act, place in SCENES[name]:
        strike(job, who, act, place)
    return end_scene(job, len(SCENES[name]))


ELSEWHERE = "elsewhere"  # the name of the other host
GUEST = 3  # its worker, behind the launcher's three
ON_ELSEWHERE = ("unshare", "-Uru", "sh", "-c", f"hostname {ELSEWHERE} && exec \"$@\"", "sh")


def strike_beside_guest(job, worker, act, place, host=HOST):
    """One fault, and that its line says who, where and on which host."""
    begin = len(job.lines)
    pid = job.guest.worker() if worker == GUEST else runs.workers_of(job.process)[worker]
    job.faults.arm(worker, act, PLACES[place])
    _, where = job.faults.struck(worker)
    check_loss(job, worker, pid, SURVIVED[act][0], re.escape(where), begin, 3, host)
    if worker != GUEST:
        stands, _, _ = job.wait_for(r"generation (\d+) of 3 workers stands after", begin)
        job.wait_told(rf"worker {worker} got the state", stands[1])
    print(f"ok  {act}, {place}, worker {worker} of {'another' if worker == GUEST else 'this'} host", flush=True)


def play_other_host(muster, folder):
    """A worker on a host of another name is said to be there, and one beside the launcher here."""
    assert HOST != ELSEWHERE
    job = Job(muster, folder, "other-host", "workers.max_workers=4", "workers.listen=127.0.0.1:0",
              "communication.transport=tcp")
    job.begin(folder)
    for act, place in (("SIGKILL", "forward"), ("segfault", "update")):
        begin = len(job.lines)
        job.guest = join.Host(muster, folder, job.run / "join.key", before=ON_ELSEWHERE, env=job.faults.environment())
        try:
            job.wait_for(rf"worker {GUEST} got the state", begin)
            if act == "SIGKILL":
                strike_beside_guest(job, 1, act, place)
            strike_beside_guest(job, GUEST, act, place, ELSEWHERE)
            assert job.guest.wait() != 0, job.guest.output()
        finally:
            job.guest.process.kill()
    return end_scene(job, 3)


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


# Faults that the others would meet as well end the job: exit code, who and where, what is told.
def computes_nan(rank, place):
    act = {"forward": "nan-forward", "backward": "nan"}[place]
    return (f"NaN in {place}, rank {rank}", rank, act, PLACES[place], None, 4,
            (rf"rank {rank} on {HOST} \(pid \d+\): {ENDED}", r"step {step}, ",
             rf"(this worker's part of the sum is not finite|it comes from rank {rank})",
             r"it was at step {step}, computing and reducing gradients",
             "the job ends: what a worker tells of itself the others would meet as well"))


def check_disk(output, struck):
    """In the save that was under way, or the first one from there on; found when the next one is due at the latest."""
    saved = int(re.search(r"checkpoints/step-(\d+)/", output)[1])
    told = int(re.search(r"it was at step (\d+), ", output)[1])
    assert saved <= told <= saved + OFTEN + 1 and saved - OFTEN < struck <= saved + OFTEN, f"{struck}:\n{output}"


OFTEN = 20  # steps from one checkpoint to the next
ENDINGS = [*(computes_nan(rank, "backward") for rank in range(3)), computes_nan(1, "forward"),
           ("full disk, the rank that saves", 0, "disk", PLACES["forward"], check_disk, 3,
            (rf"rank 0 on {HOST} \(pid \d+\): {ENDED}", "checkpoints/.*: No space left on device",
             "the job ends: what a worker tells of itself the others would meet as well"))]


def play_ending(muster, folder, ending):
    name, rank, act, place, check, expected, told = ending
    job = Job(muster, folder, re.sub(r"\W+", "-", name), f"checkpoint.every={OFTEN} steps")
    job.begin(folder)
    job.faults.arm(rank, act, place)
    struck, where = job.faults.struck(rank)
    output = check_ending(job, name, struck, expected)
    at, step = 0, faulty.step_of(where)
    for pattern in told:  # in this order; where the sums were on their way already, it shows in the next step
        pattern = pattern.replace("{where}", re.escape(where)).replace("{step}", f"(?:{step}|{step + 1})")
        found = re.search(pattern, output[at:])
        assert found, f"{name}: no `{pattern}` (in this order) in\n{output}"
        at += found.end()
    if check:
        check(output, step)


def check_ending(job, name, struck, expected):
    """The job's output, once it has ended with one error, in time."""
    code = job.end()
    ended = time.time()
    output = job.output()
    assert code == expected, f"{name}: exit code {code}\n{output}"
    assert len(re.findall(r"^\[ERROR\]", output, re.MULTILINE)) == 1, f"{name}: more than one error\n{output}"
    assert ended - struck < WAIT + BUSY, f"{name}: {ended - struck} s\n{output}"
    print(f"ok  {name}: {ended - struck:.2f} s", flush=True)
    return output


def play_recurring(muster, folder):
    """Where the worker that computes the slices of one that has ended ends in the same way, all would."""
    job = Job(muster, folder, "recurring")
    job.begin(folder)
    step = runs.rows(job.run)[-1]["step"] + 500
    for rank in (0, 2):
        job.faults.arm(rank, "exit", rf"^at step {step}, {PLACES['forward']}")
    struck = max(job.faults.struck(rank)[0] for rank in (0, 2))
    output = check_ending(job, "the same exit again", struck, 1)
    assert len(re.findall(r"exit status 7 at step \d+, .* left, going on", output)) == 1, output
    assert re.search(rf"\[ERROR\] rank [02] on {HOST} \(pid \d+\): exit status 7\n  it was at step {step}, .*\n"
                     "  the job ends: a worker before it ended in the same way at the same step", output), output


def play_unreadable(muster, folder, rank):
    """Data that one worker cannot read: the others, whose host can, go on without it and those that come for it."""
    restarts = 2
    job = Job(muster, folder, f"unreadable-{rank}", f"workers.max_restarts={restarts}",
              MUSTER_UNREADABLE=f"{rank} train-images-idx3-ubyte")
    told = rf"\[WARN\] worker {rank} \(pid \d+ on {HOST}\) reported an error \(.*train-images-idx3-ubyte.*: " \
        "Input/output error.*\\) at step 0; 2 workers are left, going on"
    job.wait_for(told)
    job.begin(folder)
    runs.wait_for(lambda: job.output().count("going on") == 1 + restarts, "those that come for it")
    job.process.send_signal(signal.SIGINT)
    assert job.end() == 130, job.output()
    print(f"ok  unreadable data, worker {rank}", flush=True)


def play_slow_link(muster, folder):
    """Nobody is lost: it is told which way is slow, from whom to whom."""
    job = Job(muster, folder, "slow", "communication.transport=tcp", "stragglers.compare_every=100ms")
    job.begin(folder)
    begin = len(job.lines)
    job.faults.arm(1, "slow", PLACES["backward"])
    struck, _ = job.faults.struck(1)
    place = rf"\(pid \d+ on {HOST}\)"
    told = rf"\[WARN\] worker (\d) {place} hears worker (\d) {place} over a slow link: 64 KiB take"
    found, when, _ = job.wait_for(told, begin)
    assert found.groups() == ("2", "1"), job.output()
    assert when - struck < SLOW, f"{when - struck} s\n{job.output()}"
    job.process.send_signal(signal.SIGINT)
    assert job.end() == 130, job.output()
    print(f"ok  slow link, middle rank: {when - struck:.2f} s", flush=True)


def compare_weights(muster, folder, results):
    """With those of one worker that was left alone."""
    last = max(step for step, _ in results)
    runs.train(muster, runs.write_job(folder, "mlp", steps=last), "--workers", "1", *LENGTH)
    for step, weights in results:
        assert weights == runs.weights(runs.latest(folder), step), f"other weights after step {step}"


def main():
    arguments = runs.arguments("--worker")
    with runs.workplace() as folder, concurrent.futures.ThreadPoolExecutor(3) as pool:
        runs.write_data(folder)
        muster = faulty.install(folder, arguments.muster, arguments.worker)
        scenes = [pool.submit(play_scene, muster, folder, name) for name in SCENES]
        scenes.append(pool.submit(play_changes, muster, folder))
        if runs.allowed(*ON_ELSEWHERE, "true"):
            scenes.append(pool.submit(play_other_host, muster, folder))
        else:
            runs.leave_out("this system does not allow namespaces for a host's name, so that of another host is not seen")
        slow = pool.submit(play_slow_link, muster, folder)
        others = [slow, pool.submit(play_recurring, muster, folder),
                  *(pool.submit(play_unreadable, muster, folder, rank) for rank in (0, 2)),
                  *(pool.submit(play_ending, muster, folder, ending) for ending in ENDINGS)]
        try:
            for done in concurrent.futures.as_completed([*scenes, *others]):
                done.result()
        finally:
            for job in Job.started:
                job.process.kill()  # those that a failure has left running
        compare_weights(arguments.muster, folder, [scene.result() for scene in scenes])


if __name__ == "__main__":
    main()
