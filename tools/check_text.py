#!/usr/bin/env python3
"""What holds for every committed text: no path of somebody's machine, no stray white space, files of
C++ short enough to read, and a changelog that says each thing in one place.

usage: tools/check_text.py [ROOT]
"""

import re

from sources import ROOT, arguments, finish, root_of

FOLDERS = ("muster", "tests", "bench", "cmake", "tools", "script", "jobs", "docs", "examples", ".ci")
SUFFIXES = {"", ".h", ".cc", ".cmake", ".py", ".sh", ".txt", ".md", ".yaml", ".yml", ".json", ".svg",
            ".html", ".test"}
MACHINE_PATH = re.compile(r"/(work|root|home/\w+|tmp/(bash|clone)\w*)/")
LONGEST = 500  # lines of a C++ file
CHANGELOG = "CHANGELOG.md"


def text_files(root):
    top = [path for path in root.iterdir() if path.is_file()]
    below = [path for folder in FOLDERS for path in (root / folder).rglob("*") if path.is_file()]
    for path in sorted(top + below):
        if path.suffix in SUFFIXES and "__pycache__" not in path.parts and path.name != ".git":
            yield path.relative_to(root)


def file_problems(root, path):
    try:
        text = (root / path).read_text()
    except UnicodeDecodeError:
        return  # not a text: a fixture
    cpp = path.suffix in (".h", ".cc")
    if cpp and text.count("\n") > LONGEST:
        yield f"{path}:{LONGEST + 1}: longer than {LONGEST} lines: one subject a file"
    if cpp and text and not text.endswith("\n"):
        yield f"{path}: no newline at the end"
    for number, line in enumerate(text.splitlines(), 1):
        found = MACHINE_PATH.search(line)
        if found and path.name != "check_text.py":
            yield f"{path}:{number}: '{found.group()}' is a place on one machine"
        if cpp and line != line.rstrip():
            yield f"{path}:{number}: white space at the end of the line"


def heading_problems(lines):
    """Merges put two lists of one version one behind the other: each heading may stand once below the one above it."""
    above, seen = [], {}
    for number, line in lines:
        marks, _, title = line.partition(" ")
        depth = len(marks)
        if depth > len(above) + 1:
            yield number, f"'{line}' stands below no heading of the level above it"
        above = [*above[:depth - 1], title]
        first = seen.setdefault(tuple(above), number)
        if first != number:
            yield number, f"'{line}' is in line {first} already: fold the two into one"


def changelog_problems(root):
    file = root / CHANGELOG
    lines = list(enumerate(file.read_text().splitlines(), 1)) if file.exists() else []
    found = list(heading_problems([(number, line) for number, line in lines if line.startswith("#")]))
    entries = {}
    for number, line in lines:
        if line.startswith("- ") and entries.setdefault(line, number) != number:
            found.append((number, f"the same is in line {entries[line]}"))
    return [f"{CHANGELOG}:{number}: {problem}" for number, problem in found]


def main():
    root = root_of(arguments(__doc__))
    files = list(text_files(root))
    problems = [p for path in files for p in file_problems(root, path)]
    finish("text", problems + changelog_problems(root), len(files))


if __name__ == "__main__":
    main()
