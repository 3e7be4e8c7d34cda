"""README.md: what is typed first."""
import re

import elsewhere
import jobs
import measured
import place
import runs
from training import Training

# The smallest model of the images, which trains until it is told to stop.
ENDLESS = ("training.max_steps=1000000", "evaluation.every=end", "schedule.type=constant", "schedule.warmup=0%",
           "checkpoint.every=20 steps")


class Typed:
    """The commands of the second block, each by its words."""

    def __init__(self, page, block):
        self.page, self.place, self.left = page, block.place, place.commands_of(block)

    def take(self, beginning):
        command = next((line for line in self.left if line.startswith(beginning)), None)
        assert command, f"{self.place}: no line begins with `{beginning}`"
        self.left.remove(command)
        return command

    def run(self, beginning, *settings):
        return self.page.place().run(self.page.place().shortened(self.take(beginning), settings or place.SHORT))


def a_worker_is_killed(page, typed):
    """`pgrep` sees the workers of this training alone: the newest of the machine may be another test's."""
    reader = page.place()
    with Training(page, typed.take("muster train job.yaml --workers 4"), base=ENDLESS) as job:
        job.wait_for_step(10)
        (reader.folder / "bin/pgrep").write_text(f'#!/bin/bash\nexec /usr/bin/pgrep -P {job.process.pid} "$@"\n')
        (reader.folder / "bin/pgrep").chmod(0o755)
        reader.run(typed.take("kill -9 $(pgrep -n muster-worker)"))
        job.wait_for("killed by SIGKILL at step")
        runs.wait_for_newcomer(job.run(), 3)
        job.stop()
        step = max(row["step"] for row in runs.rows(job.run()))
    return step


def rows_are_measured(page, table, results):
    """The figures of each row are those of one row there that begins with the same words, and so are those in its brackets."""
    rows = measured.rows_of(results)
    count = 0
    for line in table.splitlines():
        label, *cells = line.strip("| ").split(" | ")
        if not cells or not all(re.fullmatch(measured.FIGURE, cell) for cell in cells):
            continue
        first_words, _, rest = label.partition(" (")
        begin_so = [figures for words, figures in rows if words.startswith(first_words)]
        besides = re.findall(measured.FIGURE, re.sub("`[^`]*`", "", rest.partition(")")[0]))
        for figures in (cells, besides):
            assert any(set(figures) <= each for each in begin_so), \
                f"{page.name}: bench/RESULTS.md has no row that begins with `{first_words}` and has {' and '.join(figures)}"
        count += 1
    assert count >= 4, f"{page.name}: these are no rows of figures:\n{table}"


def figures_are_measured(page):
    """Each row of the table of measurements is in bench/RESULTS.md, and so is each number with a unit."""
    results = measured.results(page)
    rows_are_measured(page, page.text.split("Measured against it", 1)[1].split("\n## ", 1)[0], results)
    figures = re.findall(r"(?<![\w-])(\d[\d,.]*)(?= to \d+ seconds| ?(?:seconds|ms|MB|GB|MiB|GiB|%|×))", page.text)
    for figure in figures:
        assert re.search(rf"(?<![\d,.]){re.escape(figure)}(?![\d,]|\.\d)", results), f"{page.name}: bench/RESULTS.md has no {figure}"


def play(page):
    figures_are_measured(page)
    # It installs and builds: what it gives to muster, and what it says, is tried in tests/tools.
    elsewhere.run_by(page, "script/quickstart", "tools.checks_can_fail")
    job = page.take("model: {type: mlp}", "yaml")
    typed = Typed(page, page.take("PATH=$PWD/build/release/bin:$PATH"))
    reader = page.place()
    # The path of what was built is the test's own.
    typed.take("PATH=$PWD/build/release/bin:$PATH")
    init = typed.take("muster init DATA").replace("DATA", "/usr/share/datasets/fashion-mnist")
    assert re.search("^model:", reader.run(f"{init} && cat job.yaml && rm job.yaml"), re.MULTILINE)
    jobs.valid(page, job)
    typed.run("muster validate job.yaml")
    step = a_worker_is_killed(page, typed)
    resumed = typed.run("muster train job.yaml --resume", *ENDLESS[1:], f"training.max_steps={step + 5}")
    assert "resumed after step" in resumed, resumed
    compared = typed.run("muster compare job.yaml --strategies data,sharded")
    assert re.search(r"^sharded .* same$", compared, re.MULTILINE), compared
    assert re.search(r"^job +\w+ .*", typed.run("muster runs"), re.MULTILINE)
    assert "training.max_steps" in typed.run("muster help job")
    for elsewhere_too in ("muster train job.yaml --hosts", "srun --ntasks"):
        elsewhere.options_are_known(page, typed.take(elsewhere_too))
    assert "elastic.ssh" in elsewhere.tests_of(page.tools.build)  # which has such hosts
    reader.run(f"{typed.take('muster doctor')} || [ $? = 3 ]")  # a machine may lack something
    assert not typed.left, f"{typed.place}: nothing runs {typed.left}"
