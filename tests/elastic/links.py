"""Links that are cut and heal, between real network stacks: each worker lives in a network namespace
of its own, joined by a bridge. The test makes itself a namespace first, so it needs no rights."""
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs
from join import Host, members, wait_for_members

STEPS = 200_000
HUB = "10.77.0.1"
NOBODY = "02:00:00:00:00:99"  # no such interface: what is sent there is lost in silence


SKIPPED = 77  # what CTest takes for it
NEEDS = "ip link add hub type bridge && tc qdisc add dev lo root tbf rate 10mbit burst 16kb latency 2s"


def run(*words):
    subprocess.run([str(word) for word in words], check=True)


class Place:
    """A network namespace with one interface, eth0, on the bridge."""

    def __init__(self, number):
        self.address = f"10.77.0.{10 + number}"
        self.port = f"port{number}"
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "1000"])
        runs.wait_for(lambda: os.readlink(f"/proc/{self.holder.pid}/ns/net") !=
                      os.readlink("/proc/self/ns/net"), "the namespace")
        self.inside = ("nsenter", "-t", str(self.holder.pid), "-n")
        run("ip", "link", "add", self.port, "type", "veth", "peer", "name", "eth0", "netns",
            self.holder.pid)
        run("ip", "link", "set", self.port, "master", "hub", "up")
        run(*self.inside, "ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        run(*self.inside, "ip", "link", "set", "eth0", "up")
        run(*self.inside, "ip", "link", "set", "lo", "up")

    def cut_off(self):
        run("ip", "link", "set", self.port, "down")

    def cut_to(self, other):
        """Nothing gets from here to there any more; both still reach everybody else."""
        run(*self.inside, "ip", "neighbour", "replace", other.address, "lladdr", NOBODY, "dev", "eth0",
            "nud", "permanent")

    def heal_to(self, other):
        run(*self.inside, "ip", "neighbour", "delete", other.address, "dev", "eth0")

    def close(self):
        run("ip", "link", "delete", self.port)
        self.holder.kill()
        self.holder.wait()


class Job:
    """One worker beside the launcher and two in places of their own, until it is stopped."""

    def __init__(self, muster, folder, name, places):
        job = runs.write_job(folder, "mlp", steps=STEPS)
        self.process = runs.start(muster, job, *runs.settings(
            f"run_folder={folder / name}", "workers.max_workers=3", f"workers.listen={HUB}:0",
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
    run("ip", "link", "set", places[1].port, "up")
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
    """A newcomer that does not reach one of the others disturbs nobody, and is let in when the link heals."""
    job = Job(muster, folder, "half", places[:1])
    generations = len(members(job.run))
    places[1].cut_to(places[0])
    job.hosts.append(Host(muster, folder, job.run / "join.key", before=places[1].inside))
    runs.wait_for(lambda: "do not reach each other" in job.hosts[1].output(), "the newcomer's try")
    job.goes_on("with the newcomer outside")
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
    run(*places[0].inside, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "10mbit", "burst",
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
    if "MUSTER_TEST_INSIDE" not in os.environ:
        if not runs.allowed("unshare", "-Urn", "sh", "-c", NEEDS):
            print("skipped: this system does not allow network namespaces, bridges or tc")
            sys.exit(SKIPPED)
        os.environ["MUSTER_TEST_INSIDE"] = "yes"
        os.execvp("unshare", ["unshare", "-Urn", sys.executable, *sys.argv])
    muster = runs.arguments().muster
    run("ip", "link", "add", "hub", "type", "bridge")
    run("ip", "address", "add", f"{HUB}/24", "dev", "hub")
    for name in ("hub", "lo"):
        run("ip", "link", "set", name, "up")
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
