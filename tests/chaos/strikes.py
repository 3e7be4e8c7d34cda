"""What happens to the workers of one job: kills, stops, drains, slowness, and when."""
import contextlib
import pathlib
import random
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "elastic"))
import losses
import runs

HEARTBEAT = 2.0  # seconds until a silent worker counts as dead
ROOM = 0.8  # of the steps: nothing is done to a job that has gone so far, for it may end

# What has to have been done for a scenario of that kind to count: so many of each act at least.
ENOUGH = {
    "kill two": {"SIGKILL": 2},
    "kill in recovery": {"SIGKILL": 2},
    "freeze": {"SIGSTOP": 1},
    "freeze and wake": {"SIGSTOP": 1},
    "hiccup": {"SIGSTOP": 1, "SIGCONT": 1},
    "drain": {"SIGTERM": 1},
    "drain and kill": {"SIGTERM": 1, "SIGKILL": 1},
    "storm": {"SIGKILL": 2},
    "slow": {"slowed": 1},
    "slow and kill": {"slowed": 1, "SIGKILL": 1},
    "slow disk": {"slow save": 1},
    "slow disk and kill": {"slow save": 1, "SIGKILL": 1},
    "kill in a join": {"SIGKILL": 2},
    "kill all": {"SIGKILL": 2},
    "storm of guests": {"let in": 1, "told to leave, or killed": 1},
    "wake a guest": {"let in": 1, "SIGSTOP": 1, "SIGCONT": 1},
    "cut links": {"cut": 1},
    "cut links and kill": {"cut": 1, "SIGKILL": 1},
}
# Those in which one more worker than is struck has to be left.
OF_THREE = ("kill two", "kill in recovery", "drain and kill", "slow and kill")


class Idle(Exception):
    """The job was too fast for what was to happen to it."""


class Acts:
    """What was really done, and when."""

    def __init__(self):
        self.began = time.monotonic()
        self.done = []  # the act, to whom, after how many seconds

    def did(self, act, whom=""):
        self.done.append((act, whom, time.monotonic() - self.began))

    def signal(self, pid, number, whom):
        runs.kill(pid, number)
        self.did(signal.Signals(number).name, whom)

    def were(self, act):
        """How often it was done."""
        return sum(one == act for one, *_ in self.done)

    def check(self, kind):
        for act, least in ENOUGH.get(kind, {"SIGKILL": 1}).items():
            done = self.were(act)
            if done < least:
                raise Idle(f"{act}: {done} times instead of {least}; {self}")

    def __str__(self):
        return "done: " + (", ".join(f"{act} {whom} at {when:.3f} s".replace("  ", " ")
                                     for act, whom, when in self.done) or "nothing")


