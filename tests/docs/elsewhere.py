"""Commands that cannot be run here (another host, a cluster, an hour): which test runs the same instead, and whether their
options are there. Lines that only a fault brings about: whether the product has these words."""
import functools
import pathlib
import re
import shlex
import subprocess

import place
import shapes

# Commands that have commands of their own.
GROUPS = ("checkpoint", "data", "submit", "runs", "plan", "bench", "help")
SHORTEST = 8  # letters of a piece of a sentence that says something


@functools.cache
def tests_of(build):
    found = [re.findall(r"add_test\(\[=\[(.+?)\]=\]", path.read_text())
             for path in pathlib.Path(build).glob("tests/**/CTestTestfile.cmake")]
    return {name for names in found for name in names}


def verbs_of(words):
    """Of `plan pipeline --stages 4`: both; of `plan jobs/gpt.yaml`: the first; of `--version` and `COMMAND`: none."""
    if not re.match("[a-z]", words[0]):
        return []
    second = words[1:2] if words[0] in GROUPS and words[1:] and re.fullmatch("[a-z0-9]+", words[1]) else []
    return [words[0], *second]


def options_are_known(page, command):
    """Every command of muster in it, up to what the shell does with it."""
    for part in re.split(r"[|;&]+", command):
        words = shlex.split(part)
        if "muster" in words and words.index("muster") + 1 < len(words):
            known(page, words[words.index("muster") + 1:])


@functools.cache
def options_of(muster, *verbs):
    told = subprocess.run([muster, *verbs, "--help"], capture_output=True, text=True, timeout=60, check=False)
    there = told.returncode == 0 and f"Usage: {' '.join(['muster', *verbs])}" in told.stdout
    assert there, f"there is no command `muster {' '.join(verbs)}`"
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", told.stdout))


def known(page, words):
    verbs = verbs_of(words)
    names = options_of(page.tools.muster, *verbs)
    for word in words[len(verbs):]:
        if word == "--" or word.startswith("./"):
            return  # what follows are no options, or another program's
        option = re.match(r"--?[a-z][\w-]*", word)
        assert not option or option[0] in names, f"`muster {' '.join(verbs)} --help` does not know {option[0]}"


def run_by(page, beginning, *tests):
    """These tests run what the block says; its options are there."""
    block = page.take(beginning)
    for test in tests:
        assert test in tests_of(page.tools.build), f"{block.place}: there is no test {test} that would run it"
    for command in place.commands_of(block):
        if re.search(r"\bmuster [a-z]", command):
            options_are_known(page, command)
    return block


@functools.cache
def words_of_the_product(root):
    """What stands between quotes in its sources, neighbouring pieces put together, values left out."""
    texts = [path.read_text() for path in (pathlib.Path(root) / "muster").rglob("*.cc") if "_test" not in path.name]
    return re.sub(r'"\s*"', "", "\n".join(texts))


def said_by_the_product(page, lines, place_of_block, names=()):
    """Every piece of these lines between numbers, hosts and `names` stands in the sources."""
    split = re.compile("|".join([f"(?:{shown})" for shown, _ in shapes.VARIABLES] + list(names)))
    pieces = [piece.strip() for line in lines for piece in split.split(shapes.normal(line))]
    for piece in pieces:
        assert len(piece) < SHORTEST or piece in words_of_the_product(page.tools.root), \
            f"{place_of_block}: nothing in muster says `{piece}`"
