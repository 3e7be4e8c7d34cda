"""muster submit slurm in a real Slurm of three nodes: on one and on several, with one worker and with three, all take part, and
the weights are those of a plain training.
Ahead of the end of its time a job saves, goes back to the queue and goes on there; one that is cancelled saves."""
import argparse
import contextlib
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

import slurm

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

parser = argparse.ArgumentParser()
parser.add_argument("--muster", required=True)
MUSTER = pathlib.Path(parser.parse_args().muster).resolve()
NODES = [socket.gethostname() + number for number in ("", "2", "3")]
STEPS = 60
OVER = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "PREEMPTED"}


class Cluster:
    def __init__(self, folder, environment):
        self.folder, self.environment, self.jobs = folder, environment, []

    def tries(self, *words):
        return subprocess.run([*map(str, words)], env=self.environment, cwd=self.folder, capture_output=True, text=True,
                              timeout=60, check=False)

    def run(self, *words):
        done = self.tries(*words)
        assert done.returncode == 0, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def submit(self, job, *flags):
        said = self.run(MUSTER, "submit", "slurm", job, *flags)
        self.jobs.append(Submitted(self, re.fullmatch(r"Submitted batch job (\d+)\n", said)[1], job))
        return self.jobs[-1]


class Submitted:
    def __init__(self, cluster, number, job):
        self.cluster, self.number = cluster, number
        self.runs = job.parent / "runs" / f"{job.stem}-{number}"

    def shown(self, key):
        return re.search(rf"\b{key}=(\S+)", self.cluster.run("scontrol", "show", "job", self.number))[1]

    def is_over(self):
        return self.shown("JobState") in OVER

    def output(self):
        path = self.cluster.folder / f"slurm-{self.number}.out"
        return path.read_text() if path.exists() else ""

    def run_folder(self):
        return (self.runs / "latest").resolve()

    def wait_for(self, what, name):
        end = time.monotonic() + runs.DEADLINE
        while not what():
            assert time.monotonic() < end, f"{name} did not come; {self.shown('JobState')}:\n{self.output()}"
            time.sleep(0.05)

    def wait_for_step(self, step):
        def has_come():
            assert not self.is_over(), f"ended before step {step}:\n{self.output()}"
            return any(row["step"] >= step for row in runs.rows(self.run_folder()))
        self.wait_for(has_come, f"step {step}")

    def ends(self, state, code):
        self.wait_for(self.is_over, "the end")
        assert (self.shown("JobState"), self.shown("ExitCode")) == (state, code), \
            f"{self.shown('JobState')} {self.shown('ExitCode')}:\n{self.output()}"


@contextlib.contextmanager
def slurm_of(*nodes):
    with tempfile.TemporaryDirectory() as folder, slurm.cluster(folder, nodes) as found:
        own = {key: value for key, value in found.items() if not key.startswith("MUSTER_")}
        cluster = Cluster(pathlib.Path(folder), own)
        try:
            yield cluster
        finally:  # what a failure has left running
            for job in cluster.jobs:
                cluster.tries("scancel", job.number)
                job.wait_for(job.is_over, "its end")


def has_trained_on_all(job, nodes, times=1):
    """That the launcher told of the arrivals each time, and srun's tasks what the workers said, with their numbers."""
    arrived = [row["text"] for row in runs.records(job.run_folder(), "notice") if " joins" in row["text"]]
    others = range(1, nodes)
    assert sorted(int(re.match(r"worker (\d+) of ", text)[1]) for text in arrived) == sorted([*others] * times), arrived
    trained = re.findall(rf"^\d: .* rank (\d+) of {nodes} in generation 1: ", job.output(), re.MULTILINE)
    assert sorted(map(int, trained)) == sorted([*others] * times), job.output()


