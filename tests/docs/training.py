"""A training in the reader's place, of a small copy of what the page trains, that goes on until it is stopped."""
import re
import shlex
import shutil
import signal
import threading

import faulty
import place
import runs
import shapes

ATTEMPTS = 12
# The images of jobs/fashion.yaml in small, and nothing in between but checkpoints.
SMALL = ("data.path=tiny", "model.channels=[4]", "training.lanes=1", "training.epochs=1000000", "training.global_batch_size=24",
         "workers.max_restarts=1000", "evaluation.every=end", "checkpoint.every=20 steps")
# What a worker was doing when it died is up to the moment.
ANY_MOMENT = {runs.DOING + r"(?=;|$)": runs.DOING}


class Training:
    """A job of the place, started by a page's command; its lines as they come."""

    def __init__(self, page, command, *settings, base=SMALL, variables=None):
        self.place = page.place()
        if not (self.place.folder / "tiny").exists():
            (self.place.folder / "tiny").mkdir()
            runs.write_data(self.place.folder / "tiny")
        for link in self.place.folder.glob("runs/*/latest"):
            link.unlink()  # it names the run of the block before
        words = shlex.join(runs.settings(*base, *settings))
        self.process = self.place.start(f"exec {command} {words}", variables)
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(line for line in self.process.stdout))
        self.reader.start()

    def text(self):
        return "".join(self.lines)

    def wait_for(self, pattern, begin=0):
        """The first line from `begin` on in which this is."""
        def find():
            found = next((line for line in self.lines[begin:] if re.search(pattern, line)), None)
            assert found or self.process.poll() is None, f"ended without `{pattern}`:\n{self.text()}"
            return found
        return runs.wait_for(find, pattern)

    def wait_for_step(self, step):
        def reached():
            assert self.process.poll() is None, f"ended before step {step}:\n{self.text()}"
            return any(row["step"] >= step for row in runs.rows(self.run()))
        runs.wait_for(reached, f"step {step}")
        return self

    def run(self):
        """Its folder; OSError while there is none."""
        for link in self.place.folder.glob("runs/*/latest"):
            return link.resolve()
        raise FileNotFoundError("no run yet")

    def pid(self, worker):
        return runs.wait_for(lambda: runs.workers_of(self.process).get(worker), f"worker {worker}")

    def kill(self, *workers):
        """All of them at once."""
        pids = [self.pid(worker) for worker in workers]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                runs.kill(pid, number)

    def goes_on(self):
        """Until a step behind those of now is told."""
        last = max((row["step"] for row in runs.rows(self.run())), default=0)
        self.wait_for_step(last + 10)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=runs.DEADLINE)
        self.reader.join()
        return self.text()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join()


def told_in(training, blocks, act, words=None):
    """Lets `act` happen until all that these blocks show has been told: what a worker was doing when it was struck, and
    what came of that, is a matter of chance."""
    failure = None
    for _ in range(ATTEMPTS):
        begin = len(training.lines)
        act()
        failure = None
        for block in blocks:
            try:
                shapes.compare(block.place, place.printed_in(block), "".join(training.lines[begin:]), ANY_MOMENT | (words or {}))
            except AssertionError as problem:
                failure = problem
        if not failure:
            return
    raise failure


def faulty_muster(page):
    """The place's muster is one whose workers have faults built in (tests/elastic); what happens to which of them."""
    folder = page.place().folder / "faulty"
    if not folder.exists():
        folder.mkdir()
        program = faulty.install(folder, page.tools.muster, page.tools.worker)
        link = page.place().folder / "bin/muster"
        link.unlink()
        link.symlink_to(program)
    shutil.rmtree(folder / "faults", ignore_errors=True)
    faults = faulty.Faults(folder / "faults")
    return faults, {"MUSTER_FAULTS": str(faults.folder)}
