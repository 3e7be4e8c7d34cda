"""What happens to a job with workers of other hosts (`muster worker --join`): they come and go in storms, sleep and
wake up when the others have gone on, or, each in a network namespace of its own, lose their links for a while."""
import contextlib
import json
import pathlib
import re
import signal
import sys
import time
import types

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "elastic"))
import runs
from join import Host
from network import HUB, Place

MOST = 3  # guests at a time
JOINS = "worker % of .* joins"
AWOKEN = {1}  # how one ends that is no part of the job any more
ROOM = 0.7  # of the steps: nothing is done to a job that has gone so far, for it may end


def committed_in(run):
    """The generations in which steps were committed."""
    rows = map(json.loads, (run / "ledger.jsonl").read_text().splitlines())
    return {row["generation"] for row in rows if "steps" in row}


def generations_of(text):
    """Those of which a worker says that it is in them."""
    return {int(number) for number in re.findall(r"rank \d+ of \d+ in generation (\d+): pid ", text)}


def goes_on_after(generation, output, committed):
    """Whether a worker that has written `output` took part in a step of a later one than the next after `generation`.
    The next one may have been made up before the link was whole. To be in a later one a worker hears of it and reaches
    all others, and no step is committed without its part."""
    return any(later > generation + 1 for later in generations_of(output) & committed)


class Guest(Host):
    """A worker of another host: `muster worker` and the process that it starts."""

    def __init__(self, party, place):
        self.party, self.place = party, place
        self.name = f"guest {len(party.guests)}"
        self.before = len(runs.records(party.run, "notice"))
        self.told = False  # to leave, or struck
        self.may_end_with = {0}
        self.is_cut = False  # a link of it was: the others may go on without it
        self.whole_since = None  # the generation that was told of when the link was whole again
        super().__init__(party.muster, party.folder, party.run / "join.key",
                         before=place.inside if place else (), flags=("--lanes", "1"), env=party.environment)

    def here(self):
        return self.process.poll() is None

    def said(self, pattern):
        """Whether the launcher has said so of this worker, whose number stands for %, since it let it in: what it
        said of an earlier one of that number may come late."""
        number = re.search(r"worker (\d+) of the job", self.output())
        if not number:
            return False
        texts = [row["text"] for row in runs.records(self.party.run, "notice")[self.before:]]
        came = [at for at, text in enumerate(texts) if re.match(rf"worker {number[1]} of .* joins", text)]
        said = re.compile(pattern.replace("%", number[1]))
        return bool(came) and any(said.match(text) for text in texts[came[0]:])

    def trains(self):
        """Whether it has got the state: from then on the others miss it."""
        return self.said(r"workers? ([0-9, ]*\b)?%\b[0-9, ]* got the state")

    def is_missed(self):
        return self.said(r"worker %\b.* left, going on")

    def cut(self):
        self.is_cut, self.whole_since = True, None

    def heal(self, generation):
        self.whole_since = generation

    def may_be_missed(self):
        """Whether a link of it was cut, and it has not been seen to go on since."""
        return self.is_cut and not (self.whole_since and
                                    goes_on_after(self.whole_since, self.output(), committed_in(self.party.run)))

    def leave(self):
        self.told = True
        self.party.acts.did("told to leave, or killed", self.name)
        if not self.trains():  # `muster worker` itself may die of it
            self.may_end_with.add(-signal.SIGTERM)
        self.process.send_signal(signal.SIGTERM)

    def kill(self, host):
        """Its worker, or `muster worker` with it; not whom nobody would miss yet."""
        workers = list(runs.workers_of(self.process).values())
        if not workers:
            return
        self.told = True
        self.party.may_be_lost += 1
        self.party.are_lost += self.trains()
        self.may_end_with = {-signal.SIGKILL if host else 128 + signal.SIGKILL}
        self.party.acts.did("told to leave, or killed", self.name)
        with contextlib.suppress(ProcessLookupError):
            self.party.acts.signal(self.process.pid if host else workers[0], signal.SIGKILL, self.name)

    def sleep(self, host):
        """Its worker does, or `muster worker` with it: who is to be woken up."""
        sleepers = [*runs.workers_of(self.process).values(), *([self.process.pid] if host else [])]
        self.told = True
        self.may_end_with = AWOKEN
        for pid in sleepers:
            self.party.acts.signal(pid, signal.SIGSTOP, self.name)
        return sleepers

    def wake(self, sleepers):
        for pid in sleepers:
            with contextlib.suppress(ProcessLookupError):
                self.party.acts.signal(pid, signal.SIGCONT, self.name)

    def check_end(self):
        code = self.wait()
        full = code == 2 and "(workers.max_workers) are taken" in self.output()
        cut_off = self.is_missed() and self.may_be_missed()
        if self.said(JOINS):
            self.party.acts.did("let in", self.name)
        # Nobody to whom nothing was done is excused: elastic.load shows that a busy machine is no reason to be given up.
        assert full or code in self.may_end_with or cut_off, f"{self.name} ended with {code}:\n{self.output()}"
        return cut_off and not self.told


