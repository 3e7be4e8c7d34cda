"""Workers die that each hold a part of the state, or of the work, which nobody else has: under every strategy but data,
at every place of the training, with and without a copy in a neighbour's memory. Scenarios drawn from a seed, with real processes. A new worker comes in the place of
each that died, nobody else is started again, and after each scenario there is all that chaos.py asks for: exit 0, the
same weights, evaluations and state of the trainer as undisturbed, no sample lost or repeated, every step told once,
nothing left behind. Besides, the log says where the state came from, and the ledger what was taken again. Others only
stumble, are slow, have a slow disk, or do not hear each other for a moment: nobody is lost of these.

  parts.py --muster build/dev/bin/muster --count 312            each strategy with each kind, with copies and without
  parts.py --muster build/dev/bin/muster --ordered 22           so many that are compared bit for bit, and some more
  parts.py --muster build/dev/bin/muster --seed 1234 --count 1  one of them again
"""
import collections
import json
import math
import pathlib
import random
import re
import shutil
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import chaos
import network
import runs
import strikes

ONE_FAST = 5  # of so many scenarios that shard, which alone have a fast mode of their own here, one is in fast mode
STEPS = {"mlp": 240, "gpt": 80, "moe": 50}
EVALUATION = "evaluation.every=25 steps"
MOE = ("model.type=moe", "model.body=gpt", "model.num_experts=4")


class Way:
    """How the model is spread: over so many workers; whether one alone holds a part of it."""

    def __init__(self, name, model, workers, alone, *settings):
        self.name, self.model, self.workers, self.alone = name, model, workers, alone
        self.base = "gpt" if model == "moe" else model
        self.settings = (*(MOE if model == "moe" else ()), f"strategy.type={name.split()[0]}", *settings)


WAYS = (Way("sharded", "mlp", 3, True), Way("sharded 2", "mlp", 4, True, "strategy.zero_stage=2"),
        Way("sharded 3", "mlp", 3, True, "strategy.zero_stage=3"), Way("pipeline", "gpt", 3, True),
        Way("pipeline twice", "gpt", 4, False, "strategy.stages=2"), Way("tensor", "gpt", 2, True),
        Way("tensor twice", "gpt", 4, False, "strategy.tensor=2"),
        Way("context", "gpt", 2, False, "strategy.attention=ring"), Way("expert", "moe", 2, True),
        Way("hybrid of shards twice", "mlp", 4, False, "strategy.mesh.replicate=2", "strategy.mesh.shard=2"),
        Way("hybrid of stages and experts", "moe", 4, True, "strategy.mesh.pipeline=2", "strategy.mesh.expert=2"),
        Way("hybrid of shards and tensors", "gpt", 4, True, "strategy.mesh.shard=2", "strategy.mesh.tensor=2"))

SHARDS = [way for way in WAYS if way.name.startswith("sharded")]
CUT_SHARDS = WAYS[-1]  # at each stage of ZeRO in turn, which has the same bits

# With as many kinds as ways have no divisor in common with, seeds that follow each other have all pairs.
KINDS = ("kill", "kill the first rank", "kill some", "kill in recovery", "kill while saving", "kill before a checkpoint",
         "freeze", "kill again", "hiccup", "slow", "slow disk", "cut links", "kill with a standby")
ALL_LIVE = ("hiccup", "slow", "slow disk", "cut links")
ONE_DIES = ("kill", "kill the first rank", "kill while saving", "kill before a checkpoint", "freeze")
NO_CHECKPOINT = "kill before a checkpoint"
SAVED_BY = 40  # steps: twice as many as from one checkpoint to the next


