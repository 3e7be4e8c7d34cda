"""Links that are cut and heal, between real network stacks: each worker lives in a network namespace
of its own, joined by a bridge."""
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import network
import runs
from join import Host, members, wait_for_members
from network import HUB, Place

STEPS = 200_000
SKIPPED = 77  # what CTest takes for it


class Job:
    """One worker beside the launcher and two in places of their own, until it is stopped."""

    def __init__(self, muster, folder, name, places):
        job = runs.write_job(folder, "mlp", steps=STEPS)
        self.process = runs.start(muster, job, *runs.settings(
            f"run_folder={folder / name}", "workers.max_workers=4", f"workers.listen={HUB}:0",
            "workers.heartbeat_timeout=3s", "communication.transport=tcp", "training.lanes=1", *LENGTH))
        self.run = runs.wait_for_step(self.process, folder, 1, name)
        self.hosts = []
        for count, place in enumerate(places, start=2):
            self.hosts.append(Host(muster, folder, self.run / "join.key", before=place.inside))
            wait_for_members(self.run, count)

    def step(self):
        return runs.rows(self.run)[-1]["step"]

    def goes_on(self, text):
        before = self.step()
        runs.wait_for(lambda: self.step() > before + 100, f"progress {text}")

    def stop(self):
        """What was printed, and the weights of the last checkpoint, after which step."""
        self.process.send_signal(signal.SIGINT)
        code, output = runs.finish(self.process)
        assert code == 130, f"exit code {code}:\n{output}"
        [*_, last] = sorted(self.run.glob("checkpoints/step-*"))
        step = int(last.name.split("-")[1])
        return output, step, runs.weights(self.run, step)


def cut_off(muster, folder, places):
    """A host that is gone is missed, the others go on; when it is back its worker is told to end."""
    job = Job(muster, folder, "off", places)
    places[1].cut_off()
    wait_for_members(job.run, 2)
    job.goes_on("without the host")
    places[1].bring_back()
    assert job.hosts[1].wait() != 0
    result = job.stop()
    assert "was silent for too long" in result[0], result[0]
    assert job.hosts[0].wait() == 0, job.hosts[0].output()
    return result


def cut_between_two(muster, folder, places):
    """Nobody is dead, and yet two cannot work together: the later one goes."""
    job = Job(muster, folder, "pair", places)
    places[0].cut_to(places[1])
    wait_for_members(job.run, 2)
    job.goes_on("without one of the two")
    places[0].heal_to(places[1])
    result = job.stop()
    assert "is out of others' reach" in result[0], result[0]
    assert job.hosts[1].wait() != 0
    return result


def heals(muster, folder, places):
    """A link that heals while they are about to give up costs nobody."""
    job = Job(muster, folder, "heals", places)
    generations = len(members(job.run))
    places[0].cut_to(places[1])
    runs.wait_for(lambda: any("fails: " in host.output() for host in job.hosts), "the cut")
    places[0].heal_to(places[1])
    runs.wait_for(lambda: members(job.run)[generations:], "another generation")
    assert members(job.run)[generations:] == [3], members(job.run)
    job.goes_on("after the cut")
    return job.stop()


def half_reachable(muster, folder, places):
    """A newcomer that does not reach one of the others disturbs nobody, may go, and is let in when the link
    heals."""
    job = Job(muster, folder, "half", places[:1])
    generations = len(members(job.run))
    places[1].cut_to(places[0])
    told_to_go, stays = (Host(muster, folder, job.run / "join.key", before=places[1].inside) for _ in range(2))
    for host in (told_to_go, stays):
        runs.wait_for(lambda: "do not reach each other" in host.output(), "the newcomer's try")
    job.goes_on("with the newcomers outside")
    told_to_go.process.send_signal(signal.SIGTERM)
    assert told_to_go.wait() == 0, told_to_go.output()
    job.hosts.append(stays)
    assert len(members(job.run)) == generations, members(job.run)
    places[1].heal_to(places[0])
    wait_for_members(job.run, 3)
    job.goes_on("with the newcomer")
    result = job.stop()
    assert ") is not let in yet: it and worker 1 of " in result[0], result[0]
    assert "fails: " not in job.hosts[0].output(), job.hosts[0].output()
    return result


def slow(muster, folder, places):
    """A slow link is named with both ends."""
    job = Job(muster, folder, "slow", places)
    network.run(*places[0].inside, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "10mbit", "burst",
        "16kb", "latency", "2s")
    told = ") hears worker 1 over a slow link: 64 KiB take "
    runs.wait_for(lambda: any(told in row["text"] for row in runs.records(job.run, "notice")), "the slow link")
    return job.stop()


def check(muster, folder, name, result):
    _, step, weights = result
    expected = runs.undisturbed(muster, folder, "mlp", step, *runs.settings(*LENGTH), runs=name + "-alone")
    assert expected == weights, "other weights"


# A constant learning rate: the weights after a step do not depend on how many were planned.
LENGTH = ("schedule.type=constant", "schedule.warmup=0 steps")


def main():
    if not network.enter():
        print("skipped: this system does not allow network namespaces, bridges or tc")
        sys.exit(SKIPPED)
    muster = runs.arguments().muster
    with runs.workplace() as folder:
        runs.write_data(folder)
        for scenario in (cut_off, cut_between_two, heals, half_reachable, slow):
            places = [Place(number) for number in range(2)]
            try:
                check(muster, folder, scenario.__name__, scenario(muster, folder, places))
            finally:
                for place in places:
                    place.close()
            print(f"ok  {scenario.__name__}", flush=True)


if __name__ == "__main__":
    main()