class Party:
    """The guests of one job, and how many of its workers are lost to what was done."""

    def __init__(self, muster, folder, scenario, process, run, environment):
        self.muster, self.folder, self.process, self.run = muster, folder, process, run
        self.environment = environment
        self.acts, self.draw, self.last = scenario.acts, scenario.draw, scenario.steps
        self.guests = []
        self.are_lost = self.may_be_lost = 0

    def join(self, place=None):
        self.guests.append(Guest(self, place))
        return self.guests[-1]

    def has_room(self):
        return self.process.poll() is None and runs.rows(self.run)[-1]["step"] < ROOM * self.last

    def generation(self):
        """The newest that anybody who trains has told of."""
        texts = [path.read_text(errors="replace") for path in self.run.glob("logs/rank-*.log")]
        texts += [guest.output() for guest in self.guests]
        return max(set().union(*map(generations_of, texts)), default=1)

    def wait_for(self, what, name):
        runs.wait_for(lambda: what() or self.process.poll() is not None, name)

    def pick(self, number):
        """One that has not been told to leave, by a number drawn from [0, 1)."""
        here = [guest for guest in self.guests if guest.here() and not guest.told]
        return here[int(number * len(here))] if here else None

    def kill_own(self, spared, number):
        """One of the launcher's workers; the launcher starts another one."""
        workers = runs.workers_of(self.process)
        others = [rank for rank in sorted(workers) if rank != spared]
        if others:
            victim = others[int(number * len(others))]
            self.acts.signal(workers[victim], signal.SIGKILL, f"worker {victim}")
            self.are_lost += 1
            self.may_be_lost += 1
        return bool(others)

    def close(self):
        for guest in self.guests:  # those that a failure has left running
            guest.process.kill()

    def check_end(self, output):
        """After the job: all guests have ended as they should, and whoever was lost was told of once."""
        missed = sum(guest.check_end() for guest in self.guests)
        least, most, told = self.are_lost + missed, self.may_be_lost + missed, output.count("going on")
        assert least <= told <= most, f"{least} to {most} lost, but:\n{output}"
        assert not (self.run / "join.key").exists(), "the key outlived the job"


def storm(party):
    """Guests come, leave and die, several at once, some of them before they have joined; one of the
    launcher's workers is spared, another one may die, once."""
    draw = party.draw
    spared = draw.choice(sorted(runs.workers_of(party.process)))
    own_died = False
    acts = ["join"] * draw.randint(1, MOST)
    acts += draw.choices(("join", "leave", "all leave", "kill", "kill the host", "kill one of the launcher's"),
                         weights=(6, 2, 1, 3, 2, 1), k=draw.randint(3, 6))
    for at, act in enumerate(acts):
        number, pause = draw.random(), draw.random()
        if not party.has_room():
            return
        guest = party.pick(number)
        match act:
            case "join":
                party.join()
            case "all leave":
                for one in [one for one in party.guests if one.here() and not one.told]:
                    one.leave()
            case "kill one of the launcher's":
                own_died = own_died or party.kill_own(spared, number)
            case "leave" if guest:
                guest.leave()
            case _ if guest:
                guest.kill(act == "kill the host")
        if at >= MOST:
            time.sleep(pause * 0.5)
    one_comes_and_goes(party)


