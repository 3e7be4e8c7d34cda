"""join() under the launchers that people have (docs/loop.md): torchrun, Open MPI's and MPICH's mpirun, any other PMI,
Slurm's srun and sbatch, and torchrun's variables set by hand. One line says which; losses are those of the plain loop; a
death, a rank that does not come, a port that is taken: each is told."""
import argparse
import http.server
import pathlib
import re
import signal
import socket
import socketserver
import subprocess
import tempfile
import threading
import time

import launchers
import slurm
from launchers import CLEAN, ranks_of, run

parser = argparse.ArgumentParser()
for name in ("--muster", "--programs", "--loop", "--other-loop", "--other-clock", "--python"):
    parser.add_argument(name, required=True)
arguments = parser.parse_args()
PARALLEL = str(pathlib.Path(arguments.programs) / "parallel")
HOST = socket.gethostname()


def torchrun(*words):
    return launchers.torchrun(arguments.python, *words)


def losses(text):
    # A launcher may add what it likes to what ranks write.
    return [float(loss) for loss in re.findall(r"^\d+ (\d+\.\d+)$", text, re.MULTILINE)]


WANTED = losses(run(PARALLEL).stdout)
assert len(WANTED) == 60


def has_trained(text, launcher, size):
    world = "one process" if size == 1 else f"{size} processes"
    assert text.count(f"started by {launcher}: a world of {world}") == 1, text
    found = losses(text)
    worst = max(abs(a - b) / b for a, b in zip(found, WANTED, strict=True))
    assert worst < 1e-4, (launcher, size, worst)


def trains(launcher, size, *words, environment=CLEAN):
    done = run(*words, PARALLEL, environment=environment)
    has_trained(done.stdout + done.stderr, launcher, size)


