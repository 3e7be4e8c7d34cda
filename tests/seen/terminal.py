"""What people look at, on a terminal of 80 columns with and without NO_COLOR, and in a pipe, of one worker and of three. No
line is wider than the terminal, but for those with a path, which is there to be copied, words that are wider themselves, and those of
log files and of what is to be a file, which are as they were written. Nothing is coloured where that is not wanted, and a pipe
gets no escape sequences at all."""
import pathlib
import re
import subprocess
import sys
import unicodedata

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import ptys
import runs

COLUMNS = 80
STEPS = 30


def width(line):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line if not unicodedata.combining(c))


# A run's or a variant's own name; tables have other columns besides.
LONG = "as-slow-as-nobody-would-have-it"


class Looked:
    """muster in the test's folder; each command is asked as a person may, and as a script."""

    def __init__(self, muster, folder):
        self.muster, self.folder = muster, folder

    def fits(self, words, shown, paths=True):
        """`paths`: a line that has one may be wider."""
        for line in ptys.lines(shown):
            may_be_wider = " " not in line.strip() or (paths and (str(self.folder) in line or self.muster in line))
            assert may_be_wider or width(line) <= COLUMNS, f"{words}: {width(line)} columns: {line!r}"

    def looks(self, *words, code=0, coloured=False, of_files=False, writes=None, paths=True, wide=False):
        """`coloured`: None where that depends on what is shown; `writes`: a file, anew each time; `wide`: in a pipe it is wider than
        the terminal."""
        for variables in ({}, {"NO_COLOR": "1"}):
            if writes:
                writes.unlink(missing_ok=True)
            shown = ptys.Shown(self.muster, *words, columns=COLUMNS, cwd=self.folder, **variables).ends(code)
            if not of_files:
                self.fits(words, shown, paths)
            wanted = coloured and not variables
            any_will_do = coloured is None and not variables
            assert any_will_do or bool(ptys.COLOUR.search(shown)) == bool(wanted), f"{words} {variables}: {shown!r}"
        if writes:
            writes.unlink()
        piped = subprocess.run([self.muster, *map(str, words)], cwd=self.folder, env=ptys.PLAIN, capture_output=True, text=True,
                               timeout=runs.DEADLINE)
        assert code is None or piped.returncode == code, piped
        assert piped.stdout and not {"\x1b", "\r"} & set(piped.stdout + piped.stderr), f"{words}: {piped}"
        assert not wide or max(map(width, piped.stdout.splitlines())) > COLUMNS, f"{words} shows nothing of the terminal: {piped}"


def complaints(looked):
    """What goes to standard error is broken where a narrow terminal ends: errors, mistakes of a job, warnings, the log."""
    job = runs.write_job(looked.folder, "mlp", steps=STEPS)
    wrong = looked.folder / "wrong.yaml"
    wrong.write_text(job.read_text() + "communication: {timeout: 12 parsec}\n")
    for words, variables, code, beginning in (
            (("compare", job), {}, 2, "error: nothing to compare;"),
            (("validate", wrong), {}, 2, f"{wrong}:"),
            (("validate", job), {"MUSTER_TRANING_EPOCHS": "2"}, 0, "warning: the variable"),
            (("train", job, "--dry-run", "--set", "communication.engine=auto"), {}, 0, "communication.engine auto: native;")):
        shown = ptys.lines(ptys.Shown(looked.muster, *words, columns=40, cwd=looked.folder, **variables).ends(code))
        at = next((i for i, line in enumerate(shown) if line.startswith(beginning)), None)
        assert at is not None and re.match(r"  (?! *\d+ \|)", shown[at + 1]), f"{words}: `{beginning}` is not broken: {shown}"
        assert all(width(line) <= 40 for line in shown[at:at + 2] if str(wrong) not in line), f"{words}: {shown}"


def without_a_run(looked):
    looked.looks("help")
    looked.looks("help", "job")
    for command in (("train",), ("plan",), ("bench", "comm"), ("submit", "slurm"), ("checkpoint", "verify")):
        looked.looks(*command, "--help")
    looked.looks("doctor", code=None, coloured=True)  # what it finds amiss here is not this test's
    table = looked.folder / "bars.csv"
    runs.write_table(table)
    for data in (looked.folder, looked.folder / "text.txt", table):
        looked.looks("init", data, writes=looked.folder / "job.yaml")


def before_it_trains(looked, workers):
    job = runs.write_job(looked.folder, "mlp", steps=STEPS)
    looked.looks("validate", job, paths=False, wide=True)
    looked.looks("validate", job, "--print-config", "--set", "communication.timeout=2 min", paths=False)
    looked.looks("train", job, "--workers", workers, "--dry-run", wide=True)
    looked.looks("bench", "comm", "-n", workers, "--ops", "all", "--sizes", "4KiB,1MiB", "--time", "2 ms")
    looked.looks("bench", "comm", "-n", workers, "--ops", "reduce_scatter", "--sizes", "4KiB,1MiB", "--time", "2 ms",
                 "--transport", "tcp", "--algorithm", "bidirectional_ring")
    looked.looks("submit", "slurm", job, "--nodes", workers, "--dry-run", of_files=True)
    looked.looks("submit", "k8s", job, "--nodes", workers, "--image", "registry/muster:1", "--dry-run", of_files=True)


