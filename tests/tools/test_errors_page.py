"""docs/errors.md has every code, with its exit code, and no message that muster does not give."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/errors.md").read_text()


def rows(heading):
    """The cells of each row of the table below `heading`."""
    table = PAGE.split(heading, 1)[1].split("\n\n|", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in ("|" + table).splitlines()[2:]]


def enumerators():
    """Of ErrorCode, as its header declares them."""
    body = re.search(r"enum class ErrorCode [^{]*\{(.*?)\};", (ROOT / "muster/base/error.h").read_text(), re.DOTALL)
    return set(re.findall(r"^\s*(k\w+)", body.group(1), re.MULTILINE))


def exit_codes():
    """By the name of the code, as the sources have them."""
    names = dict(re.findall(r"case ErrorCode::(k\w+):\s+return \"([^\"]+)\";", (ROOT / "muster/base/error.cc").read_text()))
    assert set(names) == enumerators(), f"error.cc and error.h have other codes: {set(names) ^ enumerators()}"
    source = (ROOT / "muster/base/exit_code.h").read_text()
    numbers = dict(re.findall(r"(k\w+) = (\d+)", source))
    body = source.split("constexpr ExitCode exit_code", 1)[1].split("\n}\n", 1)[0]
    found = {}
    for cases, result in re.findall(r"((?:case ErrorCode::k\w+:\s*)+)return ExitCode::(k\w+);", body):
        for code in re.findall(r"k\w+", cases.replace("ErrorCode::", "")):
            found[names[code]] = numbers[result]
    usual = numbers[re.search(r"default:\s+return ExitCode::(k\w+);", body).group(1)]
    return {name: found.get(name, usual) for name in names.values()}


class ErrorsPage(unittest.TestCase):
    def test_has_every_code_with_its_exit_code(self):
        shown = {row[0].strip("`"): row[1] for row in rows("Behind it stands a code")}
        self.assertGreater(len(shown), 8)
        self.assertEqual(shown, exit_codes())

    def test_every_row_has_a_cause_and_a_cure(self):
        for heading, cells in (("Behind it stands a code", 4), ("## By what the message says", 3)):
            for row in rows(heading):
                self.assertEqual(len(row), cells, row)
                self.assertNotIn("", row)

    def test_messages_are_those_of_the_sources(self):
        sources = "".join(path.read_text() for path in sorted((ROOT / "muster").rglob("*.cc")) if not path.name.endswith("_test.cc"))
        whole = re.sub(r"\"\s*\n\s*\"", "", sources)
        messages = [row[0].strip("`") for row in rows("## By what the message says")]
        self.assertGreater(len(messages), 8)
        self.assertEqual([message for message in messages if message not in whole], [])


if __name__ == "__main__":
    unittest.main()