def one_comes_and_goes(party):
    """Where the storm was over before anybody was let in, or nobody had to go."""
    def somebody_came():
        return any(guest.said(JOINS) for guest in party.guests)

    def anybody_is_here():
        return any(guest.here() for guest in party.guests)

    party.wait_for(lambda: somebody_came() or not anybody_is_here(), "a guest")
    if not somebody_came() and party.has_room():
        party.join()
        party.wait_for(lambda: somebody_came() or not anybody_is_here(), "a guest")
    if not any(guest.told for guest in party.guests) and party.has_room() and (guest := party.pick(0)):
        guest.leave()


def wake_up(party):
    """One of some guests sleeps until the others have gone on without it. Nothing that it does when it wakes up disturbs
    them: it learns that it is no part of the job any more, and ends; another one takes its place."""
    guests = [party.join() for _ in range(party.draw.randint(1, 2))]
    number, host = party.draw.random(), party.draw.random() < 0.5
    for guest in guests:
        party.wait_for(lambda: guest.trains() or not guest.here(), "a guest")
    guest = party.pick(number)
    if guest is None or not party.has_room():
        return
    party.are_lost += 1
    party.may_be_lost += 1
    sleepers = guest.sleep(host)
    try:
        party.wait_for(guest.is_missed, "that the one that sleeps is missed")
        step = runs.last_step(party.run)
        party.wait_for(lambda: runs.last_step(party.run) > step + 5, "steps without it")
    finally:
        guest.wake(sleepers)
    party.wait_for(lambda: not guest.here(), "the end of one that woke up")
    if party.has_room():
        another = party.join()
        party.wait_for(lambda: another.trains() or not another.here(), "another guest")


LAUNCHER = types.SimpleNamespace(address=HUB)


class Cut:
    """A link that is cut, drawn: of a host to everybody, to the launcher's host, or to another host."""

    def __init__(self, party, places):
        draw = party.draw
        self.party = party
        self.kind = draw.choice(("off", "to the launcher", "to another"))
        self.place, self.other = draw.sample(places, 2)
        if self.kind == "to the launcher":
            self.other = LAUNCHER
        self.until_noticed = draw.random() < (0.3 if self.kind == "to another" else 0.5)
        self.length = draw.random() * (2 if self.until_noticed else 0.8)

    def begin(self):
        self.notices = len(runs.records(self.party.run, "notice"))
        self.fails = self.failures()
        for guest in self.guests():
            guest.cut()
        if any(guest.place is self.place and guest.here() and guest.trains() for guest in self.party.guests):
            self.party.acts.did("cut", f"{self.place.address} {self.kind}")
        if self.kind == "off":
            self.place.cut_off()
        else:
            self.place.cut_to(self.other)

    def guests(self):
        """Whose link it is."""
        return [guest for guest in self.party.guests if guest.place in (self.place, self.other)]

    def failures(self):
        return sum(guest.output().count("fails: ") for guest in self.party.guests)

    def noticed(self):
        missed = any("going on" in row["text"]
                     for row in runs.records(self.party.run, "notice")[self.notices:])
        return missed or self.failures() > self.fails

    def hold(self):
        if self.until_noticed:
            self.party.wait_for(self.noticed, "that the cut is noticed")
        time.sleep(self.length)

    def heal(self):
        if self.kind == "off":
            self.place.bring_back()
        else:
            self.place.heal_to(self.other)
        generation = self.party.generation()
        for guest in self.guests():
            guest.heal(generation)


def fill(party, places):
    """A guest in each place that has none."""
    for guest in party.guests:
        if guest.told or guest.is_missed():
            party.wait_for(lambda: not guest.here(), "the end of one that is missed")
    for place in places:
        if party.has_room() and not any(guest.here() and guest.place is place for guest in party.guests):
            party.join(place)
    for guest in party.guests:
        party.wait_for(lambda: guest.trains() or not guest.here(), "a guest")


def cut_links(party, places, kills):
    """One or two cuts that heal, with a death beside them where `kills`."""
    draw = party.draw
    for _ in range(draw.randint(1, 2)):
        cut, number, own, pause = Cut(party, places), draw.random(), draw.random() < 0.3, draw.random()
        fill(party, places)
        if not party.has_room():
            return
        cut.begin()
        if kills:
            time.sleep(pause * 0.3)
            guest = party.pick(number)
            if own or guest is None:
                party.kill_own(None, number)
            else:
                guest.kill(host=False)
        cut.hold()
        cut.heal()
    fill(party, places)
