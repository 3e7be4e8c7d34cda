"""Blocks of C++, CMake and differences: copies of what is in the examples, or fragments, which are compiled."""
import json
import pathlib
import re
import shlex
import subprocess

import runs

FRAGMENTS = pathlib.Path(__file__).resolve().parent / "fragments"


def without_space(text):
    return re.sub(r"\s+", "", text)


def copied_from(page, block, name):
    """The block stands in that file, in another layout perhaps, with `…` for what is left out."""
    pattern = ".*?".join(re.escape(without_space(part)) for part in block.text.split("…"))
    text = without_space((pathlib.Path(page.tools.root) / name).read_text())
    assert re.search(pattern, text), f"{block.place}: this is not (any more) what {name} has"


def lines_of(page, block, name, words):
    """Each line stands in that file; `words` are pairs of how the page calls something and how the file does."""
    lines = [line.strip() for line in (pathlib.Path(page.tools.root) / name).read_text().splitlines()]
    for line in block.lines:
        wanted = line
        for theirs, ours in words:
            wanted = wanted.replace(theirs, ours)
        assert wanted in lines, f"{block.place}: {name} has no line (any more) like `{line}`"


def runs_of(lines, wanted):
    """Where these lines are among those."""
    return [at for at in range(len(lines) - len(wanted) + 1) if lines[at:at + len(wanted)] == wanted]


def turns_into(page, block, before, after):
    """Applied to the one file, the difference makes the other."""
    root = pathlib.Path(page.tools.root)
    lines = (root / before).read_text().splitlines()
    for hunk in re.split(r"^@@.*\n", block.text, flags=re.MULTILINE)[1:]:
        changed = hunk.splitlines()
        old, new = ([line[1:] for line in changed if not line.startswith(mark)] for mark in "+-")
        places = runs_of(lines, old)
        assert len(places) == 1, f"{block.place}: these lines are {len(places)} times in {before}:\n" + "\n".join(old)
        lines[places[0]:places[0] + len(old)] = new
    assert lines == (root / after).read_text().splitlines(), f"{block.place}: with it {before} is not {after}"


def flags_like(build, target):
    """How the sources of that target are compiled."""
    for entry in json.loads((pathlib.Path(build) / "compile_commands.json").read_text()):
        if f"/{target}.dir/" in entry["command"] and entry["file"].endswith((".cc", ".cxx")) and \
                "cmake_pch" not in entry["file"]:
            words = shlex.split(entry["command"])
            return entry["directory"], words[:words.index("-o")]
    raise AssertionError(f"{build} has no target {target}")


def compiles(page, block, fragment, target):
    """Put in its place in fragments/ (`#include "block.inc"`) it is C++ that means something."""
    folder = pathlib.Path(runs.os.environ["TEST_WORKPLACE"])
    (folder / "block.inc").write_text(f'#line {block.line} "{block.page}"\n{block.text}')
    directory, words = flags_like(page.tools.build, target)
    done = subprocess.run([*words, "-fsyntax-only", "-I", str(folder), str(FRAGMENTS / fragment)], cwd=directory,
                          capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, f"{block.place}: the compiler says of it\n{done.stderr}"
