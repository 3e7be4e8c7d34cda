"""Each kind of check notices what it is for: pages with a mistake in them fail, and say where."""
import pathlib
import re
import sys

import page as runner  # first, for it says where the others are
import runs

# What the table of measurements has, whatever was measured last.
FIGURE = re.compile(r"(?<=\| )\d[\d,.]*(?= \|)")
FIGURES = r"(?<=\| )\d[\d,.]* \| \d[\d,.]*(?= \|)"

# Page, what stands there (a text, or a pattern whose first match counts), what is put in its place, and what has to be said of it.
MISTAKES = (
    ("docs/building.md", "# Building", "# Building\n\n```\nmake\n```", "docs/building.md:4: nothing knows how to run"),
    ("docs/building.md", "# Building", "# Building\n\n    make", "docs/building.md:3: nothing knows how to run"),
    ("docs/job.md", "  type: mlp\ndata", "  typ: mlp\ndata", "did you mean `type`?"),
    ("docs/tensor.md", "--set strategy.type=tensor", "--set strategy.typ=tensor", "strategy.typ"),
    ("docs/tensor.md", "--workers 2", "--wokers 2", "unknown option `--wokers`"),
    ("docs/recomputation.md", '["layer*"]}', '["layer*"}', "docs/recomputation.md"),
    ("docs/recomputation.md", "activations 2.0 MiB", "activations 2.1 MiB", "this is not what is printed now"),
    ("docs/tensor.md", "(strategies.md#meshes)", "(strategies.md#mesh)", "has no heading #mesh"),
    ("docs/tensor.md", "(strategies.md#meshes)", "(strategy.md)", "there is no strategy.md"),
    ("docs/tensor.md", "`muster/models/partition.h`", "`muster/models/cut.h`", "there is no file muster/models/cut.h"),
    ("docs/recomputation.md", "`ctest -R Recomputation`", "`ctest -R Recomputations`", "no test is called"),
    ("docs/runs.md", "`muster stop RUN`", "`muster stopp RUN`", "there is no command `muster stopp`"),
    ("docs/cli.md", "`--lanes N`", "`--lane N`", "does not know --lane"),
    ("docs/cli.md", "did you mean `learning_rate`?", "do you mean `learning_rate`?", "this is not what is printed now"),
    ("docs/pipeline.md", "15.8 %", "15.9 %", "this is not what is printed now"),
    ("docs/context.md", "5 ■  and  2 ◣\nworker 1", "4 ■  and  2 ◣\nworker 1", "it should be"),
    ("docs/errors.md", "has a checkpoint; start", "has a checkpoint: start", "this is not what is printed now"),
    ("docs/data.md", "BatchStream ──►", "BatchStreams ──►", "has no BatchStreams"),
    ("docs/data.md", "data::random_crop(2)", "data::random_crops(2)", "random_crops"),
    ("docs/inside.md", "worker 1: 3, 4-5", "worker 1: 3-4, 5", "it should be"),
    ("docs/inside.md", "`Trainer::settle`", "`Trainer::settles`", "there is no Trainer::settles"),
    ("README.md", FIGURE, "987,654", "and has 987,654"),
    ("README.md", re.compile(rf"({FIGURES})(.*\n.*\| )({FIGURES})"), r"\3\2\1", "bench/RESULTS.md has no row that begins with"),
    ("docs/elastic.md", "for 9 and 25 ms", "for 8 and 25 ms", "has no row that begins with `fashion (4 joins)` and has 8"),
    ("docs/elastic.md", "loses\n11 steps", "loses\n11 steps in 7 s", "no row of bench/RESULTS.md is named for 7"),
    ("docs/app.md", '{{"width"', '{{"breadth"', "this is not (any more) what examples/tides/main.cc has"),
    ("docs/loop.md", "+  muster::DataParallel ddp(*model, world);", "+  muster::DataParallel ddp(model, world);",
     "is not examples/plain/parallel.cc"),
)


def noticed(tools, name, before, after):
    """What the page's test says, where the page is changed so."""
    text = (pathlib.Path(tools.root) / name).read_text()
    changed = before.sub(after, text, count=1) if isinstance(before, re.Pattern) else text.replace(before, after, 1)
    assert changed != text, f"{name} has no `{before}` (any more): choose another mistake"
    with runs.workplace():
        try:
            runner.play(runner.Page(name, changed, tools), runner.plan_of(name))
        except AssertionError as problem:
            return str(problem)
    return None


def main():
    tools = runner.arguments()
    for name, before, after, said in MISTAKES:
        problem = noticed(tools, name, before, after)
        if problem is None or said not in problem:
            sys.exit(f"{name}: `{after}` in the place of `{before}` should fail with `{said}`, not with\n{problem}")
        print(f"ok  {name}: {said}", flush=True)


if __name__ == "__main__":
    main()
