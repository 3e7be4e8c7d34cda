#!/usr/bin/env python3
"""Whatever `--help` shows of commands, arguments and options, the manual page, completion and docs/cli.md have too:
words_everywhere.py MUSTER SOURCES"""
import os
import re
import subprocess
import sys
from pathlib import Path

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}


def told(*command, **more):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60, check=True, env=ENVIRONMENT, **more)
    return done.stdout


class Command:
    """As `muster WAY --help` shows it: its way, the commands below it, its arguments and options."""

    def __init__(self, muster, way):
        self.way = way
        parts = re.split(r"^([A-Z][\w, ]*):$", told(muster, *way, "--help").split("\nWith every command", 1)[0], flags=re.MULTILINE)
        groups = dict(zip(parts[1::2], parts[2::2]))
        self.below = re.findall(r"^  ([a-z]\w*)\b", groups.pop("Subcommands", ""), re.MULTILINE)
        self.arguments = re.findall(r"^  ([A-Z]\w*)", groups.pop("Positionals", ""), re.MULTILINE)
        entries = re.findall(r"^ {2,8}(-[\w,\- ]*?)(?:=| [A-Z\[.]| {2}|$| [a-z|]+\|)", "".join(groups.values()), re.MULTILINE)
        self.options = {name.strip() for names in entries for name in names.split(",") if name.strip()}

    @property
    def name(self):
        return " ".join(("muster", *self.way))


def commands(muster, way=()):
    """All of them, the program itself first."""
    one = Command(muster, way)
    yield one
    for name in one.below:
        yield from commands(muster, (*way, name))


def manual_sections(muster):
    """Of each command what stands in bold below its heading."""
    page = told(muster, "help", "man").replace("\\-", "-")
    whole, _, rest = page.partition(".SH COMMANDS\n")
    found = {"muster": set(re.findall(r"[^ ]+", " ".join(re.findall(r"^\\fB(.*?)\\fR", whole, re.MULTILINE))))}
    for name, text in re.findall(r'^\.SS "(.*?)"\n(.*?)(?=^\.S[SH] |\Z)', rest, re.MULTILINE | re.DOTALL):
        found[name] = set(" ".join(re.findall(r"^\\fB(.*?)\\fR", text, re.MULTILINE)).split())
    return found


def completed(muster, script, ways):
    """What the script offers behind each of the ways, after a dash and after nothing."""
    asks = "".join(f"ask {' '.join(way)} ''\nask {' '.join(way)} -\n" for way in ways)
    ask = 'ask() { COMP_WORDS=("$MUSTER" "$@"); COMP_CWORD=$#; COMPREPLY=(); _muster; echo "${COMPREPLY[@]}"; }\n'
    lines = told("bash", "-c", f"MUSTER={muster}\ncd /\n{script}\n{ask}{asks}").splitlines()
    assert len(lines) == 2 * len(ways), f"{len(lines)} answers to {2 * len(ways)} questions"
    return {way: (set(lines[2 * i].split()), set(lines[2 * i + 1].split())) for i, way in enumerate(ways)}


def check_manual(known, sections):
    assert set(sections) == {command.name for command in known}, set(sections) ^ {command.name for command in known}
    for command in known:
        wanted = (command.options | set(command.arguments)) - {"-h", "--help"}
        missing = wanted - sections[command.name]
        assert not missing, f"the manual page has no {missing} of `{command.name}`"


def check_completion(known, answers):
    for command in known:
        words, options = answers[command.way]
        assert set(command.below) <= words, f"`{command.name} TAB` does not offer {set(command.below) - words}"
        wanted = {name for name in command.options if name.startswith("--")} | {"--help", "--log"}
        assert options == wanted, f"`{command.name} -TAB`: {options ^ wanted}"


def check_page(known, text):
    """docs/cli.md; `status\\|top RUN` stands for both."""
    spans = re.findall(r"`(muster [^`]+)`", text)
    for command in known:
        if not command.way or command.below and command.way[-1] not in ("plan", "runs", "help"):
            continue
        there = any(all(word in re.split(r"\\?\|", shown) for word, shown in zip(command.way, span.split()[1:]))
                    and len(span.split()) > len(command.way) for span in spans)
        assert there, f"docs/cli.md has no `{command.name}`"


def main():
    muster, sources = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    known = list(commands(muster))
    assert len(known) > 30 and sum(len(command.options) for command in known) > 200, [command.name for command in known]
    check_manual(known, manual_sections(muster))
    script = told(muster, "completion", "bash")
    check_completion(known, completed(muster, script, [command.way for command in known]))
    offers = script[script.index("_muster_offers() {"):script.index("\n_muster() {")]
    assert offers in told(muster, "completion", "zsh"), "zsh offers other words than bash"
    check_page(known, (sources / "docs/cli.md").read_text())
    print(f"ok  {len(known)} commands")


main()
