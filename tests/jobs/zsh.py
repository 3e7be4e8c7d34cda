#!/usr/bin/env python3
"""What the real zsh, on a terminal, makes of words and a TAB: zsh.py MUSTER sourced|autoloaded WORDS…

The script of `muster completion zsh` is sourced, or lies as `_muster` in a folder of fpath, as packages install it.
"""
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

DEADLINE = 60  # seconds for one answer: a bound on a hang
# ^T tells what stands in the line, and empties it.
SETUP = """bindkey -e
tell() { zle -I; print -r -- "told <$BUFFER>"; BUFFER= }
zle -N tell
bindkey '^T' tell
autoload -Uz compinit
"""
WAYS = {"sourced": "compinit -u -D\nsource <(muster completion zsh)\n",
        "autoloaded": "fpath=($PWD/completions $fpath)\ncompinit -u -D\n"}


class Shell:
    def __init__(self, variables):
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen([program(), "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs,
                                        start_new_session=True, env=os.environ | variables)
        os.close(theirs)

    def type(self, text):
        os.write(self.ours, text.encode())

    def shows(self, pattern):
        shown, end = "", time.monotonic() + DEADLINE
        while not (found := re.search(pattern, shown)):
            ready, _, _ = select.select([self.ours], [], [], max(end - time.monotonic(), 0))
            assert ready, f"zsh does not show `{pattern}`: {shown!r}"
            shown += os.read(self.ours, 4096).decode(errors="ignore")
        return found

    def end(self):
        self.process.kill()
        self.process.wait()
        os.close(self.ours)


def program():
    found = shutil.which("zsh")
    assert found, "no zsh here: script/dependencies --for test installs it"
    return found


def main():
    muster, way, *lines = sys.argv[1:]
    for folder in ("bin", "completions"):
        Path(folder).mkdir(exist_ok=True)
    if not Path("bin/muster").exists():
        Path("bin/muster").symlink_to(muster)
    Path("completions/_muster").write_bytes(
        subprocess.run([muster, "completion", "zsh"], capture_output=True, check=True).stdout)
    Path("setup").write_text(SETUP + WAYS[way])
    shell = Shell({"PATH": f"{Path('bin').resolve()}:{os.environ['PATH']}", "PS1": "ready> ", "TERM": "dumb"})
    try:
        shell.shows("ready> ")
        shell.type("source ./setup && echo set''up\n")
        shell.shows("setup\r")
        for line in lines:
            shell.type(f"{line}\t\x14")
            print(shell.shows(r"told <([^>]*)>\r")[1].rstrip())
    finally:
        shell.end()


main()
