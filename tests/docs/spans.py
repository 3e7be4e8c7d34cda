"""What a page says within its lines: commands of muster and their options are there, and so are the tests that it names."""
import functools
import pathlib
import re

import elsewhere

SPAN = re.compile(r"`([^`]+)`")
ROW = re.compile(r"^\| *`muster ([^`]+)` *\|")
# A command with others in its place, as a table writes it.
CHOICE = re.compile(r"([\w-]+(?:\\\|[\w-]+)+)")


def commands_in(span):
    """`checkpoint list\\|verify` stands for two."""
    if choice := CHOICE.search(span):
        for one in choice[1].split(r"\|"):
            yield from commands_in(span.replace(choice[1], one, 1))
    elif not re.search(r"[…\[]", span):
        yield span


def known(page, number, command):
    try:
        elsewhere.options_are_known(page, command)
    except (AssertionError, ValueError) as problem:
        raise AssertionError(f"{page.name}:{number}: `{command}`: {problem}") from None


def commands_are_known(page, number, line):
    for span in SPAN.findall(line):
        if span.startswith("muster "):
            for command in commands_in(span):
                known(page, number, command)
    if row := ROW.match(line):
        for command in commands_in("muster " + row[1]):
            verbs = elsewhere.verbs_of(command.split()[1:])
            for span in SPAN.findall(line[row.end():]):
                if re.match(r"--?[a-z]", span):
                    known(page, number, " ".join(["muster", *verbs, span.split("=")[0].split()[0]]))


def with_torch(path):
    """Of a program with libtorch each suite is a test of CTest, of any other each case."""
    return "app/worker" in path.as_posix() or not {"models", "optim", "parallel", "train", "own"}.isdisjoint(path.parts)


@functools.cache
def all_tests(root, build):
    """Names of CTest's, from the sources, since not all of them need be built here."""
    names = set(elsewhere.tests_of(build))
    for path in [*pathlib.Path(root, "muster").rglob("*_test.cc"), *pathlib.Path(root, "tests").rglob("*.cc")]:
        for suite, case in re.findall(r"\b(?:\w*TEST\w*|RC_GTEST\w*)\(\s*(\w+),\s*(\w+)", path.read_text()):
            names.add(suite if with_torch(path.relative_to(root)) else f"{suite}.{case}")
    return names


def tests_are_there(page, number, line):
    for pattern in re.findall(r"`ctest(?: --preset \w+)? -R '?([^`']+)'?`", line):
        for part in re.split(r"\|(?![^(]*\))", pattern):
            assert any(re.search(part, name) for name in all_tests(page.tools.root, page.tools.build)), \
                f"{page.name}:{number}: no test is called `{part}`"


def check(page):
    for number, line in enumerate(page.text.splitlines(), 1):
        commands_are_known(page, number, line)
        tests_are_there(page, number, line)
