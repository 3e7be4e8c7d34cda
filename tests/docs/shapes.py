"""Whether what a page shows is what a program prints now: the same words; numbers, times, names of hosts and runs may
differ."""
import difflib
import re

NUMBER = r"(?:(?<!\w)[+-])?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?"
UNITS = (r"(?:ns|µs|ms|s|min|h)\b", r"(?:B|KiB|MiB|GiB|TiB)\b")
# What varies, and what stands in its place.
VARIABLES = [
    (r"…", r".*"),
    (r"\bruns/[\w./-]*\w|(?<!\S)~?/[\w./-]*\w", r"\S*[\w/]"),
    (r"\bnode\d+", r"[\w.-]+"),
    (r"\b\d+\.\d+\.\d+\.\d+:\d+\b", r"\d+\.\d+\.\d+\.\d+:\d+"),
    (r"\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{6,8}\b", r"[0-9a-f]{6,8}"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+\d", r"\d{4}-\d\d-\d\dT[\d:.]+\d"),
    (r"\d+(?::\d\d)+", r"\d+(?::\d\d)+"),
    *((rf"{NUMBER} {unit}", rf"{NUMBER} {unit}") for unit in UNITS),
    (NUMBER, NUMBER),
]
VARIABLE = re.compile("|".join(f"({shown})" for shown, _ in VARIABLES))


def normal(line):
    return re.sub(r"\s+", " ", line.strip())


def pattern_of(line, words):
    """What a printed line has to look like; `words` adds patterns of the page's own: shown -> printed."""
    for shown, printed in words.items():
        if found := re.search(shown, line):
            before, behind = line[:found.start()], line[found.end():]
            return pattern_of(before, words) + printed + pattern_of(behind, words)
    pattern, at = "", 0
    for found in VARIABLE.finditer(line):
        pattern += re.escape(line[at:found.start()]) + VARIABLES[found.lastindex - 1][1]
        at = found.end()
    return pattern + re.escape(line[at:])


def fits(line, printed, words):
    return re.fullmatch(pattern_of(normal(line), words), normal(printed)) is not None


def problem_of(place, line, printed):
    near = difflib.get_close_matches(normal(line), list(map(normal, printed)), n=1, cutoff=0)
    return f"{place}: this is not what is printed now:\n  {normal(line)}\nThe nearest of that is\n  {''.join(near)}\nof\n" + \
        "\n".join(printed)


def same(place, shown, text):
    """Each line shown is printed with the very numbers, in this order; what ends the lines may differ in blanks."""
    rest = iter([line.rstrip() for line in text.splitlines()])
    for line in shown:
        assert not line.strip() or line.strip() == "…" or any(line.rstrip() == other for other in rest), \
            problem_of(place, line, text.splitlines())


def compare(place, shown, text, words=None, ordered=True):
    """Each line shown is among those printed, in this order unless not `ordered`."""
    printed = [line for line in text.splitlines() if line.strip()]
    rest = list(printed)
    for line in shown:
        if not line.strip() or line.strip() == "…":
            continue
        at = next((i for i, other in enumerate(rest) if fits(line, other, words or {})), None)
        assert at is not None, problem_of(place, line, printed)
        rest = rest[at + 1:] if ordered else rest[:at] + rest[at + 1:]