class Scenario:
    def __init__(self, seed, draws=1):
        draw = random.Random(seed)
        self.seed, self.draws, self.draw = seed, draws, draw
        self.way = WAYS[seed % len(WAYS)]
        self.kind = KINDS[seed % len(KINDS)]
        self.steps = STEPS[self.way.model]
        self.has_links = "links" in self.kind
        self.standbys = 1 if self.kind == "kill with a standby" else 0
        self.redundancy = int(not self.way.name.startswith("context") and seed // len(WAYS) % 2)
        transport = draw.choices(("shm", "tcp"), weights=(3, 1))[0]
        self.transport = "tcp" if self.has_links else transport
        self.mode = "fast" if self.way in SHARDS and seed // len(WAYS) % ONE_FAST == 0 else "ordered"
        self.zero_stage = 1 + seed // len(WAYS) % 3 if self.way is CUT_SHARDS else 1
        self.compared = False  # bit for bit
        self.step = draw.randint(2, self.steps * 2 // 3)
        # Once it is played: as it was when the first one died.
        self.has_checkpoint = self.step > SAVED_BY and self.kind != NO_CHECKPOINT
        self.acts = strikes.Acts()
        self.sources = []  # where states came from
        self.needs_copy = False  # nobody else had what the one that died held
        self.took = 0.0  # seconds

    def source_due(self):
        """Where the state has to come from in the end; None: that depends on the moment, or nobody is lost."""
        one_dies = self.kind in ONE_DIES
        if not self.way.alone:
            return "a replica" if one_dies and not self.redundancy else None
        if self.redundancy:
            return "a neighbour's copy" if one_dies else None
        if self.kind == NO_CHECKPOINT:
            return "the beginning"
        return "the last checkpoint" if self.has_checkpoint and self.kind not in ALL_LIVE else None

    def drawn_again(self):
        """Another one of its kind and way; none after a few."""
        further = chaos.OTHERS * len(KINDS) * len(WAYS)
        return Scenario(self.seed + further, self.draws + 1) if self.draws < chaos.DRAWS else None

    def __str__(self):
        stage = f" at stage {self.zero_stage}" if self.zero_stage > 1 else ""
        return (f"seed {self.seed}: {self.kind}, {self.way.name}{stage} of {self.way.model}"
                f"{' with redundancy' if self.redundancy else ''}, {self.mode}, {self.way.workers} workers over "
                f"{self.transport}, from step {self.step} on")

    def flags(self):
        every = {"kill while saving": "8 steps", NO_CHECKPOINT: "never"}.get(self.kind, "20 steps")
        settings = [*self.way.settings, f"workers.heartbeat_timeout={strikes.HEARTBEAT:g}s", "workers.max_restarts=20",
                    f"workers.standbys={self.standbys}",
                    f"communication.transport={self.transport}", f"training.mode={self.mode}",
                    *(["strategy.redundancy=1"] if self.redundancy else []),
                    *([f"strategy.zero_stage={self.zero_stage}"] if self.zero_stage > 1 else []),
                    "stragglers.compare_every=20ms", EVALUATION, f"checkpoint.every={every}"]
        if self.kind == NO_CHECKPOINT:
            settings.append("evaluation.keep_best=false")
        return ["--workers", str(self.way.workers)] + runs.settings(*settings)


# Where a state may come from, and what is said of it.
SOURCES = {"the last checkpoint": r"all go back to step \d+, the last checkpoint", "the beginning": "all begin anew",
           "a replica": r"got its state from worker \d", "a neighbour's copy": r"the copy that worker \d has kept"}


def said(run, text):
    return [row["text"] for row in runs.records(run, "notice") if text in row["text"]]


class Strike(strikes.Strike):
    def __init__(self, scenario, process, workers, run, place):
        super().__init__(scenario, process, workers, run)
        self.place = place  # where they are, if their links are to be cut

    def cut(self):
        """For a moment no rank hears another, nor the launcher: shorter than anybody may be silent."""
        self.acts.did("cut", "all links")
        self.place.cut_inside()
        time.sleep((0.1 + 0.15 * self.draw.random()) * strikes.HEARTBEAT)
        self.place.heal_inside()
        return 0

    def kill_another(self, first, pause):
        """Soon after, any of those who are there now, of whom some are new. Of two it is the new one, for somebody has
        to be left who knows the training."""
        time.sleep(pause)
        victim = self.draw.choice(sorted(self.workers)) if len(self.workers) > 2 else first
        before, self.workers = self.workers[first], runs.workers_of(self.process)
        if self.workers.get(victim) in (None, before) or not self.has_room():
            return 0
        return self.signal([victim])

    def kill_again(self, first):
        lost = self.signal([first])
        runs.wait_for(lambda: said(self.run, "stands after") or self.process.poll() is not None, "the next generation")
        return lost + self.kill_another(first, self.draw.random() * 0.05)

    def play(self):
        """Does it; how many workers are lost by it."""
        ranks = list(self.workers)
        self.draw.shuffle(ranks)
        time.sleep(self.draw.random() * 0.03)  # anywhere in a step
        if not self.has_room():
            raise strikes.Idle("the job was nearly over before anything was done to it")
        match self.scenario.kind:
            case "kill the first rank":
                return self.signal([0])
            case "kill some":
                return self.signal(ranks[:-1][:2], pause=lambda: self.draw.random() * 0.005)
            case "kill in recovery":
                return self.signal(ranks[:1]) + self.kill_another(ranks[0], self.draw.random() * 0.5)
            case "kill again":
                return self.kill_again(ranks[0])
            case "kill while saving":
                return self.kill_while_saving()
            case "freeze":
                return self.signal(ranks[:1], signal.SIGSTOP)
            case "cut links":
                return self.cut()
            case "hiccup" | "slow" | "slow disk":
                return super().play()
            case _:
                return self.signal([rank for rank in ranks if rank < self.scenario.way.workers][:1])


WAITS = r"\d+ workers? (?:is|are) left, waiting until \d+ more (?:has|have) joined \(workers\.min_workers\); " \
    r"missing: workers? (?:\d+, )*{}(?:, \d+)*"


STANDS_IN = r"\d+ workers are left, going on"


def check_losses(scenario, strike, lost, output):
    """One line for each, and one new process."""
    waits = "(workers.min_workers); missing"
    for what, count in (("is started anew", lost), (waits, 0 if scenario.standbys else lost)):
        assert output.count(what) == count, f"{lost} lost, {output.count(what)} × {what}:\n{output}"
    if lost:
        strike.check_losses(STANDS_IN if scenario.standbys else WAITS, output)


def check_story(scenario, strike, lost, run, output):
    """What is told of each loss, and one line that says how all went on."""
    check_losses(scenario, strike, lost, output)
    if scenario.kind in ALL_LIVE:
        assert lost == 0 and not said(run, "stands after") and "going on" not in output, output
        return
    told = said(run, "stands after")
    assert told, output
    back = [line for line in told if "since nobody" in line]
    for line in told:
        how = r"all (go back to step \d+, the last checkpoint|begin anew)" if line in back else \
            r"it goes on after step \d+(; worker \d got its state from worker \d)*$" if not scenario.redundancy else \
            r"it goes on after step \d+(; worker \d got its state from (worker \d|the copy that worker \d has kept))*$"
        assert re.search(how, line), line
    if scenario.way.alone and not scenario.redundancy:
        assert back, told
    scenario.needs_copy = bool(scenario.way.alone and scenario.redundancy and lost == 1)
    scenario.sources = [source for source, how in SOURCES.items() for line in told if re.search(how, line)]
    if scenario.source_due() == "the last checkpoint":
        assert "the last checkpoint" in scenario.sources, told
    if scenario.kind == NO_CHECKPOINT:
        assert all("all begin anew" in line for line in back), back
    ledger = [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]
    assert sum("back_to" in line for line in ledger) >= len(back), f"{back}, and in the ledger nothing of it"


class Stage(chaos.Stage):
    def undisturbed(self, way):
        with self.one_at_a_time:
            if way.name not in self.expected:
                job = runs.write_job(self.folder, way.base, STEPS[way.model])
                flags = runs.settings(*way.settings, EVALUATION)
                runs.train(self.muster, job, "--workers", str(way.workers), *flags)
                run = runs.latest(self.folder)
                self.expected[way.name] = chaos.results(run, STEPS[way.model]), chaos.files_at_the_top(run)
            return self.expected[way.name]

    def play(self, scenario):
        folder = self.folder / str(scenario.seed)
        folder.mkdir()
        numbers = self.free.get()
        try:
            with chaos.places(numbers[:1] if scenario.has_links else ()) as hosts:
                lost, strike, run, output = self.strike(scenario, folder, *hosts)
        finally:
            self.free.put(numbers)
        chaos.note_slow_saves(scenario, run)
        scenario.acts.check(scenario.kind)
        check_story(scenario, strike, lost, run, output)
        chaos.check_run(self.muster, scenario, run, output)
        expected, usual_files = self.undisturbed(scenario.way)
        scenario.compared = chaos.check_results(chaos.results(run, scenario.steps), expected, scenario.mode, output)
        assert not chaos.left_behind(folder), chaos.left_behind(folder)
        runs.no_memory_stays(folder)
        chaos.check_files(folder, run, usual_files)
        shutil.rmtree(folder)

    def strike(self, scenario, folder, place=None):
        job = runs.write_job(self.folder, scenario.way.base, scenario.steps, runs=folder.name, into=folder)
        process = runs.start(self.muster, job, *scenario.flags(), before=place.inside if place else (),
                             env=chaos.environment(scenario, self.slow_disk, folder))
        scenario.acts = strikes.Acts()
        try:
            run = runs.wait_for_step(process, self.folder, scenario.step, folder.name)
            workers = runs.workers_of(process)
            count = scenario.way.workers + scenario.standbys
            assert len(workers) == count or process.poll() is not None, workers
            scenario.has_checkpoint = any(run.glob("checkpoints/*/manifest.json"))
            strike = Strike(scenario, process, workers, run, place)
            return strike.play(), strike, run, chaos.end(process)
        finally:
            process.kill()


# Where a state has to come from in the end so many scenarios have to show it, so that one can be missed by chance.
AT_LEAST = {source: 3 if "copy" in source else 1 for source in SOURCES}
ENOUGH = 2 * len(WAYS)  # scenarios, among which there may be so many of each


def those_due(scenarios, source):
    return [one for one in scenarios if one.source_due() == source]


def draw(arguments):
    """Scenarios among which each source of a state is due, where nobody asks for others."""
    while True:
        scenarios = chaos.scenarios_of(arguments, chaos.first_seed(arguments), Scenario)
        is_free = arguments.seed is None and arguments.kind is None and len(scenarios) >= ENOUGH
        if not is_free or all(len(those_due(scenarios, source)) >= least for source, least in AT_LEAST.items()):
            return scenarios


def main():
    arguments = chaos.read_arguments(KINDS, 2 * len(KINDS) * len(WAYS))
    has_networks = network.enter()
    scenarios = draw(arguments)
    with runs.workplace() as folder:
        played, left_out, failures = chaos.play_all(Stage(arguments, folder, has_networks), scenarios, arguments.at_once)
    print(chaos.summary(scenarios, played, left_out))
    for scenario in failures:
        print(f"again with --seed {scenario.seed} --count 1: {scenario}")
    may_be_fast = len(SHARDS) * math.ceil(len(scenarios) / (len(WAYS) * ONE_FAST))
    enough = [chaos.compares_enough(played, may_be_fast), chaos.compares_as_told(scenarios, played, left_out),
              has_all_sources(played), has_used_copies(played)]
    chaos.leave_out(left_out)
    return 1 if failures or not all(enough) else 0


def has_all_sources(played):
    """Where a state has to come from a place in the end, it came from there in one scenario at least."""
    sources = collections.Counter(source for one in played for source in one.sources)
    print("states came from: " + ", ".join(f"{source} {sources[source]} ×" for source in SOURCES))
    missing = []
    for source, least in AT_LEAST.items():
        due = those_due(played, source)
        if len(due) >= least and not any(source in one.sources for one in due):
            missing.append(source)
            print(f"no state came from {source}, as it should in {len(due)} scenarios: {', '.join(map(str, due))}")
    return not missing


def has_used_copies(played):
    """A death in the moments between two copies sends all back. They are moments, so among deaths at any time they are
    the exception. That a copy which is whole is used in any case is shown by elastic.copies."""
    needed = [one for one in played if one.needs_copy]
    without = [one for one in needed if "a neighbour's copy" not in one.sources]
    print(f"a neighbour's copy was used by {len(needed) - len(without)} of {len(needed)} scenarios that had nothing else")
    if len(needed) < 4 or len(without) * 2 <= len(needed):
        return True
    for scenario in without:
        print(f"without the copy: {scenario}")
    return False


if __name__ == "__main__":
    sys.exit(main())