class Strike:
    """What happens to one job. Its draws do not depend on how fast the job is, so that a seed replays."""

    def __init__(self, scenario, process, workers, run):
        self.scenario, self.process, self.workers, self.run = scenario, process, workers, run
        self.acts, self.draw = scenario.acts, scenario.draw
        self.struck = []  # workers, processes, by which signal, and the step that was told by then

    def has_room(self):
        return self.process.poll() is None and runs.rows(self.run)[-1]["step"] < ROOM * self.scenario.steps

    def line_of(self, worker, pid):
        return losses.line_of((row["text"] for row in runs.records(self.run, "notice")), worker, pid)

    def check_losses(self, became, output):
        """Each of those who were struck by what they do not outlive is told of in one line, with its host, what
        happened to it and where. The first of them was in the middle of its training. `became`: what becomes of the
        job without it, a pattern in which {} stands for the worker."""
        lost = [one for one in self.struck if one[2] in losses.BY]
        for at, (worker, pid, by, told) in enumerate(lost):
            line = self.line_of(worker, pid)
            assert line, f"nothing is told of worker {worker} (pid {pid}):\n{output}"
            where = losses.ANYWHERE if at else losses.TRAINS
            step = losses.check(line, worker, pid, losses.BY[by], where, became.replace("{}", str(worker)), output)
            # No step was told that was not its own as well.
            assert at or told <= step, f"step {told} was told before it was struck: {line}\n{output}"

    def signal(self, victims, number=signal.SIGKILL, pause=lambda: 0):
        """How many that were."""
        for victim in victims:
            self.struck.append((victim, self.workers[victim], number.name, runs.last_step(self.run)))
            self.acts.signal(self.workers[victim], number, f"worker {victim}")
            time.sleep(pause())
        return len(victims)

    def freeze_and_wake(self, victim):
        """Until it is given up; on the launcher's host it is killed then, so that nothing is there to wake up."""
        pid = self.workers[victim]
        lost = self.signal([victim], signal.SIGSTOP)
        runs.wait_for(lambda: self.process.poll() is not None or self.line_of(victim, pid), f"the loss of worker {victim}")
        with contextlib.suppress(ProcessLookupError):
            self.acts.signal(pid, signal.SIGCONT, f"worker {victim}")
        runs.wait_for(lambda: not runs.alive(pid), f"the end of worker {victim}, which was given up,")
        return lost

    def slow(self, victim):
        """Lets it run for a tenth of the time, for a while."""
        draw = random.Random(self.scenario.seed)
        end = time.monotonic() + 0.5 + draw.random()
        self.acts.did("slowed", f"worker {victim}")
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < end:
                runs.kill(self.workers[victim], signal.SIGSTOP)
                time.sleep(0.045)
                runs.kill(self.workers[victim], signal.SIGCONT)
                time.sleep(0.005)

    def slow_and_kill(self, slowed, victim):
        pause = self.draw.random() * 0.2
        slowing = threading.Thread(target=self.slow, args=(slowed,))
        slowing.start()
        time.sleep(pause)
        lost = self.signal([victim])
        slowing.join()
        return lost

    def kill_while_saving(self):
        """The first rank, which saves, while what it writes is not published."""
        def half_saved():
            newest = max(self.run.glob("checkpoints/step-*"), default=None)
            return self.process.poll() is not None or \
                (newest and not (newest / "manifest.json").exists() and newest)

        saving = runs.wait_for(half_saved, "a save under way")
        if saving is True:
            raise Idle("the job ended without another save")
        lost = self.signal([0])
        if (saving / "manifest.json").exists():
            raise Idle(f"{saving.name} was published before the kill")
        return lost

    def kill_in_join(self, ranks):
        """One dies; when the one that is started for it has just joined, it or another one dies, while it gets the
        state or soon after; of two that is at times the only one who has it."""
        first, second, pause = ranks[0], self.draw.choice((ranks[0], ranks[-1])), self.draw.random() * 0.02
        lost = self.signal([first])
        before, size = self.workers[first], len(self.workers)

        def has_joined():
            if self.process.poll() is not None:
                return True
            logs = (path.read_text(errors="replace") for path in self.run.glob("logs/rank-*.log"))
            return any(f"of {size} in generation 3: pid" in text for text in logs)

        runs.wait_for(has_joined, "the new one")
        time.sleep(pause)
        self.workers = runs.workers_of(self.process)
        if self.workers.get(second) in (None, before) or not self.has_room():
            return lost
        return lost + self.signal([second])

    def storm(self, spared):
        """Whoever is there may be hit, those who have just come as well; but for one, who keeps the state.
        A process that still ends is not hit twice."""
        hit = set()
        for _ in range(4):
            number, pause = self.draw.random(), self.draw.random() * 0.6
            self.workers = runs.workers_of(self.process)
            others = sorted(rank for rank in self.workers if rank != spared and self.workers[rank] not in hit)
            if others and self.has_room():
                victim = others[int(number * len(others))]
                self.signal([victim])
                hit.add(self.workers[victim])
            time.sleep(pause)
        return len(hit)

    def play(self):
        """Does it; how many workers are lost by it."""
        ranks = list(self.workers)
        self.draw.shuffle(ranks)
        most = ranks[:-1]
        match self.scenario.kind:
            case "kill the first rank":
                return self.signal([0])
            case "hiccup":
                self.signal(ranks[:1], signal.SIGSTOP, lambda: HEARTBEAT / 4)
                self.signal(ranks[:1], signal.SIGCONT)
                return 0
            case "freeze":
                return self.signal(ranks[:1], signal.SIGSTOP)
            case "freeze and wake":
                return self.freeze_and_wake(ranks[0])
            case "kill two":
                return self.signal(most[:2])
            case "kill in recovery":
                return self.signal(most[:3], pause=lambda: self.draw.random() * 0.006)
            case "kill all but one":
                return self.signal(most)
            case "kill all":
                return self.signal(ranks, pause=lambda: self.draw.random() * 0.006)
            case "kill while saving":
                return self.kill_while_saving()
            case "drain":
                self.signal(most[:2], signal.SIGTERM, lambda: self.draw.random() * 0.01)
                return 0
            case "drain and kill":
                self.signal(ranks[:1], signal.SIGTERM, lambda: self.draw.random() * 0.004)
                return self.signal(ranks[1:2])
            case "slow disk":
                return 0
            case "slow":
                self.slow(ranks[0])
                return 0
            case "slow and kill":
                return self.slow_and_kill(*ranks[:2])
            case "storm":
                return self.storm(ranks[0])
            case "kill in a join":
                return self.kill_in_join(ranks)
            case _:
                return self.signal(ranks[:1])
