"""Workers into which faults are built (faulty_worker.cc), in the place of the product's own: what happens to which
of them, and where. For the tests of this folder."""
import itertools
import os
import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs


def install(folder, muster, worker):
    """A muster whose workers are faulty ones."""
    (folder / "bin").mkdir()
    shutil.copy(muster, folder / "bin/muster")
    (folder / "bin/muster-worker").symlink_to(pathlib.Path(worker).resolve())
    return folder / "bin/muster"


def endless(folder, arguments, name, step, *flags, **options):
    """Three faulty workers of one lane each, which train an mlp in the folder `name` until they are stopped and have
    taken so many steps: the process, its run, and their faults."""
    runs.write_data(folder)
    muster = install(folder, arguments.muster, arguments.worker)
    faults = Faults(folder / "faults")
    process = runs.endless(muster, folder, name, "--workers", "3", "--set", "training.lanes=1", *flags,
                           env=faults.environment(), **options)
    return process, runs.wait_for_step(process, folder, step, name), faults


class Faults:
    """What is to happen to the workers of one job, and what has happened."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()

    def environment(self, **more):
        """For the job; with MUSTER_PASSES its workers, of one lane each, write down what they compute."""
        return dict(os.environ, MUSTER_FAULTS=str(self.folder), **more)

    def arm(self, worker, act, place):
        """The worker of that number, or whoever is started in its place, will be struck there."""
        path = self.folder / f"worker-{worker}"
        path.with_suffix(".struck").unlink(missing_ok=True)
        path.with_suffix(".new").write_text(f"{act} {place}")
        path.with_suffix(".new").rename(path)

    def struck(self, worker):
        """What the worker itself wrote down when it was struck: when, and where."""
        path = self.folder / f"worker-{worker}.struck"
        when, where = runs.wait_for(path.read_text, f"a fault of worker {worker}").split(" ", 1)
        return float(when), where.strip()

    def release(self, worker):
        """A worker that was struck by "stall" goes on."""
        runs.wait_for((self.folder / f"stalled-{worker}").exists, f"worker {worker} to stall")
        (self.folder / f"stalled-{worker}").unlink()

    def passes(self, worker):
        """The passes forward that it has begun: the step and slice of each, in their order."""
        path = self.folder / f"passes-{worker}"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [re.match(r"(\d+) forward of slice (\d+)", line) for line in lines]
        told = [(int(one[1]), int(one[2])) for one in found]
        return [one for one, _ in itertools.groupby(told)]  # a pass may be told more than once


def step_of(where):
    """Of a place, "at step 31, updating"."""
    return int(re.match(r"at step (\d+)", where)[1])
