"""The figures of bench/RESULTS.md, to which those of pages are held."""
import pathlib
import re

FIGURE = r"\d+(?:[,.]\d+)*"


def results(page):
    return (pathlib.Path(page.tools.root) / "bench/RESULTS.md").read_text()


def rows_of(text):
    """What each row of the tables begins with, without the letter of its machine, and the figures that its cells begin with.
    `the same, X` is the row above it but for what that is compared with."""
    rows, above = [], ""
    for line in text.splitlines():
        if not line.startswith("| "):
            continue
        label, *cells = line.strip("|").split(" | ")
        label = re.sub(r"^ *(?:[A-Z] )?", "", label)
        if label.startswith("the same, "):
            label = above + label.removeprefix("the same")
        else:
            above = re.split(r", against | \(", label)[0]
        rows.append((label, {found[0] for cell in cells if (found := re.match(FIGURE, cell.strip()))}))
    return rows


def seconds_of(milliseconds, like):
    """With as many digits as the figure `like` has."""
    digits = len(like.partition(".")[2])
    return f"{float(milliseconds.replace(',', '')) / 1000:.{digits}f}"


def text_is_measured(page, text, claims):
    """Each claim is in the text: a pattern with one figure, what the row begins with that has it, and its unit there if it is
    another one. Whatever else has a unit in the text is no claim, and fails."""
    rows = rows_of(results(page))
    text = " ".join(text.split())
    claimed = set()
    for pattern, row, *unit in claims:
        found = re.search(pattern, text)
        assert found, f"{page.name}: nothing says `{pattern}` (any more)"
        figure = found[1]
        claimed.add(found.start(1))
        for words, figures in rows:
            there = {seconds_of(one, figure) for one in figures} if "ms" in unit else figures
            if words.startswith(row) and (figure in there or f"({figure} kills)" in words):
                break
        else:
            raise AssertionError(f"{page.name}: bench/RESULTS.md has no row that begins with `{row}` and has {figure}")
    with_unit = re.finditer(rf"(?<![\w-])({FIGURE})(?= ?(?:seconds|s|ms|steps|kills|MB|GB|MiB|GiB|%|×)(?!\w))", text)
    strange = [one[0] for one in with_unit if one.start(1) not in claimed]
    assert not strange, f"{page.name}: no row of bench/RESULTS.md is named for {' and '.join(strange)}"
