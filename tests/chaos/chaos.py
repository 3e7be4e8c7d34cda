"""Training under fire: scenarios drawn from a seed, with real processes. After each: exit 0, the same
weights, evaluations and state of the trainer as undisturbed (in fast mode all of it but the bits), no sample lost
or repeated, every fault named, nothing left behind: no process, shared memory, temporary file or half checkpoint.
What was done is counted (strikes.py): where a job was too fast for it, another one of its kind takes its place.
Seeds that follow each other have one kind after the other, so that as many as there are kinds have them all.

  chaos.py --muster build/dev/bin/muster --count 100            any number of scenarios, then a summary
  chaos.py --muster build/dev/bin/muster --ordered 100          so many that are compared bit for bit, and some more
  chaos.py --muster build/dev/bin/muster --seed 1234 --count 1  one of them again
"""
import argparse
import collections
import concurrent.futures
import contextlib
import functools
import itertools
import json
import math
import os
import pathlib
import queue
import random
import shutil
import subprocess
import sys
import threading
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "elastic"))
import guests
import network
import runs
import strikes

STEPS = {"mlp": 600, "resnet": 80, "gpt": 80}
CROWD, CROWD_STEPS = 4, 300  # from so many workers of an mlp on, which take as long for half as many
LONGER = 3  # times as many steps, so that others can join
EVALUATION = "evaluation.every=100 steps"
SLOW_DISK = "tests/chaos/slow_disk.so"  # where it is built, beside bin/muster

# What happens to a worker, or to the job; all of it ends in a complete training.
KINDS = ("kill", "kill two", "kill in recovery", "kill the first rank", "freeze", "freeze and wake", "hiccup",
         "kill while saving", "kill all but one", "drain", "drain and kill", "storm", "slow", "slow and kill",
         "kill with a standby", "slow disk", "slow disk and kill", "kill in a join", "kill all")
LEFT_OUT = "left out"
# What becomes of a job that has lost one, of all of them in the end.
GOES_ON = r"(?:\d+ (?:other )?workers? (?:is|are) left, going on|0 workers are left, waiting until .*)"
DRAWS = 6  # of a scenario whose job was too fast for what was to happen, with other seeds of its kind
OTHERS = 10**6  # kinds from the seed of one draw to that of the next
# The same with workers of other hosts (guests.py).
GUESTS = ("storm of guests", "wake a guest", "cut links", "cut links and kill")
ALL = KINDS + GUESTS
# Of so many seeds one is in fast mode, whose sums come in any order, so that no two trainings have the same bits: it
# shows that a step is taken again as a whole. Every kind has it at times, since their number has no divisor in common.
ONE_FAST = 10
STAY = ("hiccup", "slow", "slow disk")  # nobody is lost or leaves, so there is nothing that fast mode does differently


