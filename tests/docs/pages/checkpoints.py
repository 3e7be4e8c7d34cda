"""docs/checkpoints.md: what lies on the disk, and the commands that look at it."""
import re
import shlex

import runs


def files_of(page, block):
    """The tree of the page, in the run that was trained before: names by their column, numbers as they come."""
    run = (page.place().folder / "runs/fashion/latest").resolve()
    assert re.fullmatch(r"runs/<name>/<stamp>-<id>/checkpoints/", block.lines[0]), block.place
    (first, *_) = sorted(run.glob("checkpoints/step-*"))
    shown = {line.split()[0] for line in block.lines if line.startswith("    ") and line.strip() != "…"}
    assert re.fullmatch(r"step-\d{8}", first.name) and re.fullmatch(r"  step-\d{8}/", block.lines[1]), block.place
    assert shown == {path.name for path in first.iterdir()}, f"{block.place}: {sorted(first.iterdir())}"


def commands(page, block):
    """Each in the first column, what it does from the next on; what follows a command on lines of their own are options."""
    command = None
    for line in block.lines:
        words, _, said = line.strip().partition("  ")
        if line.startswith("muster "):
            command, options = words, ""
        else:
            option, _, said = words.partition(":")
            assert re.fullmatch(r"--[a-z]+", option) and command, f"{block.place}: nothing runs `{line}`"
            options = f" {option}"
        assert said or options, f"{block.place}: nothing says what `{line}` does"
        page.place().run("rm -rf out")
        page.place().run(command + options)


def play(page):
    reader = page.place()
    settings = runs.settings("training.max_steps=4", "checkpoint.every=2 steps", "evaluation.every=2 steps", "model.channels=[4]",
                             "ema.decay=0.9",
                             "lora.rank=2")
    reader.run(f"muster train jobs/fashion.yaml {shlex.join(settings)}")
    files_of(page, page.take("runs/<name>/<stamp>-<id>/checkpoints/"))
    commands(page, page.take("muster checkpoint list"))
