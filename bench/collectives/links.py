#!/usr/bin/env python3
"""All-reduce of f32 among hosts that links of a known rate connect: muster over TLS, torch Gloo, and raw sockets.

Hosts are network namespaces of this machine, one rank on each; tc's tbf holds both directions of each one's link to the
rate. The bound of n hosts is what each link has to carry, 2 (n - 1) / n of the tensor, at that rate. Raw sockets send
as much from each host to the next one, all at once and in plain text: what the links, the kernel and the cores give.
The engines take turns in rounds; each verifies every result. Prints a table in Markdown with the median in milliseconds.

Usage: bench/collectives/links.py [--build build/release] [--python .deps/pytorch/bin/python] [--hosts 2 4]
           [--rates 100M 1G 10G] [--algorithm auto] [--repetitions 3]
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from compare import HERE, OPERATIONS, describe, harness, read_line

sys.path.insert(0, str(harness.ROOT / "tests/elastic"))
import network

RATES = {"100M": 1e8, "1G": 1e9, "10G": 1e10}  # bits a second
PER_LINK = OPERATIONS["all_reduce"]  # what each has to carry, of the tensor
SECONDS = 0.4  # what a tensor takes at its bound, about
LARGEST = 64 << 20
PORT = 29500


class Host(network.Place):
    """At the end of a link that carries so many bits a second each way."""

    def __init__(self, number, rate):
        super().__init__(number)
        burst = max(int(rate / 8 / 1000), 128 << 10)  # what it carries in a millisecond, or two of the largest packets
        for where, interface in ((), self.port), (self.inside, "eth0"):
            network.run(*where, "tc", "qdisc", "add", "dev", interface, "root", "tbf", "rate", f"{rate:.0f}bit",
                        "burst", f"{burst}b", "latency", "200ms")

    def start(self, *command, **variables):
        return subprocess.Popen([*self.inside, *(str(word) for word in command)], text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=harness.ROOT,
                                env=os.environ | variables)


def outputs(processes):
    """What each has written, when all have ended well."""
    told = []
    for process in processes:
        try:
            out, err = process.communicate(timeout=harness.TIMEOUT_S)
        except subprocess.TimeoutExpired:
            for other in processes:
                other.kill()
            raise SystemExit(f"{process.args} does not end")
        if process.returncode != 0:
            raise SystemExit(f"{process.args} failed ({process.returncode}): {err}")
        told.append(out)
    return told


def muster(options, hosts, size):
    """Milliseconds, the median; and the schedule that it chose."""
    program = options.build / "bin/muster"
    credentials = harness.run([program, "credentials"]).strip()
    ranks = [host.start(program, "launch", "--nnodes", len(hosts), "--node-rank", rank, "--rdzv-endpoint",
                        f"{hosts[0].address}:{PORT}", "-n", 1, program, "bench", "comm", "--ops", "all_reduce", "--sizes",
                        f"{size >> 20}MiB", "--transport", "tcp", "--algorithm", options.algorithm, "--time", "3 s", "--json",
                        MUSTER_CREDENTIALS=credentials)
             for rank, host in enumerate(hosts)]
    told = json.loads(outputs(ranks)[0].splitlines()[-1])
    timing, = told["timings"]
    return timing["p50_us"] / 1000, timing["schedule"]


def gloo(options, hosts, size):
    with tempfile.TemporaryDirectory() as folder:
        ranks = [host.start(options.python, "-c", f"import gloo; gloo.run({rank}, {len(hosts)}, 'all_reduce', [({size}, 5)], "
                            f"'{folder}/store')", GLOO_SOCKET_IFNAME="eth0", PYTHONPATH=str(HERE))
                 for rank, host in enumerate(hosts)]
        _, taken = read_line(outputs(ranks)[0].splitlines()[-1])
    return statistics.median(taken) / 1000, ""


RAW = """
import socket, sys, threading, time
own, following, port, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
door = socket.create_server((own, port))
def take():
    peer, _ = door.accept()
    left, space = count, bytearray(1 << 20)
    while left:
        left -= peer.recv_into(space, min(left, len(space)))
taker = threading.Thread(target=take)
taker.start()
end = time.monotonic() + 60
while True:
    try:
        peer = socket.create_connection((following, port))
        break
    except OSError:
        if time.monotonic() > end:
            raise
        time.sleep(0.01)
print("ready", flush=True)
sys.stdin.readline()
start = time.monotonic()
peer.sendall(bytes(count))
taker.join()
print(1000 * (time.monotonic() - start))
"""


def raw(_, hosts, size):
    count = int(size * PER_LINK(len(hosts)))
    ranks = [host.start(sys.executable, "-c", RAW, host.address, following.address, PORT, count)
             for host, following in zip(hosts, hosts[1:] + hosts[:1])]
    for rank in ranks:
        if rank.stdout.readline() != "ready\n":
            raise SystemExit(f"raw sockets: {rank.communicate()[1]}")
    for rank in ranks:
        rank.stdin.write("go\n")
        rank.stdin.flush()
    return max(float(told) for told in outputs(ranks)), ""


WAYS = {"raw sockets": raw, "muster": muster, "Gloo": gloo}


def measure(options, rate, count):
    size = min(int(SECONDS * rate / 8 / PER_LINK(count)) >> 20 << 20, LARGEST)
    bound = 1000 * size * PER_LINK(count) * 8 / rate
    with contextlib.ExitStack() as stack:
        hosts = [stack.enter_context(contextlib.closing(Host(number, rate))) for number in range(count)]
        rounds = [{way: once(options, hosts, size) for way, once in WAYS.items()} for _ in range(options.repetitions)]
    row = {way: statistics.median(took[way][0] for took in rounds) for way in WAYS}
    return describe(size), bound, row, rounds[-1]["muster"][1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=harness.ROOT / "build/release")
    parser.add_argument("--python", type=pathlib.Path, default=harness.ROOT / ".deps/pytorch/bin/python")
    parser.add_argument("--hosts", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rates", choices=RATES, nargs="+", default=list(RATES))
    parser.add_argument("--algorithm", default="auto", help="muster's schedule")
    parser.add_argument("--repetitions", type=int, default=3, help="rounds, in each of which all take a turn")
    options = parser.parse_args()
    if not network.enter():
        raise SystemExit("this system does not allow network namespaces, in which hosts have links of their own")
    print("| rate | hosts | size | bound ms | raw sockets | muster, TLS | Gloo | bound / muster | Gloo / muster | "
          "muster's schedule |\n|---|---|---|---|---|---|---|---|---|---|")
    for rate in options.rates:
        for count in options.hosts:
            size, bound, row, schedule = measure(options, RATES[rate], count)
            times = " | ".join(f"{value:,.1f}" for value in (bound, *row.values()))
            print(f"| {rate}b/s | {count} | {size} | {times} | {bound / row['muster']:.1%} | "
                  f"{row['Gloo'] / row['muster']:.2f} × | {schedule} |", flush=True)


if __name__ == "__main__":
    main()