class Scenario:
    def __init__(self, seed, draws=1):
        draw = random.Random(seed)
        self.seed, self.draws = seed, draws
        self.model = draw.choices(list(STEPS), weights=(6, 2, 2))[0]
        self.kind = ALL[seed % len(ALL)]
        self.has_guests = self.kind in GUESTS
        self.has_links = "links" in self.kind
        least = 3 if self.kind in strikes.OF_THREE else 2
        weights = (6, 5, 4) + ((2, 1, 1, 1) if self.model == "mlp" else (0,) * 4)
        self.workers = draw.randint(1, 2) if self.has_guests else \
            draw.choices(range(least, 9), weights=weights[least - 2:])[0]
        usual = CROWD_STEPS if self.model == "mlp" and self.workers >= CROWD else STEPS[self.model]
        self.steps = usual * (LONGER if self.has_guests or "join" in self.kind else 1)
        self.transport = "tcp" if self.has_links else draw.choices(("shm", "tcp"), weights=(3, 1))[0]
        self.lanes = draw.choice((1, 1, 2))
        self.mode = "fast" if seed % ONE_FAST == 0 and self.kind not in STAY else "ordered"
        self.compared = False  # bit for bit
        self.backup = draw.random() < 0.3 and self.mode == "ordered"
        self.standbys = 1 if self.kind == "kill with a standby" else 0
        self.step = draw.randint(5, 50) if self.steps > usual or self.kind == "storm" else \
            draw.randint(5, self.steps * 2 // 3)
        self.draw = draw
        self.acts = strikes.Acts()
        self.took = 0.0  # seconds

    def drawn_again(self):
        """Another one of its kind; none after a few."""
        return Scenario(self.seed + OTHERS * len(ALL), self.draws + 1) if self.draws < DRAWS else None

    def __str__(self):
        return (f"seed {self.seed}: {self.kind}, {self.model}, {self.mode}, {self.workers} workers × {self.lanes} "
                f"over {self.transport}{' with backup' if self.backup else ''}, from step {self.step} on")

    def flags(self):
        settings = [f"workers.heartbeat_timeout={strikes.HEARTBEAT:g}s", f"communication.transport={self.transport}",
                    f"training.mode={self.mode}", f"training.lanes={self.lanes}",
                    f"workers.standbys={self.standbys}",
                    "stragglers.compare_every=20ms", EVALUATION,
                    f"stragglers.backup={'true' if self.backup else 'false'}"]
        if self.has_guests:
            settings += ["checkpoint.every=100 steps",
                         f"workers.max_workers={self.workers + guests.MOST}",
                         f"workers.listen={network.HUB if self.has_links else '127.0.0.1'}:0"]
        return ["--workers", str(self.workers)] + runs.settings(*settings)


def left_behind(folder):
    """Processes that still work for a run in `folder`."""
    found = []
    for command in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = command.read_bytes().decode(errors="replace")
            if "muster-worker" in words and f"{folder}/" in words and runs.alive(int(command.parent.name)):
                found.append(words)
    return found


def files_at_the_top(run):
    return {"events" if path.name.startswith("events.out.tfevents.") else path.name for path in run.iterdir()}


def check_files(folder, run, usual):
    """No temporary file, none that an undisturbed run does not have, and whole checkpoints."""
    temporary = [path for path in folder.rglob("*.new")]
    assert not temporary, f"temporary files: {temporary}"
    strange = files_at_the_top(run) - usual - {"debug.json"}  # of a worker that did not answer
    assert not strange, f"files that an undisturbed run does not have: {strange}"
    for saved in run.glob("checkpoints/*"):
        assert (saved / "manifest.json").exists(), f"half a checkpoint: {sorted(saved.iterdir())}"
        manifest = json.loads((saved / "manifest.json").read_text())["manifest"]
        sizes = {file["name"]: file["size"] for file in manifest["files"]}
        found = {path.name: path.stat().st_size for path in saved.iterdir() if path.name != "manifest.json"}
        assert found == sizes, f"{saved}: {found}, its manifest: {sizes}"


def environment(scenario, slow_disk, folder):
    mine = dict(os.environ, TEST_WORKPLACE=str(folder))  # see runs.holders_of_memory
    if "disk" in scenario.kind or "saving" in scenario.kind:
        mine |= {"LD_PRELOAD": str(slow_disk.resolve()), "MUSTER_SLOW_DISK": str(folder)}
    return mine


@contextlib.contextmanager
def places(numbers):
    """Hosts with links of their own, with these numbers."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(network.Place(number))) for number in numbers]


class Stage:
    """Where scenarios are played, some at a time: programs, data, and what each should come to."""

    def __init__(self, arguments, folder, has_networks):
        self.muster, self.slow_disk, self.folder = arguments.muster, arguments.slow_disk, folder
        self.has_networks = has_networks
        self.say = (lambda line: None) if arguments.quiet else functools.partial(print, flush=True)
        self.free = queue.SimpleQueue()  # numbers of hosts, for one scenario each
        for at in range(arguments.at_once):
            self.free.put(range(guests.MOST * at, guests.MOST * (at + 1)))
        self.expected, self.one_at_a_time = {}, threading.Lock()
        runs.write_data(folder)

    def undisturbed(self, model, steps):
        with self.one_at_a_time:
            if (model, steps) not in self.expected:
                runs.undisturbed(self.muster, self.folder, model, steps, *runs.settings(EVALUATION))
                run = runs.latest(self.folder)
                self.expected[model, steps] = results(run, steps), files_at_the_top(run)
            return self.expected[model, steps]

    def play(self, scenario):
        folder = self.folder / str(scenario.seed)
        folder.mkdir()
        job = runs.write_job(self.folder, scenario.model, scenario.steps, runs=folder.name, into=folder)
        surroundings = environment(scenario, self.slow_disk, folder)
        process = runs.start(self.muster, job, *scenario.flags(), env=surroundings)
        scenario.acts = strikes.Acts()
        try:
            run = runs.wait_for_step(process, self.folder, scenario.step, folder.name)
            if scenario.has_guests:
                output = self.play_with_guests(scenario, process, run, folder, surroundings)
            else:
                output = play_alone(scenario, process, run)
        finally:
            process.kill()
        note_slow_saves(scenario, run)
        scenario.acts.check(scenario.kind)
        check_run(self.muster, scenario, run, output)
        expected, usual_files = self.undisturbed(scenario.model, scenario.steps)
        scenario.compared = check_results(results(run, scenario.steps), expected, scenario.mode, output)
        assert not left_behind(folder), left_behind(folder)
        runs.no_memory_stays(folder)
        check_files(folder, run, usual_files)
        shutil.rmtree(folder)

    def play_with_guests(self, scenario, process, run, folder, surroundings):
        party = guests.Party(self.muster, folder, scenario, process, run, surroundings)
        numbers = self.free.get()
        with places(numbers if scenario.has_links else ()) as hosts:
            try:
                if scenario.has_links:
                    guests.cut_links(party, hosts, kills="kill" in scenario.kind)
                elif scenario.kind == "wake a guest":
                    guests.wake_up(party)
                else:
                    guests.storm(party)
                output = end(process)
                party.check_end(output)
            finally:
                party.close()
                self.free.put(numbers)
        return output


def results(run, steps):
    """What a training has come to, by what it is."""
    return {"weights": runs.weights(run, steps), "evaluations": runs.evaluations(run),
            "state of the trainer": runs.trainer_state(run, steps)}


def without_bits(found):
    """What of it does not depend on the order in which numbers are summed."""
    state = found["state of the trainer"]
    return {"weights": sorted(found["weights"]), "evaluations": [step for step, *_ in found["evaluations"]],
            "state of the trainer": {key: state[key] for key in ("step", "cursor", "optimizer_steps")}}


def check_results(found, expected, mode, output):
    """Whether that was bit for bit."""
    if mode == "fast":
        found, expected = without_bits(found), without_bits(expected)
    for what in expected:
        assert found[what] == expected[what], f"other {what}: {found[what]}, {expected[what]}\n{output}"
    return mode == "ordered"


def end(process):
    code, output = runs.finish(process)
    assert code == 0, f"exit code {code}:\n{output}"
    return output


def play_alone(scenario, process, run):
    workers = runs.workers_of(process)
    assert len(workers) == scenario.workers + scenario.standbys, workers
    strike = strikes.Strike(scenario, process, workers, run)
    lost = strike.play()
    output = end(process)
    told = output.count("going on") + output.count("0 workers are left, waiting until")
    assert told == lost, f"{lost} lost, but:\n{output}"
    if lost:  # who only stumbles is not
        strike.check_losses(GOES_ON, output)
    assert scenario.kind != "kill all" or "since nobody is left who holds the state" in output, output
    return output


def note_slow_saves(scenario, run):
    """Those that took as long as a slow disk needs for three files."""
    slow = [row["step"] for row in runs.records(run, "checkpoint") if row["took_s"] > 0.09]
    if "disk" in scenario.kind and slow:
        scenario.acts.did("slow save", f"of {len(slow)} checkpoints")


def check_run(muster, scenario, run, output):
    """Every step was told once, and every sample is in the ledger once."""
    steps = [row["step"] for row in runs.rows(run) if "train/loss" in row]
    told = collections.Counter(steps)
    wrong = {step: told[step] for step in range(1, scenario.steps + 1) if told[step] != 1}
    assert not wrong and steps == sorted(steps), f"told how often: {wrong}\n{output}"
    audit = subprocess.run([muster, "data", "audit", "--json", str(run)], capture_output=True, text=True)
    ledger = json.loads(audit.stdout)
    assert audit.returncode == 0 and ledger["proven"] and ledger["steps"] == scenario.steps, ledger


def outcome(stage, scenario):
    """"ok", "skip", "idle" or what went wrong."""
    if scenario.has_links and not stage.has_networks:
        return "skip"
    began = time.monotonic()
    try:
        stage.play(scenario)
    except strikes.Idle as idle:
        stage.say(f"idle  {scenario}: {idle}")
        return "idle"
    except Exception:  # whatever it is, the others are played
        return f"{scenario.acts}\n{traceback.format_exc()}"
    scenario.took = time.monotonic() - began
    return "ok"


def play_one(stage, scenario):
    """It, or in its place another one of its kind to which what was to happen could be done."""
    result = outcome(stage, scenario)
    while result == "idle" and (again := scenario.drawn_again()):
        scenario = again
        result = outcome(stage, scenario)
    return scenario, result


def play_all(stage, scenarios, at_once):
    """The scenarios that were played, were left out, and failed."""
    played, left_out, failures = [], [], []
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        for future in concurrent.futures.as_completed(pool.submit(play_one, stage, one) for one in scenarios):
            scenario, result = future.result()
            if result == "ok":
                played.append(scenario)
                stage.say(f"ok    {scenario}: {scenario.took:.1f} s; {scenario.acts}")
            elif result == "skip":
                left_out.append(scenario)
                stage.say(f"skip  {scenario}")
            else:
                failures.append(scenario)
                print(f"FAIL  {scenario}\n{result}", flush=True)
    return played, left_out, failures


def arguments_of(parser):
    """With those that all that plays scenarios has."""
    parser.add_argument("--muster", required=True)
    parser.add_argument("--slow-disk", type=pathlib.Path, help="the library that makes a disk slow, slow_disk.so "
                        "(where it was built beside muster)")
    parser.add_argument("--seed", type=int, help="of the first scenario; the others follow it")
    parser.add_argument("--at-once", type=int, default=2, help="how many are played at a time")
    parser.add_argument("--quiet", action="store_true", help="say only what failed, and the summary")
    arguments = parser.parse_args()
    arguments.slow_disk = arguments.slow_disk or \
        pathlib.Path(arguments.muster).parent.parent / SLOW_DISK
    if not arguments.slow_disk.exists():
        parser.error(f"--slow-disk: {arguments.slow_disk} does not exist")
    return arguments


def read_arguments(kinds=ALL, usual=20):
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, help=f"how many scenarios; {usual} where --ordered is not given")
    parser.add_argument("--ordered", type=int, help="play until so many in ordered mode, whose bits are compared, are "
                        "among them")
    parser.add_argument("--kind", choices=kinds, help="of the seeds, those of this kind only")
    arguments = arguments_of(parser)
    if arguments.count is None and arguments.ordered is None:
        arguments.count = usual
    return arguments


def first_seed(arguments):
    return random.SystemRandom().randrange(1 << 31) if arguments.seed is None else arguments.seed


def scenarios_of(arguments, first, kind_of_scenario=Scenario):
    """As many as are wanted, one kind after the other."""
    drawn = (one for one in map(kind_of_scenario, itertools.count(first)) if arguments.kind in (None, one.kind))
    if arguments.ordered is None:
        return list(itertools.islice(drawn, arguments.count))
    scenarios = []
    while sum(one.mode == "ordered" for one in scenarios) < arguments.ordered:
        scenarios.append(next(drawn))
    return scenarios


def summary(scenarios, played, left_out):
    kinds = collections.Counter(one.kind for one in played)
    compared = sum(one.compared for one in played)
    return (f"{len(played)} of {len(scenarios)} scenarios passed, {compared} of them bit for bit" +
            (f", {len(left_out)} were {LEFT_OUT}" if left_out else "") + ": " +
            ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items())))


def compares_enough(played, most):
    """Whether the bits of all but so many were compared."""
    others = [one for one in played if not one.compared]
    print(f"no bits were compared of {len(others)} scenarios, at most {most} may be so")
    for scenario in others if len(others) > most else []:
        print(f"not compared: {scenario}")
    return len(others) <= most


def compares_as_told(scenarios, played, left_out):
    """Whether of all that could be played here, those in ordered mode were compared bit for bit."""
    wanted = sum(one.mode == "ordered" for one in scenarios) - sum(one.mode == "ordered" for one in left_out)
    compared = sum(one.compared for one in played)
    if compared < wanted:
        print(f"the bits of {compared} scenarios were compared, not of {wanted}")
    return compared >= wanted


def leave_out(left_out):
    if left_out:
        runs.leave_out(f"{len(left_out)} scenarios, for this system does not allow network namespaces, in which links "
                       "are cut")


def main():
    arguments = read_arguments()
    has_networks = network.enter()
    scenarios = scenarios_of(arguments, first_seed(arguments))
    with runs.workplace() as folder:
        stage = Stage(arguments, folder, has_networks)
        played, left_out, failures = play_all(stage, scenarios, arguments.at_once)
    print(summary(scenarios, played, left_out))
    for scenario in failures:
        print(f"again with --seed {scenario.seed} --count 1: {scenario}")
    enough = [compares_enough(played, math.ceil(len(scenarios) / ONE_FAST)), compares_as_told(scenarios, played, left_out)]
    leave_out(left_out)
    return 1 if failures or not all(enough) else 0


if __name__ == "__main__":
    sys.exit(main())
