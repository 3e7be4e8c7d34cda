"""What people look at, on a terminal of 80 columns with and without NO_COLOR, and in a pipe, of one worker and of three. No
line is wider than the terminal, but for those with a path, which is there to be copied, and those of log files, which are
as workers have written them. Nothing is coloured where that is not wanted, and a pipe gets no escape sequences at all."""
import pathlib
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

    def fits(self, words, shown):
        for line in ptys.lines(shown):
            has_path = str(self.folder) in line or self.muster in line
            assert has_path or width(line) <= COLUMNS, f"{words}: {width(line)} columns: {line!r}"

    def looks(self, *words, code=0, coloured=False, of_files=False, writes=None):
        """`writes`: a file, anew each time."""
        for variables in ({}, {"NO_COLOR": "1"}):
            if writes:
                writes.unlink(missing_ok=True)
            shown = ptys.Shown(self.muster, *words, columns=COLUMNS, cwd=self.folder, **variables).ends(code)
            if not of_files:
                self.fits(words, shown)
            wanted = coloured and not variables
            assert bool(ptys.COLOUR.search(shown)) == wanted, f"{words} {variables}: {shown!r}"
        if writes:
            writes.unlink()
        piped = subprocess.run([self.muster, *map(str, words)], cwd=self.folder, env=ptys.PLAIN, capture_output=True, text=True,
                               timeout=runs.DEADLINE)
        assert code is None or piped.returncode == code, piped
        assert piped.stdout and not {"\x1b", "\r"} & set(piped.stdout + piped.stderr), f"{words}: {piped}"


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
        assert at is not None and shown[at + 1].startswith("  "), f"{words}: `{beginning}` is not broken: {shown}"
        assert all(width(line) <= 40 for line in shown[at:at + 2] if str(wrong) not in line), f"{words}: {shown}"


def without_a_run(looked):
    looked.looks("help")
    looked.looks("help", "job")
    looked.looks("train", "--help")
    looked.looks("doctor", code=None, coloured=True)  # what it finds amiss here is not this test's
    table = looked.folder / "bars.csv"
    runs.write_table(table)
    for data in (looked.folder, looked.folder / "text.txt", table):
        looked.looks("init", data, writes=looked.folder / "job.yaml")


def trained(looked, workers):
    job = runs.write_job(looked.folder, "mlp", steps=STEPS)
    looked.looks("train", job, "--workers", workers, coloured=True)
    run = runs.latest(looked.folder)
    where = ("--run-folder", looked.folder / "runs")
    looked.looks("runs", *where)
    looked.looks("status", run)
    looked.looks("top", run)
    looked.looks("logs", run, of_files=True)
    names = [each.name.rsplit("-", 1)[1] for each in sorted(run.parent.glob("2*"))[:2]]
    looked.looks("runs", "compare", *names, *where)
    looked.looks("compare", job, "--workers", workers, "--strategies", "data",
                 "--variant", f"{LONG}: optimizer.learning_rate=0.01", coloured=True)


def while_it_trains(looked, workers):
    """top draws itself again and again, and ends with the run."""
    training = runs.endless(looked.muster, looked.folder, "live", "--workers", str(workers))
    run = runs.wait_for_step(training, looked.folder, 30, "live")
    runs.wait_for(lambda: (run / "live.json").exists(), "what workers do now")
    tops = [ptys.Shown(looked.muster, "top", run, "--every", "100ms", columns=COLUMNS, **variables)
            for variables in ({}, {"NO_COLOR": "1"})]
    for top in tops:
        assert top.read_until(lambda text: text.count("\x1b[J") >= 5, "fifth drawing"), top.text
    looked.looks("status", run)
    training.terminate()
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
    trained(looked, 1)
    while_it_trains(looked, 1)


def by_three(muster, folder):
    looked = Looked(muster, folder)
    trained(looked, 3)
    while_it_trains(looked, 3)


if __name__ == "__main__":
    runs.play((by_one, by_three), runs.arguments().muster)
