"""ARCHITECTURE.md has the table of layers that tools/check_layers.py holds the sources to, and every room there is."""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import check_layers  # noqa: E402

PAGE = (ROOT / "ARCHITECTURE.md").read_text()


def rows(heading):
    """The cells of each row of the table whose first line begins so."""
    table = PAGE.split(f"\n| {heading}", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


def layers():
    """By name: level, what it may include, whether it links libtorch."""
    return {name: (int(level), may, torch) for level, cell, _, may, torch in rows("level") for name in names(cell)}


def meant_by(may, level, table):
    below = {name for name, (other, _, _) in table.items() if other < level}
    found = set(names(may))
    if may == "all" or may == "all below":
        found = below
    elif may.startswith("all layers without libtorch"):
        found |= {name for name in below if table[name][2] in ("no", "–")}
    return found


def folders(place):
    return {path.name for path in (ROOT / place).iterdir() if path.is_dir() and any(path.glob("CMakeLists.txt"))}


class Architecture(unittest.TestCase):
    def test_layers_are_those_of_the_check(self):
        table = layers()
        self.assertEqual(set(table), set(check_layers.LAYERS))
        for name, (level, may, _) in table.items():
            self.assertEqual(meant_by(may, level, table), set(check_layers.LAYERS[name]), name)

    def test_libtorch_is_where_the_table_has_it(self):
        with_torch = {name for name, (_, _, torch) in layers().items() if torch not in ("no", "–")}
        self.assertEqual(with_torch, set(check_layers.TORCH_LAYERS))

    def test_every_room_is_named(self):
        for place, heading in (("muster/app", "room of `app`"), ("tests", "room of `tests`")):
            named = {name for row in rows(heading) for name in names(row[0])}
            self.assertEqual(named, folders(place), place)


if __name__ == "__main__":
    unittest.main()
