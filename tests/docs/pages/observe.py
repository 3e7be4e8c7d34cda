"""docs/observe.md: where metrics go, and what a run leaves in its folder."""
import json
import pathlib
import re
import shlex

import runs
import source_code


def way_of_metrics(page):
    """The pages that the picture names are there, and the hub is called so."""
    block = page.take("trainer (rank 0)")
    docs = pathlib.Path(page.tools.root) / "docs"
    assert all((docs / name).exists() for name in re.findall(r"\]\((\w+\.md)\)", block.text)), block.place
    assert re.search(r"\bclass Hub\b", (docs.parent / "muster/observe/hub.h").read_text())


def trained(page):
    settings = runs.settings("training.max_steps=20", "checkpoint.every=10 steps", "model.channels=[4]", "logging.logging_steps=1")
    page.place().run("muster train jobs/fashion.yaml --trace " + shlex.join(settings))
    return page.place().folder / "runs/fashion/latest"


def shown_names(block):
    """Of files and folders, as patterns; those in brackets behind a name are what it is."""
    text = re.sub(r"\(.*?\)|…", "", "\n".join(block.lines[1:-1]))
    return [name.rstrip("/") for name in re.sub(r"<[^>]*>|\d{8}", r"[\\w-]+", text).split()]


def folder_of_a_run(page, run):
    """What is shown is there, but for files that come with a question or while it trains; all that is there is shown, but
    for what is hidden."""
    block = page.take("runs/<name>/<UTC stamp>-<id>/")
    there = [str(path.relative_to(run.resolve())) for path in run.resolve().rglob("*")]
    shown = shown_names(block)
    for name in shown:
        at_times = name in ("data.json", "debug.json", "live.json", "mlflow.json", "mlflow-unsent.jsonl")
        assert at_times or any(re.fullmatch(name, path) for path in there), \
            f"{block.place}: a run has no {name}; it has {there}"
    for path in run.resolve().glob("[!.]*"):
        assert any(re.match(rf"{name.split('/')[0]}$", path.name) for name in shown), f"{block.place}: nothing tells of {path.name}"
    assert block.lines[-1] == "runs/<name>/latest -> the newest" and run.is_symlink(), block.place


def a_line_of_metrics(page, run):
    block = page.take('{"type":"metrics"')
    shown = json.loads(block.text)
    rows = [row for row in runs.rows(run) if row["step"] == shown["step"]]
    assert rows and all(type(rows[0].get(key)) is type(value) for key, value in shown.items()), (block.place, rows)


def play(page):
    way_of_metrics(page)
    run = trained(page)
    folder_of_a_run(page, run)
    a_line_of_metrics(page, run)
    source_code.compiles(page, page.take("observe::Hub hub;"), "observe.cc", "muster_sink_console_test")
