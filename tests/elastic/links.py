"""Links that are cut and heal, between real network stacks: each worker lives in a network namespace
of its own, joined by a bridge."""
import pathlib
import re
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import network
import runs
from join import Host, ledger, members, sizes_of_generations, wait_for_members
from network import HUB, Place

SKIPPED = 77  # what CTest takes for it


class Job:
    """One worker beside the launcher and two in places of their own, until it is stopped."""

    def __init__(self, muster, folder, name, places, *settings):
        self.muster, self.folder = muster, folder
        self.process = runs.endless(muster, folder, name, *runs.settings(
            "workers.max_workers=4", f"workers.listen={HUB}:0",
            "communication.transport=tcp", "training.lanes=1", *settings))
        self.run = runs.wait_for(lambda: next(iter((folder / name).glob("*/*/join.key")), None), "the key").parent
        self.hosts = []
        for count, place in enumerate(places, start=2):
            self.join(place)
            wait_for_members(self.run, count)

    def join(self, place):
        self.hosts.append(Host(self.muster, self.folder, self.run / "join.key", before=place.inside))

    def goes_on(self):
        runs.goes_on(self.process, self.run, steps=100)

    def stop(self):
        """What was printed."""
        return runs.stop(self.muster, self.process, self.folder, self.run)


def cut_off(muster, folder, places):
    """A host that is gone is missed, the others go on; when it is back its worker is told to end."""
    job = Job(muster, folder, "off", places, "communication.timeout=5 min")  # so its silence is noticed first
    places[1].cut_off()
    wait_for_members(job.run, 2)
    job.goes_on()  # without the host
    places[1].bring_back()
    assert job.hosts[1].wait() != 0
    output = job.stop()
    assert re.search(rf"worker 2 \(pid \d+ on {places[1].name}\) was silent for too long", output), output
    assert job.hosts[0].wait() == 0, job.hosts[0].output()


def the_fewer_wait(muster, folder, places):
    """Of three the one that is alone with the launcher does not go on where workers.min_workers is two, nor do the others
    without it; those who come anew find everything as it was."""
    job = Job(muster, folder, "fewer", places, "workers.min_workers=2", "workers.join_timeout=10 min")
    for place in places:
        place.cut_off()
    told = "1 worker is left, waiting until 1 more has joined"
    runs.wait_for(lambda: any(told in row["text"] for row in runs.records(job.run, "notice")), "the wait")
    time.sleep(1)  # in which it could go on
    for place in places:
        place.bring_back()
    assert all(host.wait() != 0 for host in job.hosts), [host.output() for host in job.hosts]
    job.hosts = []
    for place in places:
        job.join(place)
    wait_for_members(job.run, 3)
    job.goes_on()
    job.stop()
    sizes = sizes_of_generations(job.run)
    assert all(sizes[generation] > 1 for generation, *_ in ledger(job.run)), f"it went on alone: {sizes}, {ledger(job.run)}"


def cut_between_two(muster, folder, places):
    """Nobody is dead, and yet two cannot work together: the later one goes."""
    job = Job(muster, folder, "pair", places)
    places[0].cut_to(places[1])
    wait_for_members(job.run, 2)
    job.goes_on()  # without one of the two
    places[0].heal_to(places[1])
    output = job.stop()
    assert "lives, but does not answer the others" in output, output
    assert job.hosts[1].wait() != 0


def heals(muster, folder, places):
    """A link that heals while they are about to give up costs nobody."""
    job = Job(muster, folder, "heals", places)
    generations = len(members(job.run))
    places[0].cut_to(places[1])
    runs.wait_for(lambda: any("fails: " in host.output() for host in job.hosts), "the cut")
    places[0].heal_to(places[1])
    runs.wait_for(lambda: members(job.run)[generations:], "another generation")
    assert members(job.run)[generations:] == [3], members(job.run)
    job.goes_on()  # after the cut
    job.stop()


def half_reachable(muster, folder, places):
    """A newcomer that does not reach one of the others disturbs nobody, may go, and is let in when the link
    heals."""
    job = Job(muster, folder, "half", places[:1])
    generations = len(members(job.run))
    places[1].cut_to(places[0])
    told_to_go, stays = (Host(muster, folder, job.run / "join.key", before=places[1].inside) for _ in range(2))
    for host in (told_to_go, stays):
        runs.wait_for(lambda: "do not reach each other" in host.output(), "the newcomer's try")
    job.goes_on()  # with the newcomers outside
    told_to_go.process.send_signal(signal.SIGTERM)
    assert told_to_go.wait() == 0, told_to_go.output()
    job.hosts.append(stays)
    assert len(members(job.run)) == generations, members(job.run)
    places[1].heal_to(places[0])
    wait_for_members(job.run, 3)
    job.goes_on()  # with the newcomer
    output = job.stop()
    assert ") is not let in yet: it and worker 1 of " in output, output
    assert "fails: " not in job.hosts[0].output(), job.hosts[0].output()


def slow(muster, folder, places):
    """A slow link is named with both ends."""
    job = Job(muster, folder, "slow", places)
    network.run(*places[0].inside, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "10mbit", "burst",
        "16kb", "latency", "2s")
    told = re.compile(r"worker \d \(pid \d+ on \S+\) hears worker 1 \(pid \d+ on \S+\) over a slow link: 64 KiB take ")
    runs.wait_for(lambda: any(told.match(row["text"]) for row in runs.records(job.run, "notice")), "the slow link")
    job.stop()


def main():
    if not network.enter():
        runs.leave_out("this system does not allow network namespaces, bridges or tc")
        sys.exit(SKIPPED)
    muster = runs.arguments().muster
    with runs.workplace() as folder:
        runs.write_data(folder)
        for scenario in (cut_off, the_fewer_wait, cut_between_two, heals, half_reachable, slow):
            places = [Place(number) for number in range(2)]
            try:
                scenario(muster, folder, places)
            finally:
                for place in places:
                    place.close()
            print(f"ok  {scenario.__name__}", flush=True)


if __name__ == "__main__":
    main()
