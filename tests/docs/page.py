"""Every code block of one page is run, and what its text names is there: page.py --page docs/data.md --root SOURCES --build BUILD --muster MUSTER

pages/<page>.py says how (play(page)). A block of YAML that it does not take is a part of a job file and is validated as
one. Any other block that it does not take fails the test, and so does a line there whose block is gone.
"""
import argparse
import importlib.util
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "resume", HERE.parent / "elastic"):
    sys.path.insert(0, str(folder))
import blocks
import jobs
import place
import pointers
import runs
import spans


class Page:
    """Its blocks, what programs there are to run them with, and the folder of its reader."""

    def __init__(self, name, text, tools):
        self.name, self.text, self.tools = name, text, tools
        self.left = blocks.blocks_of(name, text)
        self.reader = None

    def take(self, beginning, language=None):
        """The first block that is left and begins so; it counts as run, so whoever takes it has to run it."""
        for block in self.left:
            if block.text.lstrip().startswith(beginning) and language in (None, block.language):
                self.left.remove(block)
                return block
        raise AssertionError(f"{self.name}: no block (any more) that begins with `{beginning}`")

    def place(self):
        """Where a reader of the page would be: a folder with the jobs, the data, and what earlier blocks left there."""
        self.reader = self.reader or place.Place(pathlib.Path(runs.os.environ["TEST_WORKPLACE"]), self.tools)
        return self.reader


def plan_of(name):
    """The module that says how the blocks of this page are run; none where it has parts of job files at most."""
    path = HERE / "pages" / f"{pathlib.Path(name).stem.lower()}.py"
    if not path.exists():
        return None
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def play(page, plan):
    count = len(page.left)
    pointers.check(page)
    spans.check(page)
    if plan:
        plan.play(page)
    for block in [block for block in page.left if block.language == "yaml"]:
        jobs.valid_part(page, page.take(block.text.lstrip()))
    unknown = [f"{block.place}: nothing knows how to run the block that begins with `{block.lines[0].strip()}`"
               for block in page.left]
    assert not unknown, "\n".join([*unknown, "CONTRIBUTING.md says how to add one (tests/docs)"])
    return count


def arguments(*more):
    parser = argparse.ArgumentParser()
    for name in (*more, "--root", "--build", "--muster", "--worker", "--tides", "--programs"):
        parser.add_argument(name, required=True)
    return parser.parse_args()


def main():
    tools = arguments("--page")
    text = (pathlib.Path(tools.root) / tools.page).read_text()
    with runs.workplace():
        try:
            count = play(Page(tools.page, text, tools), plan_of(tools.page))
        except AssertionError as problem:
            sys.exit(f"{problem}")
    print(f"ok  {tools.page}: {count} blocks")


if __name__ == "__main__":
    main()
