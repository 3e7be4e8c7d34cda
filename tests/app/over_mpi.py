"""communication.engine: mpi (docs/communication.md): workers that mpirun has started speak through MPI. The weights are those of
one worker under native; who dies ends the job; auto says why it takes which; collectives are measured over it; a job that MPI has not started is told what to do. Its messages themselves are
ranks.mpi's."""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import launchers

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

parser = argparse.ArgumentParser()
parser.add_argument("--muster", required=True)
parser.add_argument("--modules", nargs="*", default=[], help="muster's for MPIs, that are built")
arguments = parser.parse_args()
MUSTER = str(pathlib.Path(arguments.muster).resolve())
STEPS = 40
OVER_MPI = runs.settings("communication.engine=mpi")
MPIS = (("Open MPI", "mpirun.openmpi"), ("MPICH", "mpirun.mpich"))


def logs(folder):
    return "".join(path.read_text() for path in (runs.latest(folder) / "logs").iterdir())


def weights_are_the_same(folder):
    for model, size, settings in (("mlp", 3, ()), ("mlp", 1, ()), ("mlp", 4, ("training.mode=fast",)),
                                  ("gpt", 2, ("strategy.type=sharded", "strategy.zero_stage=3")),
                                  ("gpt", 2, ("strategy.type=pipeline",))):
        wanted = runs.undisturbed(MUSTER, folder, model, STEPS)
        job = runs.write_job(folder, model, steps=STEPS)
        for mpi, mpirun in MPIS:
            done = launchers.run(mpirun, "-n", size, MUSTER, "train", job, *OVER_MPI, *runs.settings(*settings))
            told = done.stdout + done.stderr
            assert told.count(f"done after step {STEPS}") == 1, told
            assert re.search(rf"rank {size - 1} of {size} reaches the others in generation 1 over {mpi}\b", logs(folder)), logs(folder)
            fast = "training.mode=fast" in settings  # sums in any order
            assert fast or runs.weights(runs.latest(folder), STEPS) == wanted, (mpi, model, settings)


def who_dies_ends_the_job(folder):
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    for _, mpirun in MPIS:
        words = [mpirun, "-n", "3", MUSTER, "train", job, *OVER_MPI, *runs.settings("evaluation.every=end")]
        ranks = subprocess.Popen([str(word) for word in words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 env=launchers.CLEAN | {"TEST_WORKPLACE": os.environ["TEST_WORKPLACE"]})
        runs.STARTED.append(ranks)
        told = launchers.read_until(ranks, "step 100/")
        found = subprocess.run(["pgrep", "-f", f"muster-worker --run {runs.latest(folder)}"], capture_output=True, text=True, check=True)
        os.kill(int(found.stdout.split()[-1]), signal.SIGKILL)
        told += ranks.communicate(timeout=runs.DEADLINE)[0]
        assert ranks.returncode != 0 and "killed by SIGKILL" in told, told
        assert "started anew" not in told, told
        assert not runs.holders_of_memory(os.environ["TEST_WORKPLACE"]), "somebody is left"


def auto_says_what_it_takes_and_why(folder):
    job = runs.write_job(folder, "mlp", steps=STEPS)
    auto = runs.settings("communication.engine=auto")
    for mpi, mpirun in MPIS:
        done = launchers.run(mpirun, "-n", 2, MUSTER, "train", job, *auto)
        told = done.stdout + done.stderr
        why = f"communication.engine auto: native; all 2 processes that {mpi} has started are on one host, and share memory"
        assert told.count(why) == 1, told
        kept = (runs.latest(folder) / "resolved.yaml").read_text()
        assert re.search(r"^  engine: native +# communication.engine: auto$", kept, re.MULTILINE), kept
    done = subprocess.run([MUSTER, "train", job, "--workers", "2", *auto], capture_output=True, text=True, check=False,
                          env=launchers.CLEAN | {"TEST_WORKPLACE": os.environ["TEST_WORKPLACE"]}, timeout=runs.DEADLINE)
    told = done.stdout + done.stderr
    assert done.returncode == 0 and "communication.engine auto: native; no MPI has started processes for this job" in told, told


def collectives_are_measured(_):
    for _, mpirun in MPIS:
        done = launchers.run(mpirun, "-n", 3, MUSTER, "bench", "comm", "--engine", "mpi", "--ops", "all", "--sizes", "4KiB,1MiB",
                             "--time", "2 ms", "--json")
        found = json.loads(done.stdout.splitlines()[0])  # rank 0's alone; MPICH's UCX may write a warning after it
        assert (found["ranks"], found["transport"], len(found["timings"])) == (3, "mpi", 10), found
        assert "error" not in done.stderr and "have not come" not in done.stderr, done.stderr


def mpi_has_to_have_started_it(folder):
    job = runs.write_job(folder, "mlp", steps=STEPS)
    done = subprocess.run([MUSTER, "train", job, "--workers", "2", *OVER_MPI], capture_output=True, text=True, check=False,
                          env=launchers.CLEAN, timeout=runs.DEADLINE)
    told = done.stdout + done.stderr
    assert done.returncode == 2 and "start it as `mpirun -n 4 muster train JOB`" in told, told
    done = launchers.run("mpirun.openmpi", "-n", 2, MUSTER, "train", job, *OVER_MPI, code=None,
                         environment=launchers.CLEAN | {"MUSTER_MPI": "/nowhere/mpi-own.so"})
    assert done.returncode != 0 and "/nowhere/mpi-own.so: cannot open shared object file" in done.stdout + done.stderr, done
    done = launchers.run("mpirun.openmpi", "-n", 2, MUSTER, "train", job, *OVER_MPI, *runs.settings("workers.max_restarts=2"), code=None)
    assert done.returncode == 2 and "has the workers that MPI has started" in done.stdout + done.stderr, done


assert arguments.modules, "no module for an MPI is built, so ranks.mpi-openmpi and ranks.mpi-mpich are not there either: there is no " \
    "mpicc, which `script/dependencies --for test` installs; with -DMUSTER_MPI=OFF this test is not there"
with runs.workplace() as workplace:
    runs.write_data(workplace)
    for scenario in (weights_are_the_same, who_dies_ends_the_job, auto_says_what_it_takes_and_why, collectives_are_measured, mpi_has_to_have_started_it):
        begun = time.monotonic()
        scenario(workplace)
        print(f"ok  {scenario.__name__}  {time.monotonic() - begun:.1f} s", flush=True)
