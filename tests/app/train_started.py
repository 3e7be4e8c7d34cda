"""muster train in processes that another launcher has started (docs/clusters.md): torchrun, Open MPI's and MPICH's mpirun,
Slurm's srun, torchrun's variables set by hand. The weights are those of one worker; deaths of a worker and of a whole rank
are outlived; a signal to all saves; what is wrong ends all ranks with the same exit code."""
import argparse
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import launchers
import slurm
from launchers import CLEAN

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

parser = argparse.ArgumentParser()
for name in ("--muster", "--other-muster", "--python"):
    parser.add_argument(name, required=True)
arguments = parser.parse_args()
MUSTER = str(pathlib.Path(arguments.muster).resolve())
HOST = socket.gethostname()
STEPS = 40
# Until it is stopped: how far it is when something is done to it is up to the machine.
SETTINGS = runs.settings("evaluation.every=500 steps", *runs.UNTIL_STOPPED)
ENDLESS = (*runs.settings("training.max_steps=1000000"), *SETTINGS)


class Ranks:
    """Started by hand, as by whoever sets torchrun's variables."""

    def __init__(self, size, ranks, *words, patience="60s", command="train", folder=None, address="127.0.0.1", port=None,
                 more=lambda rank: (), program=lambda rank: MUSTER):
        self.port = port or slurm.free_ports(1)[0]
        self.command = [command, *map(str, words)]
        self.program = program
        self.more = more  # words of one rank
        self.environment = CLEAN | {"WORLD_SIZE": str(size), "MASTER_ADDR": address, "MASTER_PORT": str(self.port),
                                    "TEST_WORKPLACE": os.environ["TEST_WORKPLACE"]}
        if patience:  # none: the job's
            self.environment["MUSTER_JOIN_TIMEOUT"] = patience
        self.processes = []
        for rank in ranks:
            self.start(rank, folder)

    def start(self, rank, folder=None):
        self.processes.append(subprocess.Popen([self.program(rank), *self.command, *map(str, self.more(rank))], env=self.environment | {"RANK": str(rank)}, cwd=folder, text=True,
                                               stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        runs.STARTED.append(self.processes[-1])

    def store_answers(self):
        return launchers.answers(self.port)

    def read_until(self, words):
        """What rank 0 writes until then."""
        return launchers.read_until(self.processes[0], words)

    def worker(self, rank):
        """The training process of an agent."""
        child = lambda pid: int(subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=True).stdout)
        return child(child(self.processes[rank].pid))

    def ends(self):
        """Of each: its exit code, what it wrote, its errors. Nobody is left."""
        found = [process.communicate(timeout=runs.DEADLINE) for process in self.processes]
        assert not runs.holders_of_memory(os.environ["TEST_WORKPLACE"]), "somebody is left"
        return [(process.returncode, *texts) for process, texts in zip(self.processes, found, strict=True)]


def heeds(pid, number):
    """Whether the signal would not just end the process: it is caught, or blocked for one who asks for it."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return any(int(mask, 16) >> (number - 1) & 1 for mask in re.findall(r"^Sig(?:Cgt|Blk):\s*(\w+)$", status, re.MULTILINE))


def has_weights(folder, wanted, steps=STEPS):
    assert runs.weights(runs.latest(folder), steps) == wanted, "other weights"


def last_saved(run):
    """The step of its last checkpoint."""
    return max(int(path.name[5:13]) for path in run.glob("checkpoints/step-*"))


class Workplace:
    def __init__(self, folder):
        self.folder = folder
        runs.write_data(folder)
        self.wanted = runs.undisturbed(MUSTER, folder, "mlp", STEPS)

    def check_last(self, run):
        """Of a job with SETTINGS: the weights that were saved last are those of one worker, left alone."""
        step = last_saved(run)
        wanted = runs.undisturbed(MUSTER, self.folder, "mlp", step, *SETTINGS, runs="alone")
        assert runs.weights(run, step) == wanted, f"other weights after step {step}"

    @property
    def job(self):
        return runs.write_job(self.folder, "mlp", steps=STEPS)

    def trains(self, launcher, where, *words, environment=CLEAN):
        done = launchers.run(*words, MUSTER, "train", self.job, environment=environment)
        told = done.stdout + done.stderr
        assert told.count(f"started by {launcher}: {where}") == 1, told
        assert "\x1b" not in told, f"Open MPI's terminals are taken for a person's: {told!r}"
        assert told.count(f"done after step {STEPS}") == 1, told
        has_weights(self.folder, self.wanted)


def under_torchrun(place):
    place.trains("torchrun", "1 worker here", *launchers.torchrun(arguments.python, "--standalone", "--nproc-per-node", 1))
    place.trains("torchrun", "3 workers here", *launchers.torchrun(arguments.python, "--standalone", "--nproc-per-node", 3))
    # Its store still has the place of the first training as the second begins.
    twice = f"{MUSTER} train {place.job} && {MUSTER} train {place.job}"
    done = launchers.run(*launchers.torchrun(arguments.python, "--standalone", "--nproc-per-node", 3), "sh", "-c", twice)
    assert (done.stdout + done.stderr).count(f"done after step {STEPS}") == 2, done


def under_mpi(place):
    for size, where in ((1, "1 worker here"), (3, "3 workers here")):
        place.trains("Open MPI", where, "mpirun.openmpi", "-n", size)
        place.trains("MPICH", where, "mpirun.mpich", "-n", size)


def a_terminal_of_mpiruns_is_nobodys(place):
    """Open MPI's gives each rank one, also where what they write goes into a file."""
    for words in (("top", runs.latest(place.folder)), ("doctor",)):
        done = launchers.run("mpirun.openmpi", "-n", 1, MUSTER, *words)
        assert done.stdout and "\x1b" not in done.stdout + done.stderr, done


def under_slurm(place):
    with tempfile.TemporaryDirectory() as folder, slurm.cluster(folder, [HOST, HOST + "2"]) as found:
        environment = CLEAN | {key: found[key] for key in ("SLURM_CONF", "PATH")}
        place.trains("Slurm", "3 workers here", "srun", "--nodes=1", "--ntasks=3", environment=environment)
        place.trains("Slurm", "3 workers here", "srun", "--nodes=2", "--ntasks=3", environment=environment)
        # A batch script is no rank, and a step of one is alone.
        out = pathlib.Path(folder) / "batch.txt"
        script = f"{MUSTER} train {place.job} --workers 2 && srun --ntasks=1 {MUSTER} train {place.job}"
        launchers.run("sbatch", "--wait", "--ntasks=2", f"--output={out}", f"--wrap={script}", environment=environment)
        batch, step = out.read_text().split("done after step", 1)
        assert "started by" not in batch and step.count("done after step") == 1, out.read_text()
        assert step.count("started by Slurm: 1 worker here") == 1, step


def every_strategy(place):
    runs.undisturbed(MUSTER, place.folder, "gpt", STEPS)
    wanted = runs.weights(runs.latest(place.folder), STEPS)
    job = runs.write_job(place.folder, "gpt", steps=STEPS)
    for size, words in ((2, ("strategy.type=pipeline",)), (3, ("strategy.type=sharded", "strategy.zero_stage=3")),
                        (4, ("strategy.type=hybrid", "strategy.mesh.shard=2", "strategy.mesh.pipeline=2"))):
        ends = Ranks(size, range(size), job, *runs.settings(*words)).ends()
        assert all(code == 0 for code, _, _ in ends), ends
        assert not any(told for _, told, _ in ends[1:]), "only rank 0 writes"
        has_weights(place.folder, wanted)


def a_worker_that_dies_is_started_anew(place):
    ranks = Ranks(3, range(3), place.job, *ENDLESS)
    ranks.read_until("step 100/")
    os.kill(ranks.worker(2), signal.SIGKILL)
    told = ranks.read_until("worker 2 is started anew")
    assert "2 workers are left, going on" in told, told
    run = runs.latest(place.folder)
    runs.wait_for_newcomer(run, 2)
    for process in ranks.processes:
        process.send_signal(signal.SIGTERM)
    ends = ranks.ends()
    assert all(code == 143 for code, _, _ in ends), ends
    place.check_last(run)


def a_rank_that_dies_is_outlived(place):
    ranks = Ranks(3, range(3), place.job, *ENDLESS)
    ranks.read_until("step 100/")
    ranks.processes[1].kill()
    told = ranks.read_until("generation 2 of 2 workers stands")
    run = runs.latest(place.folder)
    runs.goes_on(ranks.processes[0], run)
    for rank in (0, 2):
        ranks.processes[rank].terminate()
    ends = ranks.ends()
    assert [code for code, _, _ in ends] == [143, -signal.SIGKILL, 143], ends
    told += ends[0][1] + ends[0][2]
    assert "lost its RANK and WORLD_SIZE session" in told, told
    assert "started anew" not in told, "nobody can start one in its place"
    place.check_last(run)


def without_rank_0_all_end(place):
    ranks = Ranks(3, range(3), place.job, *runs.settings("training.max_steps=1000000"))
    ranks.read_until("step 100/")
    ranks.processes[0].kill()
    for code, _, told in ranks.ends()[1:]:
        assert code == 1 and "the launcher (rank 0 at 127.0.0.1:" in told, (code, told)


def a_signal_to_all_saves(place):
    for number in (signal.SIGTERM, signal.SIGUSR1):
        ranks = Ranks(3, range(3), place.job, *ENDLESS)
        ranks.read_until("step 100/")
        for process in ranks.processes:
            process.send_signal(number)
        ends = ranks.ends()
        assert all(code == 128 + number for code, _, _ in ends), ends
        assert "as asked, checkpoint written" in ends[0][1], ends
    step = last_saved(runs.latest(place.folder))
    more = runs.settings(f"training.max_steps={step + STEPS}")
    ends = Ranks(2, range(2), place.job, *SETTINGS, *more, "--resume").ends()
    assert all(code == 0 for code, _, _ in ends), ends
    run = runs.latest(place.folder)
    assert last_saved(run) == step + STEPS, "not all steps were taken"
    place.check_last(run)


def a_signal_that_comes_twice_is_one(place):
    """As timeout(1) and shells send it; the step and its checkpoint take longer than an agent waits for the job's end."""
    job = runs.write_job(place.folder, "gpt", steps=STEPS)
    ranks = Ranks(3, range(3), job, *runs.settings("training.global_batch_size=488", "model.n_embd=256", "model.n_layer=4",
                                                   "strategy.type=sharded", "evaluation.every=end",
                                                   "stragglers.compare_every=1h"))  # nobody is to be called late
    ranks.read_until("step 1/")
    for process in ranks.processes:
        for _ in range(2):  # at once: what comes later insists
            process.send_signal(signal.SIGTERM)
    ends = ranks.ends()
    assert all(code == 143 for code, _, _ in ends), ends
    assert "as asked, checkpoint written" in ends[0][1], ends
    assert "[WARN]" not in ends[0][1] + ends[0][2], ends


def a_signal_to_one_lets_its_worker_go(place):
    ranks = Ranks(3, range(3), place.job, *runs.settings("training.max_steps=1000000", "evaluation.every=end"))
    ranks.read_until("step 100/")
    ranks.processes[1].terminate()
    ranks.read_until("worker 1 was told to go and leaves with the step")
    ranks.read_until("generation 2 of 2 workers stands")
    ranks.processes[0].terminate()
    assert [code for code, _, _ in ranks.ends()] == [143] * 3


def mistakes_end_all(place):
    for words, message in ((("--set", "training.epochz=3"), "did you mean `training.epochs`?"),
                           (("--workers", "4"), "3 processes were started by RANK and WORLD_SIZE, and the job has 4 workers"),
                           (("--hosts", "localhost:2,node7"), "processes for them are started by RANK and WORLD_SIZE"),
                           (("--set", "workers.hosts=[localhost:2, node7]"), "workers.hosts has workers started by ssh")):
        ends = Ranks(3, range(3), place.job, *words).ends()
        assert all(code == 2 for code, _, _ in ends), ends
        assert message in ends[0][2], ends[0][2]
        assert all("ended with exit code 2, which rank 0 explains" in told for _, _, told in ends[1:]), ends
    # With fewer workers some processes have none.
    ends = Ranks(3, range(3), place.job, "--workers", "2").ends()
    assert all(code == 0 for code, _, _ in ends) and "2 workers here; 1 more have none" in ends[0][1], ends
    done = launchers.run(MUSTER, "launch", "--nproc-per-node", 1, "--", MUSTER, "train", place.job, code=None)
    assert done.returncode != 0 and "leave `muster launch` out" in done.stdout + done.stderr, done


def one_job_is_for_all(place):
    job = place.job
    # Where it lies, and what a comment says, does not matter.
    same = place.folder / "same.yaml"
    same.write_text(f"# the same\n{job.read_text()}")
    ends = Ranks(2, range(2), more=lambda rank: ((job, same)[rank],)).ends()
    assert all(code == 0 for code, _, _ in ends), ends
    has_weights(place.folder, place.wanted)
    missing = place.folder / "missing.yaml"
    for odd, message in (((job, "--set", "training.max_steps=7"), f"has `training.max_steps: 7` by {job}, rank 0 on {HOST} (pid "),
                         ((missing,), f"cannot read its own, {missing} (that of rank 0 on {HOST} (pid ")):
        before = runs.latest(place.folder)
        ends = Ranks(3, range(3), more=lambda rank: odd if rank == 2 else (job,)).ends()
        assert all(code == 2 for code, _, _ in ends), ends
        for _, _, told in (ends[0], ends[2]):
            assert "all ranks need the same job" in told and f"rank 2 on {HOST} (pid " in told and message in told, ends
        assert "ended with exit code 2, which rank 0 explains" in ends[1][2], ends
        assert runs.latest(place.folder) == before, "no run was begun"


def another_job_at_the_port_is_told(place):
    first = Ranks(3, (0, 1), place.job, patience="120s")
    launchers.wait_for_port(first.port)
    owner = f"port {first.port} of 127.0.0.1 already serves another job: 3 ranks started by RANK and WORLD_SIZE, rank 0 is pid {first.processes[0].pid} on {HOST}; "
    other = "--set", "training.max_steps=7"
    for size, rank, words, difference in ((2, 1, (), "this one has 2 ranks"), (3, 0, other, "this one has a rank 0 of its own"),
                                          (3, 2, other, "was turned away there")):
        [process] = Ranks(size, (rank,), place.job, *words, port=first.port).processes
        told = process.communicate(timeout=runs.DEADLINE)[1]
        assert process.returncode == 3 and owner + "this one" in told and difference in told, (process.returncode, told)
    first.start(2)
    ends = first.ends()
    assert all(code == 0 for code, _, _ in ends), ends
    has_weights(place.folder, place.wanted)


def another_commit_is_told(place):
    folder = place.folder / "another commit"
    folder.mkdir()
    other = shutil.copy(arguments.other_muster, folder / "muster")
    (folder / "muster-worker").symlink_to(pathlib.Path(MUSTER).parent / "muster-worker")
    for odd in (0, 1):
        before = runs.latest(place.folder)
        ends = Ranks(2, range(2), place.job, program=lambda rank, odd=odd: other if rank == odd else MUSTER).ends()
        assert all(code == 2 for code, _, _ in ends), ends
        for _, _, told in ends:
            assert "all ranks need the same muster" in told and "(commit 0000000)" in told, ends
            assert all(f"rank {rank} on {HOST} (pid " in told for rank in (0, 1)), ends
        assert runs.latest(place.folder) == before, "no run was begun"


def under_others(place):
    for size, where in ((1, "1 worker here"), (2, "2 workers here"), (3, "3 workers here")):
        for launcher, (rank, variables) in launchers.by_variables(size).items():
            place.trains(launcher, where, *launchers.ranks_of(size, rank), environment=CLEAN | variables)


def a_pod_that_is_not_told_of_others_is_refused(place):
    """Each of N would train a job of its own."""
    before = runs.latest(place.folder)
    for index in ("0", "1"):
        done = launchers.run(MUSTER, "train", place.job, environment=CLEAN | {"JOB_COMPLETION_INDEX": index}, code=2)
        told = done.stdout + done.stderr
        assert "an indexed Job of Kubernetes: JOB_COMPLETION_INDEX is set, but WORLD_SIZE is not" in told, told
    assert runs.latest(place.folder) == before, "a run was begun"


def who_does_not_come_is_told(place):
    ends = Ranks(4, (0, 2), place.job, patience="90s").ends()
    assert [code for code, _, _ in ends] == [1, 1], ends
    assert "rank 0 of 4, started by RANK and WORLD_SIZE: rank 1, 3 of 4 did not come within 1 min 30 s " \
        "(MUSTER_JOIN_TIMEOUT); each is to be started like this one, with its RANK, WORLD_SIZE=4, MASTER_ADDR=127.0.0.1 " \
        in ends[0][2], ends
    [(code, _, told)] = Ranks(2, (1,), place.job, patience="1s").ends()
    assert code == 3 and "rank 0 should keep torch's store at 127.0.0.1:" in told, told
    assert "rank 0 did not come within 1.0 s (MUSTER_JOIN_TIMEOUT)" in told, told
    # A second rank 1 is sent away; the first trains on with the others, of which the last comes only then.
    ranks = Ranks(3, (0, 1, 1), place.job, patience="120s")
    runs.wait_for(lambda: any(process.poll() is not None for process in ranks.processes), "the second of the two")
    ranks.start(2)
    codes = [code for code, _, _ in ranks.ends()]
    assert sorted(codes) == [0, 0, 0, 2] and codes[0] == 0, codes


def the_patience_of_the_job_holds(place):
    """Where nobody says another one; of rank 0, which is missed by others, and of whoever rank 0 misses."""
    short = runs.settings("workers.join_timeout=4s")
    [(code, _, told)] = Ranks(2, (0,), place.job, *short, patience=None).ends()
    assert code == 1 and "rank 1 of 2 did not come within 4.0 s (workers.join_timeout)" in told, told
    [(code, _, told)] = Ranks(2, (1,), place.job, *short, patience=None).ends()
    assert code == 3 and "rank 0 did not come within 4.0 s (workers.join_timeout)" in told, told
    [(code, _, told)] = Ranks(2, (0,), runs.latest(place.folder), *short, command="resume", patience=None).ends()
    assert code == 1 and "rank 1 of 2 did not come within 4.0 s (workers.join_timeout)" in told, told


def an_address_of_another_host_is_told(place):
    [(code, out, told)] = Ranks(2, (0,), place.job, patience="3s", address="198.51.100.7").ends()
    assert code != 0 and "198.51.100.7 (MASTER_ADDR) is no address of this host" in out + told, out + told
    assert "set MASTER_ADDR, for all ranks, to " in out + told, out + told


def a_signal_while_others_are_awaited(place):
    ranks = Ranks(3, (0, 1), place.job, patience="300s")
    runs.wait_for(ranks.store_answers, "the store")
    for process in ranks.processes:
        runs.wait_for(lambda pid=process.pid: heeds(pid, signal.SIGTERM), "a rank that can be told to stop")
    time.sleep(1)  # rank 1 may be asking it, or be there
    for process in ranks.processes:
        process.terminate()
    assert [code for code, _, _ in ranks.ends()] == [143, 143]


def resume_needs_no_run_folder_elsewhere(place):
    ranks = Ranks(2, (0,), runs.latest(place.folder), command="resume", patience="120s", folder=place.folder)
    ranks.start(1, folder="/")
    ends = ranks.ends()
    assert [code for code, _, _ in ends] == [0, 0], ends


def a_comparison_is_one_process(place):
    [(code, _, told)] = Ranks(2, (1,), place.job, "--strategies", "data,sharded", command="compare").ends()
    assert code == 2 and "2 processes were started by RANK and WORLD_SIZE, and each would compare" in told, told


with runs.workplace() as workplace:
    everything = Workplace(workplace)
    for scenario in (under_torchrun, under_mpi, a_terminal_of_mpiruns_is_nobodys, under_slurm, every_strategy, a_worker_that_dies_is_started_anew,
                     a_rank_that_dies_is_outlived, without_rank_0_all_end, a_signal_to_all_saves,
                     a_signal_that_comes_twice_is_one, a_signal_to_one_lets_its_worker_go, mistakes_end_all, one_job_is_for_all,
                     another_job_at_the_port_is_told, another_commit_is_told, under_others, a_pod_that_is_not_told_of_others_is_refused, who_does_not_come_is_told, the_patience_of_the_job_holds,
                     an_address_of_another_host_is_told, a_signal_while_others_are_awaited, resume_needs_no_run_folder_elsewhere, a_comparison_is_one_process):
        begun = time.monotonic()
        scenario(everything)
        print(f"ok  {scenario.__name__}  {time.monotonic() - begun:.1f} s", flush=True)