def trains_on_several_nodes(cluster, folder, alone):
    for nodes in (2, 3):
        file = runs.write_job(folder, "mlp", steps=STEPS)
        flags = ("--nodes", nodes, "--cpus-per-worker", 1, *runs.settings(f"workers.min_workers={nodes}"))
        job = cluster.submit(file, *flags)
        job.ends("COMPLETED", "0:0")
        has_trained_on_all(job, nodes)
        script = cluster.folder / f"script-{nodes}"
        cluster.run("scontrol", "write", "batch_script", job.number, script)
        assert script.read_text() == cluster.run(MUSTER, "submit", "slurm", file, *flags, "--dry-run")
        assert runs.weights(job.run_folder(), STEPS) == alone, nodes


def trains_on_one_node(cluster, folder, alone):
    for workers in (1, 2, 3):
        job = cluster.submit(runs.write_job(folder, "mlp", steps=STEPS), "--workers-per-node", workers, "--cpus-per-worker", 1,
                             "--time", "10", "--partition", "all", "--sbatch=--comment='two words'")
        job.ends("COMPLETED", "0:0")
        shown = cluster.run("scontrol", "show", "job", job.number)
        assert job.shown("TimeLimit") == "00:10:00" and "Comment=two words" in shown, shown
        assert re.search(rf"^muster .* · {workers} worker", job.output(), re.MULTILINE), job.output()
        assert runs.weights(job.run_folder(), STEPS) == alone, workers


def goes_on_from_the_queue_and_is_cancelled(cluster, folder, _):
    file = runs.write_job(folder, "mlp", steps=10**6)
    job = cluster.submit(file, "--nodes", 2, "--cpus-per-worker", 1,
                         *runs.settings("workers.min_workers=2", *runs.UNTIL_STOPPED))
    job.wait_for_step(20)
    run = job.run_folder()
    steps = cluster.run("squeue", "--steps", "--noheader", "--format=%i %N", f"--jobs={job.number}").split("\n")
    of_others = [line.split()[1] for line in steps if line.startswith(f"{job.number}.0 ")]
    assert len(of_others) == 1 and of_others != [job.shown("BatchHost")], f"the other workers are elsewhere: {steps}"
    cluster.run("scancel", "--batch", "--signal=USR1", job.number)  # as Slurm does ahead of the end of the time
    job.wait_for(lambda: job.shown("Restarts") == "1", "its restart")

    def begins_again():  # Slurm would wait for two minutes
        if job.shown("JobState") == "PENDING":
            cluster.tries("scontrol", "update", f"JobId={job.number}", "StartTime=now")
        return "\nresumed after step " in job.output()
    job.wait_for(begins_again, "that it goes on")
    resumed = int(re.search(r"^resumed after step ([\d,]+)$", job.output(), re.MULTILINE)[1].replace(",", ""))
    assert resumed >= 20 and f"stopped after step {resumed:,} " in job.output(), job.output()
    job.wait_for_step(resumed + 20)
    assert job.run_folder() == run, "it is another run"
    cluster.run("scancel", job.number)
    job.ends("CANCELLED", "143:0")
    assert job.output().count("as asked, checkpoint written") == 2, job.output()
    has_trained_on_all(job, 2, times=2)
    step = max(int(path.name[5:13]) for path in run.glob("checkpoints/step-*"))
    assert step >= resumed + 20, (step, resumed)
    alone = runs.undisturbed(MUSTER, folder, "mlp", step, *runs.settings(*runs.UNTIL_STOPPED), runs="alone")
    assert runs.weights(run, step) == alone, f"other weights after step {step}\n{job.output()}"


with slurm_of(*NODES) as slurms:
    place = slurms.folder / "whoever's jobs"  # the script has to quote it
    place.mkdir()
    runs.write_data(place)
    wanted = runs.undisturbed(MUSTER, place, "mlp", STEPS, runs="alone")
    for scenario in (trains_on_several_nodes, trains_on_one_node, goes_on_from_the_queue_and_is_cancelled):
        scenario(slurms, place, wanted)
        print(f"ok  {scenario.__name__}", flush=True)
