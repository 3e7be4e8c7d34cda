"""A firewall between two workers that both reach everybody else, as of a network that lets through what goes to its head node: before
the first step all are told who cannot reach whom, and what to do. Of loops with muster::join() and of muster train, as mpirun,
torchrun, srun's variables and torchrun's start them: ranks of three hosts, which are network namespaces."""
import argparse
import os
import pathlib
import re
import subprocess
import sys

for folder in ("app", "resume"):
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / folder))
import launchers
import network
import runs
from ports import free_ports

SKIPPED = 77  # what CTest takes for it
STEPS = 40
FIRST, SECOND = "10.77.0.10", "10.77.0.11"  # of ranks 1 and 2; rank 0 is at the test's own end of the bridge
TOLD = re.compile(rf"rank 2 \({re.escape(SECOND)}\) cannot reach rank 1 \({re.escape(FIRST)}\) in generation \d: .*; a firewall .*"
                  r"have to reach each other at any port above 1023")
# To be on hosts that share no memory, of which the kernel knows nothing.
ENTER = """#!/bin/sh
rank=${RANK:-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$SLURM_PROCID}}}
case $rank in
"""
ENTER_ONE = """{rank}) exec {inside} unshare -m sh -c 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"' {boot_id} "$@" ;;
"""


class Stage:
    def __init__(self, arguments, folder, places):
        self.muster = str(pathlib.Path(arguments.muster).resolve())
        self.loop = str(pathlib.Path(arguments.programs) / "parallel")
        self.python, self.folder, self.places = arguments.python, folder, places
        self.enter = folder / "enter"
        lines = []
        for rank, inside in enumerate(((), *(place.inside for place in places))):
            boot_id = folder / f"boot-id-{rank}"
            boot_id.write_text(f"{rank:08}-0000-4000-8000-000000000000\n")
            lines.append(ENTER_ONE.format(rank=rank, inside=" ".join(inside), boot_id=boot_id))
        self.enter.write_text(ENTER + "".join(lines) + "esac\n")
        self.enter.chmod(0o755)

    def environment(self):
        return launchers.CLEAN | {"MASTER_ADDR": network.HUB, "MASTER_PORT": str(free_ports(1)[0]), "MUSTER_JOIN_TIMEOUT": "60s",
                                  "TEST_WORKPLACE": os.environ["TEST_WORKPLACE"]}

    def start(self, *words, environment):
        process = subprocess.Popen([*map(str, words)], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        runs.STARTED.append(process)
        return process

    def by_variables(self, rank, others, *words):
        """Exit code and output of each of three ranks, of which each is told its own by the variable `rank`."""
        common = self.environment() | others
        ranks = [self.start(self.enter, *words, environment=common | {rank: str(number)}) for number in range(3)]
        told = [each.communicate(timeout=runs.DEADLINE)[0] for each in ranks]
        return [(each.returncode, text) for each, text in zip(ranks, told, strict=True)]

    def by(self, launcher, *words):
        """Exit code and output of the launcher."""
        process = self.start(*launcher, self.enter, *words, environment=self.environment())
        told = process.communicate(timeout=runs.DEADLINE)[0]
        return process.returncode, told

    def wall(self):
        return network.Firewall(at=self.places[0], sender=self.places[1])


def has_begun(told):
    return re.search(r"^\d+ \d+\.\d+$", told, re.MULTILINE) or "step 1/" in told


def all_ranks_of_a_loop_are_told(stage):
    """Each by itself, whatever becomes of the others; also those that reach everybody."""
    slurm = {"SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_NUM_NODES": "3", "SLURM_STEP_NODELIST": "nobody", "SLURM_JOB_ID": "7",
             "SLURM_STEP_ID": "0"}
    for rank, others, launcher in (("RANK", {"WORLD_SIZE": "3"}, "RANK and WORLD_SIZE"), ("SLURM_PROCID", slurm, "Slurm")):
        with stage.wall():
            ends = stage.by_variables(rank, others, stage.loop)
        for number, (code, told) in enumerate(ends):
            assert code != 0 and TOLD.search(told) and not has_begun(told), (number, told)
            assert f"rank {number} of 3, started by {launcher}" in told, (number, told)
            missed = 1 if number == 2 else 2
            assert re.search(rf"; rank {missed} is pid \d+ on {stage.places[missed - 1].name}\b", told), (number, told)
    ends = stage.by_variables("RANK", {"WORLD_SIZE": "3"}, stage.loop)
    assert all(code == 0 and "firewall" not in told for code, told in ends) and has_begun(ends[0][1]), ends


def launchers_of_a_loop_show_it(stage):
    for launcher in (("mpirun.openmpi", "-n", 3), ("mpirun.mpich", "-n", 3),
                     launchers.torchrun(stage.python, "--nproc-per-node", 3, "--master-addr", network.HUB,
                                        "--master-port", free_ports(1)[0])):
        with stage.wall():
            code, told = stage.by(launcher, stage.loop)
        assert code != 0 and TOLD.search(told) and not has_begun(told), (launcher, told)


def a_training_is_told_and_goes_on_without_one(stage):
    job = runs.write_job(stage.folder, "mlp", steps=STEPS)
    with stage.wall():
        ends = stage.by_variables("RANK", {"WORLD_SIZE": "3"}, stage.muster, "train", job)
    code, told = ends[0]
    assert code == 0 and f"done after step {STEPS}" in told, ends
    before = told.split("step 1/", 1)[0]
    assert TOLD.search(before) and "worker 2 " in before, told


def a_training_that_needs_all_ends(stage):
    job = runs.write_job(stage.folder, "mlp", steps=STEPS)
    words = ("train", job, *runs.settings("workers.min_workers=3", "workers.join_timeout=15s"))
    with stage.wall():
        code, told = stage.by(("mpirun.openmpi", "-n", 3), stage.muster, *words)
    assert code != 0 and TOLD.search(told) and not has_begun(told), told


def main():
    parser = argparse.ArgumentParser()
    for name in ("--muster", "--programs", "--python"):
        parser.add_argument(name, required=True)
    arguments = parser.parse_args()
    if not network.enter():
        runs.leave_out("this system does not allow network namespaces, bridges or tc")
        sys.exit(SKIPPED)
    if not network.Firewall.is_allowed():
        runs.leave_out("this system does not route by ports")
        sys.exit(SKIPPED)
    with runs.workplace() as folder:
        runs.write_data(folder)
        places = [network.Place(number) for number in range(2)]
        assert [place.address for place in places] == [FIRST, SECOND]
        try:
            stage = Stage(arguments, folder, places)
            for scenario in (all_ranks_of_a_loop_are_told, launchers_of_a_loop_show_it,
                             a_training_is_told_and_goes_on_without_one, a_training_that_needs_all_ends):
                scenario(stage)
                print(f"ok  {scenario.__name__}", flush=True)
        finally:
            for place in places:
                place.close()


if __name__ == "__main__":
    main()
