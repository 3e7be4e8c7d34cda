"""Real hosts for a test, as far as a network and a name make one: namespaces, each with one interface on a bridge that they share.
The test itself goes into a namespace first, so it needs no rights, and nothing it does is seen outside."""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

HUB = "10.77.0.1"  # the address of the test's own end of the bridge
NOBODY = "02:00:00:00:00:99"  # no such interface: what is sent there is lost in silence
INSIDE = "MUSTER_TEST_INSIDE"
HIGH_PORTS = "1024-65534"  # the kernel takes no rule that ends with the last one
NEEDS = "ip link add hub type bridge && tc qdisc add dev lo root tbf rate 10mbit burst 16kb latency 2s"

if "/usr/sbin" not in os.environ["PATH"].split(":"):
    os.environ["PATH"] += ":/usr/sbin"  # where tc and sshd are, and whoever is not root does not look


def run(*words):
    subprocess.run([str(word) for word in words], check=True)


def told_by(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def enter():
    """Starts this program again in a namespace of its own, with the bridge; False where the system forbids it."""
    if INSIDE not in os.environ:
        if not runs.allowed("unshare", "-Urn", "sh", "-c", NEEDS):
            return False
        os.environ[INSIDE] = "yes"
        os.execvp("unshare", ["unshare", "-Urn", sys.executable, *sys.argv])
    run("ip", "link", "add", "hub", "type", "bridge")
    run("ip", "address", "add", f"{HUB}/24", "dev", "hub")
    for name in ("hub", "lo"):
        run("ip", "link", "set", name, "up")
    return True


class Firewall:
    """What comes for a high port is lost in silence, but for answers of a port that is open. Rules for routes do it, for which no
    netfilter is needed; that for the host's own addresses comes first unless it is moved."""

    def __init__(self, open_port=None, at=None, sender=None):
        """`at`: the place that it protects; the test's own end of the bridge where there is none. `sender`: the place from which
        nothing gets through; without one nothing does."""
        self.inside = at.inside if at else ()
        coming = f"{f'from {sender.address} ' if sender else ''}iif {'eth0' if at else 'hub'} ipproto tcp"
        answers = [f"pref 1 {coming} sport {open_port} lookup local"] if open_port else []
        self.rules = (*answers, f"pref 2 {coming} dport {HIGH_PORTS} blackhole", "pref 3 lookup local")

    @staticmethod
    def is_allowed():
        return runs.allowed("unshare", "-Urn", "ip", "rule", "add", "pref", "2", "iif", "lo", "ipproto", "tcp",
                            "dport", HIGH_PORTS, "blackhole")

    def __enter__(self):
        for rule in self.rules:
            run(*self.inside, "ip", "rule", "add", *rule.split())
        run(*self.inside, "ip", "rule", "delete", "pref", "0")

    def __exit__(self, *_):
        run(*self.inside, "ip", "rule", "add", "pref", "0", "lookup", "local")
        for rule in self.rules:
            run(*self.inside, "ip", "rule", "delete", *rule.split())


class Place:
    """A host with a name of its own and one interface, eth0, on the bridge. No two have the same number at a time."""

    def __init__(self, number):
        self.address = f"10.77.0.{10 + number}"
        self.port = f"port{number}"
        self.name = f"place{number}"
        self.holder = subprocess.Popen(["unshare", "-n", "-u", "sleep", "1000"])
        runs.wait_for(lambda: all(os.readlink(f"/proc/{self.holder.pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
                                  for kind in ("net", "uts")), "the namespaces")
        self.inside = ("nsenter", "-t", str(self.holder.pid), "-n", "-u")
        run(*self.inside, "hostname", self.name)
        self.plug_in()
        run("ip", "link", "set", self.port, "master", "hub", "up")
        run(*self.inside, "ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        run(*self.inside, "ip", "link", "set", "eth0", "up")
        run(*self.inside, "ip", "link", "set", "lo", "up")

    def plug_in(self):
        """Makes eth0 there, and its other end here."""
        run("ip", "link", "add", self.port, "type", "veth", "peer", "name", "eth0", "netns", self.holder.pid)

    def cut_off(self):
        run("ip", "link", "set", self.port, "down")

    def bring_back(self):
        run("ip", "link", "set", self.port, "up")
        run(*self.inside, "ip", "neighbour", "flush", "dev", "eth0")  # those that it looked for in vain

    def cut_to(self, other):
        """Nothing gets from here to there any more; both still reach everybody else."""
        run(*self.inside, "ip", "neighbour", "replace", other.address, "lladdr", NOBODY, "dev", "eth0",
            "nud", "permanent")

    def heal_to(self, other):
        run(*self.inside, "ip", "neighbour", "delete", other.address, "dev", "eth0")

    def cut_inside(self):
        """Of all that are there no one hears another any more: what they send is lost in silence."""
        run(*self.inside, "tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", "8kbit", "burst", "20b", "limit", "20b")

    def heal_inside(self):
        run(*self.inside, "tc", "qdisc", "delete", "dev", "lo", "root")

    def close(self):
        run("ip", "link", "delete", self.port)
        self.holder.kill()
        self.holder.wait()