class Silent(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Hasty(socketserver.BaseRequestHandler):
    """Answers before it has heard anything."""

    def handle(self):
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


class Ranks:
    """Started by hand: processes with torchrun's variables, some with more."""

    def __init__(self, size, ranks, *words, port=None, more=lambda rank: {}):
        common = CLEAN | {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1",
                          "MASTER_PORT": str(port or slurm.free_ports(1)[0]), "MUSTER_JOIN_TIMEOUT": "60s"}
        self.port = int(common["MASTER_PORT"])
        self.processes = [subprocess.Popen([*map(str, words)], env=common | {"RANK": str(rank)} | more(rank), text=True,
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in ranks]

    def ends(self):
        """Of each: its exit code, what it wrote, its errors."""
        found = [process.communicate(timeout=240) for process in self.processes]
        return [(process.returncode, *texts) for process, texts in zip(self.processes, found, strict=True)]


class Nodes:
    """One `muster launch` a node, of three with two processes each."""

    def __init__(self, *words, flags=(), nodes=range(3)):
        endpoint = f"127.0.0.1:{slurm.free_ports(1)[0]}"
        self.processes = [subprocess.Popen(
            [arguments.muster, "launch", "--nnodes", "3", "--node-rank", str(node), "--nproc_per_node", "2",
             "--rdzv-endpoint", endpoint, *flags, "--", *map(str, words)], env=CLEAN | {"MUSTER_JOIN_TIMEOUT": "60s"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for node in nodes]

    ends = lambda self: Ranks.ends(self)


def launched_on_several_hosts():
    ends = Nodes(PARALLEL).ends()
    assert all(code == 0 for code, _, _ in ends), ends
    has_trained("".join(ends[0][1:]), "muster launch", 6)
    assert not ends[1][1] and not ends[2][1], "only rank 0 of all writes"


def a_death_on_one_host_ends_all():
    with tempfile.TemporaryDirectory() as folder:
        ends = Nodes(arguments.loop, folder, "kill=10").ends()
        assert not list(pathlib.Path(folder).iterdir()), "somebody went on"
    assert all(code == 1 for code, _, _ in ends), ends
    assert re.search(r"^error: \[launch\] rank 1 \(pid \d+\) killed by SIGKILL$", ends[0][2], re.MULTILINE), ends[0][2]
    for node, ranks in ((0, (0,)), (1, (2, 3)), (2, (4, 5))):
        for rank in ranks:
            pattern = rf"\[world\] rank {rank}, in backward\(\) 11, .*the culprit is rank 1 \(pid \d+ on {re.escape(HOST)}\)"
            assert re.search(pattern, ends[node][2]), (rank, ends[node][2])


def all_are_started_again():
    with tempfile.TemporaryDirectory() as folder:
        script = f"exec {arguments.loop} {folder} $([ $TORCHELASTIC_RESTART_COUNT = 1 ] || echo kill=10)"
        ends = Nodes("sh", "-c", script, flags=("--max-restarts", "1")).ends()
        weights = [path.read_bytes() for path in pathlib.Path(folder).iterdir()]
    assert all(code == 0 and "all are started again: 1 of 1" in told for code, _, told in ends), ends
    assert len(weights) == 6 and len(set(weights)) == 1, len(weights)


def a_signal_ends_a_host_and_with_it_all():
    nodes = Nodes("sh", "-c", "echo here; exec sleep 100")
    for node in nodes.processes:
        assert "here" in node.stdout.readline()
    for node in nodes.processes:
        node.terminate()
    assert [code for code, _, _ in nodes.ends()] == [143] * 3


def under_torchrun():
    for size in (1, 3):
        trains("torchrun", size, *torchrun("--standalone", "--nproc-per-node", size))
    trains("torchrun", 2, *torchrun("--nproc-per-node", 2, "--master-port", slurm.free_ports(1)[0]))


def torchrun_starts_all_again():
    # Its store stays, with what the first attempt has left there.
    with tempfile.TemporaryDirectory() as folder:
        script = f"exec {arguments.loop} {folder} $([ $TORCHELASTIC_RESTART_COUNT = 1 ] || echo kill=10)"
        run(*torchrun("--standalone", "--nproc-per-node", 2, "--max-restarts", 1), "sh", "-c", script)
        weights = {path.read_bytes() for path in pathlib.Path(folder).iterdir()}
    assert len(weights) == 1, len(weights)


def under_mpi():
    for size in (1, 3):
        trains("Open MPI", size, "mpirun.openmpi", "-n", size)
        trains("MPICH", size, "mpirun.mpich", "-n", size)


def under_others():
    for size in (1, 2, 3):
        for launcher, (rank, variables) in launchers.by_variables(size).items():
            trains(launcher, size, *ranks_of(size, rank), environment=CLEAN | variables)


def pmix_has_to_be_told_how_many():
    environment = CLEAN | {"PMIX_RANK": "1", "PMIX_NAMESPACE": "x"}
    told = run(PARALLEL, environment=environment, code=-signal.SIGABRT).stderr
    assert "started by PMIx: PMIX_RANK is set, but WORLD_SIZE is not; set it to how many ranks there are" in told, told
    more = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(slurm.free_ports(1)[0])}
    trains("PMIx", 2, *ranks_of(2, "PMIX_RANK"), environment=environment | more)


def under_slurm():
    with tempfile.TemporaryDirectory() as folder, slurm.cluster(folder, [HOST, HOST + "2"]) as found:
        environment = CLEAN | {key: found[key] for key in ("SLURM_CONF", "PATH")}
        for size in (1, 3):
            trains("Slurm", size, "srun", "--nodes=1", f"--ntasks={size}", environment=environment)
        # They meet on the first of the nodes, which is this host by its name.
        trains("Slurm", 3, "srun", "--nodes=2", "--ntasks=3", environment=environment)
        out = pathlib.Path(folder) / "batch.txt"
        script = f"{PARALLEL} && srun --ntasks=2 {PARALLEL}"
        done = run("sbatch", "--wait", "--ntasks=2", f"--output={out}", f"--wrap={script}", environment=environment,
                   code=None)
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stderr}{out.read_text()}"
        alone, together = out.read_text().split("started by Slurm", 1)
        assert "started by itself: a world of one process" in alone, alone
        has_trained("started by Slurm" + together, "Slurm", 2)


def by_hand():
    for size in (1, 2, 3):
        ends = Ranks(size, range(size), PARALLEL).ends()
        assert all(code == 0 for code, _, _ in ends), ends
        has_trained("".join(ends[0][1:]), "RANK and WORLD_SIZE", size)
        assert not any("[WARN]" in told for _, _, told in ends), ends


def a_name_that_is_loopback_is_told():
    # As Debian's /etc/hosts has a host's own name; this one everybody's resolver knows.
    ends = Ranks(2, range(2), PARALLEL, more=lambda rank: {"MASTER_ADDR": "0x7f000001"}).ends()
    assert all(code == 0 for code, _, _ in ends), ends
    assert "[world] 0x7f000001 (MASTER_ADDR) is 127.0.0.1 on its own host: ranks on other hosts" in ends[0][2], ends
    assert "[WARN]" not in ends[1][2], ends


def an_address_of_another_host_is_told():
    [(code, _, told)] = Ranks(2, (0,), PARALLEL, more=lambda rank: {"MASTER_ADDR": "198.51.100.7", "MUSTER_JOIN_TIMEOUT": "3s"}).ends()
    assert code != 0 and "[world] 198.51.100.7 (MASTER_ADDR) is no address of this host" in told, told
    assert "set MASTER_ADDR, for all ranks, to " in told and "does another job use that port?" not in told, told


def deaths_are_told():
    for victim, words in ((1, ("kill=10",)), (0, ("kill0=10",))):
        with tempfile.TemporaryDirectory() as folder:
            ends = Ranks(3, range(3), arguments.loop, folder, *words).ends()
            assert not list(pathlib.Path(folder).iterdir()), "somebody went on"
        assert ends[victim][0] == -signal.SIGKILL, ends
        for rank in {0, 1, 2} - {victim}:
            pattern = rf"\[world\] rank {rank}, in backward\(\) 11, reducing gradients: .*"
            pattern += rf"the culprit is rank {victim} \(pid \d+ on {re.escape(HOST)}\)"
            assert re.search(pattern, ends[rank][2]), (rank, ends[rank][2])


def fewer_batches_are_told():
    with tempfile.TemporaryDirectory() as folder:
        ends = Ranks(3, range(3), arguments.loop, folder, "steps1=12").ends()
    for rank in (0, 2):
        assert "has come to its end after 12 backward() with synchronisation" in ends[rank][2], ends


def who_does_not_come_is_told():
    ends = Ranks(3, (0, 2), PARALLEL, more=lambda rank: {"MUSTER_JOIN_TIMEOUT": "25s"}).ends()
    for rank, (code, _, told) in zip((0, 2), ends, strict=True):
        assert code != 0 and f"[world] rank {rank} of 3, started by RANK and WORLD_SIZE" in told, told
        assert "worker 1 (of 3) did not join in time" in told, told
    [(code, _, told)] = Ranks(2, (1,), PARALLEL, more=lambda rank: {"MUSTER_JOIN_TIMEOUT": "1s"}).ends()
    assert code != 0 and "rank 0 should keep torch's store at 127.0.0.1:" in told, told


def what_else_is_at_the_port_is_told():
    """In one message, without what torch's own client has to say of each of its tries."""
    for server in (http.server.HTTPServer(("127.0.0.1", 0), Silent), socketserver.ThreadingTCPServer(("127.0.0.1", 0), Hasty)):
        with server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            ends = Ranks(2, range(2), PARALLEL, port=server.server_address[1],
                         more=lambda rank: {"MUSTER_JOIN_TIMEOUT": "3s"}).ends()
            server.shutdown()
        assert "does another job use that port?" in ends[0][2], ends
        assert "what answers there, if not this job's rank 0?" in ends[1][2], ends
        for _, _, told in ends:
            assert len(told.splitlines()) == 2, told  # what the C++ library says of an exception, and its text


def another_job_at_the_port_is_told():
    """The first goes on unharmed, and is warned of those that nothing but their command tells from its own."""
    patient = lambda rank: {"MUSTER_JOIN_TIMEOUT": "120s"}
    first = Ranks(2, (0,), PARALLEL, more=patient)
    launchers.wait_for_port(first.port)
    owner = (f"port {first.port} of 127.0.0.1 already serves another job: 2 ranks started by RANK and WORLD_SIZE, "
             f"rank 0 is pid {first.processes[0].pid} on {HOST}; ")
    night = lambda rank: {"TORCHELASTIC_RUN_ID": "night"}
    with tempfile.TemporaryDirectory() as folder:
        other = arguments.loop, folder
        for size, rank, words, more, difference in (
                (3, 1, (PARALLEL,), {}, "this one has 3 ranks"),
                (2, 1, (PARALLEL,), night, "this one has the id `night`"),
                (2, 0, (PARALLEL,), night, "this one has the id `night`"),
                (2, 0, other, {}, "this one has a rank 0 of its own"),
                (2, 1, other, {}, "was turned away there")):
            [(code, _, told)] = Ranks(size, (rank,), *words, port=first.port, more=more or (lambda rank: {})).ends()
            assert code != 0 and owner + "this one" in told and difference in told, told
            assert "give each job a MASTER_PORT of its own" in told, told
        assert not list(pathlib.Path(folder).iterdir()), "somebody trained"
    last = Ranks(2, (1,), PARALLEL, port=first.port, more=patient)
    ends = first.ends() + last.ends()
    assert all(code == 0 for code, _, _ in ends), ends
    has_trained("".join(ends[0][1:]), "RANK and WORLD_SIZE", 2)
    assert ends[0][2].count(f"another job was given 127.0.0.1:{first.port}") == 1, ends[0][2]


def a_rank_that_is_there_already_is_told():
    """Of two jobs that are alike in all else: whoever comes second."""
    patient = lambda rank: {"MUSTER_JOIN_TIMEOUT": "120s"}
    first = Ranks(3, (0, 1, 1), PARALLEL, more=patient)
    twins = first.processes[1:]
    end = time.monotonic() + 100
    while all(process.poll() is None for process in twins):
        assert time.monotonic() < end, "both are let in"
        time.sleep(0.02)
    last = Ranks(3, (2,), PARALLEL, port=first.port, more=patient)
    ends = first.ends() + last.ends()
    assert sorted(code == 0 for code, _, _ in ends) == [False, True, True, True], ends
    [(code, _, told)] = [each for each in ends if each[0] != 0]
    assert f"port {first.port} of 127.0.0.1 already serves another job, or this rank was started twice: rank 1 there" in told, told
    has_trained("".join(ends[0][1:]), "RANK and WORLD_SIZE", 3)


def another_commit_is_told():
    for other in (0, 1):
        with tempfile.TemporaryDirectory() as folder:
            script = f"[ $RANK = {other} ] && exec {arguments.other_loop} {folder}; exec {arguments.loop} {folder}"
            ends = Ranks(2, range(2), "sh", "-c", script).ends()
            assert not list(pathlib.Path(folder).iterdir()), "somebody trained"
        for code, _, told in ends:
            assert code != 0 and "all workers need the same muster" in told, told
            assert f"worker {other} on {HOST} (pid " in told and "(commit 0000000)" in told, told


def another_clock_is_told():
    behind = {"LD_PRELOAD": str(pathlib.Path(arguments.other_clock).resolve()), "MUSTER_CLOCK_AHEAD": "-3600"}
    ends = Ranks(2, range(2), PARALLEL, more=lambda rank: behind if rank else {}).ends()
    assert all(code == 0 for code, _, _ in ends), ends
    told = re.findall(r"\[cluster/clocks\] the clock of (\S+) is 1 h.* behind this host's: ", ends[0][2])
    assert told == [HOST] and "[WARN]" not in ends[1][2], ends


def credentials_of_ones_own_are_for_all():
    own = run(arguments.muster, "credentials").stdout.strip()
    ends = Ranks(2, range(2), PARALLEL, more=lambda rank: {"MUSTER_CREDENTIALS": own}).ends()
    has_trained("".join(ends[0][1:]), "RANK and WORLD_SIZE", 2)
    patience = {"MUSTER_JOIN_TIMEOUT": "25s"}  # rank 0 waits that long for one that is not let in
    ends = Ranks(2, range(2), PARALLEL, more=lambda rank: patience | ({} if rank else {"MUSTER_CREDENTIALS": own})).ends()
    assert "MUSTER_CREDENTIALS is set for rank 0 and not here; set the same for all" in ends[1][2], ends
    ends = Ranks(2, range(2), PARALLEL, more=lambda rank: patience | ({"MUSTER_CREDENTIALS": own} if rank else {})).ends()
    assert "MUSTER_CREDENTIALS is set here and not for rank 0; set the same for all" in ends[1][2], ends
    other = run(arguments.muster, "credentials").stdout.strip()
    ends = Ranks(2, range(2), PARALLEL, more=lambda rank: {
        "MUSTER_JOIN_TIMEOUT": "3s", "MUSTER_CREDENTIALS": other if rank else own}).ends()
    assert all(code != 0 for code, _, _ in ends), ends


for scenario in (launched_on_several_hosts, a_death_on_one_host_ends_all, all_are_started_again,
                 a_signal_ends_a_host_and_with_it_all, under_torchrun, torchrun_starts_all_again, under_mpi, under_others,
                 pmix_has_to_be_told_how_many, under_slurm, by_hand, a_name_that_is_loopback_is_told, an_address_of_another_host_is_told, deaths_are_told,
                 fewer_batches_are_told, who_does_not_come_is_told, what_else_is_at_the_port_is_told,
                 another_job_at_the_port_is_told, a_rank_that_is_there_already_is_told, another_commit_is_told, another_clock_is_told,
                 credentials_of_ones_own_are_for_all):
    scenario()
    print(f"ok  {scenario.__name__}", flush=True)