def planned(looked):
    """Each measures once, and reads that again."""
    folder = looked.folder / "plans"
    folder.mkdir()
    job = runs.write_job(looked.folder, "gpt", steps=STEPS, into=folder)
    for workers in (4, 8):
        words = ("plan", job, "--workers", workers, "--memory", "64GiB", "--latency", "20us", "--bandwidth", "4GB",
                 "--profile", folder / f"{workers}.json")
        looked.looks(*words, coloured=None, wide=True)
        looked.looks(*words, "--all", coloured=None, wide=True)
    looked.looks("plan", job, "--workers", 2, "--memory", "1MiB", code=3, wide=True)  # nothing fits
    looked.looks("plan", "pipeline", "--stages", 4, "--micro-batches", 6, "--schedule", "1f1b,zb_v", coloured=None)


def trained(looked, workers):
    job = runs.write_job(looked.folder, "mlp", steps=STEPS)
    looked.looks("train", job, "--workers", workers, coloured=True)
    run = runs.latest(looked.folder)
    where = ("--run-folder", looked.folder / "runs")
    looked.looks("runs", *where)
    looked.looks("status", run)
    looked.looks("top", run)
    looked.looks("logs", run, of_files=True)
    looked.looks("checkpoint", "list", run)
    looked.looks("checkpoint", "verify", run)
    looked.looks("checkpoint", "export", run, "--output", looked.folder / "weights", "--force")
    looked.looks("data", "audit", run)
    looked.looks("report", run)
    looked.looks("resume", run, "--dry-run", wide=True)
    names = [each.name.rsplit("-", 1)[1] for each in sorted(run.parent.glob("2*"))[:2]]
    looked.looks("runs", "compare", *names, *where)
    looked.looks("compare", job, "--workers", workers, "--strategies", "data",
                 "--variant", f"{LONG}: optimizer.learning_rate=0.01", coloured=True)
    looked.looks("resume", run, coloured=True)  # which is complete, and only measured again


def what_fails(looked):
    """Reasons, hints and details, of processes as well as of a training."""
    for words, code in ((("launch", "-n", 2, "sh", "-c", "kill -9 $$"), 1),
                        (("launch", "sh", "-c", "echo no more cheese; exit 3"), 1),
                        (("worker", "--join", "127.0.0.1:1", "--credentials", "nowhere", "--join-timeout", "1s"), 3),
                        (("page", "nowhere"), 3),
                        (("checkpoint", "export", "nowhere"), 3),
                        (("data", "audit", "nowhere"), 3)):
        shown = ptys.Shown(looked.muster, *words, columns=COLUMNS, cwd=looked.folder).ends(code)
        looked.fits(words, shown, paths=False)
        assert "error: " in ptys.SEQUENCE.sub("", shown), f"{words}: {shown}"
    job = runs.write_job(looked.folder, "mlp", steps=STEPS)
    looked.looks("train", job, "--set", "optimizer.learning_rate=1e30", code=4, coloured=True)


def a_page(looked):
    page = ptys.Shown(looked.muster, "page", looked.folder / "runs", columns=COLUMNS)
    assert page.read_until(lambda text: "Ctrl-C" in text, "address"), page.text
    page.process.terminate()
    looked.fits(("page",), page.ends(code=None))


def while_it_trains(looked, workers):
    """top draws itself again and again, and ends with the run, which `muster stop` ends."""
    training = runs.endless(looked.muster, looked.folder, "live", "--workers", str(workers))
    run = runs.wait_for_step(training, looked.folder, 30, "live")
    runs.wait_for(lambda: (run / "live.json").exists(), "what workers do now")
    tops = [ptys.Shown(looked.muster, "top", run, "--every", "100ms", columns=COLUMNS, **variables)
            for variables in ({}, {"NO_COLOR": "1"})]
    for top in tops:
        assert top.read_until(lambda text: text.count("\x1b[J") >= 5, "fifth drawing"), top.text
    looked.looks("status", run)
    looked.looks("debug", run)
    looked.fits(("stop",), ptys.Shown(looked.muster, "stop", run, columns=COLUMNS).ends())
    code, output = runs.finish(training)
    assert code == 143, output
    for top in tops:
        shown = top.ends()
        looked.fits(("top",), shown)
        assert not ptys.COLOUR.search(shown), shown
        assert len([line for line in ptys.lines(shown) if line.startswith("step: ")]) >= 2, shown


def by_one(muster, folder):
    looked = Looked(muster, folder)
    complaints(looked)
    without_a_run(looked)
    before_it_trains(looked, 1)
    planned(looked)
    trained(looked, 1)
    what_fails(looked)
    a_page(looked)
    while_it_trains(looked, 1)


def by_three(muster, folder):
    looked = Looked(muster, folder)
    before_it_trains(looked, 3)
    trained(looked, 3)
    while_it_trains(looked, 3)


if __name__ == "__main__":
    runs.play((by_one, by_three), runs.arguments().muster)
