"""What a page points at: other pages and their headings, files of the project."""
import pathlib
import re

LINK = re.compile(r"\]\(([^)\s]+)\)")
# Of the project, of docs/ or of a folder of muster's; a capital stands for any name.
FILE = re.compile(r"`([a-z_.-]+(?:/[a-z0-9_.-]+)*/[a-z0-9_.-]+\.(?:h|cc|py|md|yaml|yml|json|txt|sh|cmake))`")
# Made by scripts, builds and runs.
MADE = ("runs/", "build/", "data/", ".deps/")


def heading(text):
    """As browsers are told it: small letters, blanks as hyphens, nothing else but letters and digits."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def check_link(page, number, link):
    name, _, anchor = link.partition("#")
    here = pathlib.Path(page.tools.root) / page.name
    there = here.parent / name if name else here
    assert there.exists(), f"{page.name}:{number}: there is no {link}"
    headings = re.findall(r"^#+ (.*)$", there.read_text(), re.MULTILINE) if anchor else []
    assert not anchor or anchor in map(heading, headings), f"{page.name}:{number}: {name} has no heading #{anchor}"


def check(page):
    root = pathlib.Path(page.tools.root)
    for number, line in enumerate(page.text.splitlines(), 1):
        for link in LINK.findall(line):
            if "://" not in link:
                check_link(page, number, link)
        for name in FILE.findall(line):
            there = name.startswith(MADE) or (root / name).exists() or (root / "docs" / name).exists() or \
                any(root.glob(f"muster/**/{name}"))
            assert there, f"{page.name}:{number}: there is no file {name}"
