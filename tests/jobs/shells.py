#!/usr/bin/env python3
"""What a real shell, on a terminal, makes of words and a TAB: shells.py MUSTER bash|zsh|autoloaded WORDS…

The script of `muster completion` is sourced, or lies as `_muster` in a folder of zsh's fpath, as packages install it.
The home is the folder `home`. Of each of WORDS comes the line behind the TAB, in brackets, since it may end in a blank.
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
BASH = """tell() { printf 'told <%s>\\n' "$READLINE_LINE"; READLINE_LINE= READLINE_POINT=0; }
bind -x '"\\C-t": tell'
source <(muster completion bash)
"""
ZSH = """bindkey -e
tell() { zle -I; print -r -- "told <$BUFFER>"; BUFFER= }
zle -N tell
bindkey '^T' tell
autoload -Uz compinit
"""
WAYS = {"bash": ("bash --norc --noprofile -i", BASH),
        "zsh": ("zsh -f -i", ZSH + "compinit -u -D\nsource <(muster completion zsh)\n"),
        "autoloaded": ("zsh -f -i", ZSH + "fpath=($PWD/completions $fpath)\ncompinit -u -D\n")}


class Shell:
    def __init__(self, command, variables):
        name, *flags = command.split()
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen([program(name), *flags], stdin=theirs, stdout=theirs, stderr=theirs,
                                        start_new_session=True, env=os.environ | variables)
        os.close(theirs)

    def type(self, text):
        os.write(self.ours, text.encode())

    def shows(self, pattern):
        shown, end = "", time.monotonic() + DEADLINE
        while not (found := re.search(pattern, shown)):
            ready, _, _ = select.select([self.ours], [], [], max(end - time.monotonic(), 0))
            assert ready, f"the shell does not show `{pattern}`: {shown!r}"
            shown += os.read(self.ours, 4096).decode(errors="ignore")
        return found

    def end(self):
        self.process.kill()
        self.process.wait()
        os.close(self.ours)


def program(name):
    found = shutil.which(name)
    assert found, f"no {name} here: script/dependencies --for test installs it"
    return found


def main():
    muster, way, *lines = sys.argv[1:]
    for folder in ("bin", "completions", "home"):
        Path(folder).mkdir(exist_ok=True)
    if not Path("bin/muster").exists():
        Path("bin/muster").symlink_to(muster)
    Path("completions/_muster").write_bytes(
        subprocess.run([muster, "completion", "zsh"], capture_output=True, check=True).stdout)
    command, setup = WAYS[way]
    Path("setup").write_text(setup)
    shell = Shell(command, {"PATH": f"{Path('bin').resolve()}:{os.environ['PATH']}", "PS1": "ready> ", "TERM": "dumb",
                            "HOME": str(Path("home").resolve()), "INPUTRC": os.devnull})
    try:
        shell.shows("ready> ")
        shell.type("source ./setup && echo set''up\n")
        shell.shows("setup\r")
        for line in lines:
            shell.type(f"{line}\t\x14")
            print(f"[{shell.shows(r'told <([^>]*)>')[1]}]")
    finally:
        shell.end()


main()
