#!/usr/bin/env python3
"""The release preset compiles several files of a layer at once, which is twice as fast; there two
files must not give a helper the same name. Only the syntax is checked: tests run on other presets.

usage: tools/check_unity.py
"""

import json
import shlex
import subprocess
from pathlib import Path

from sources import ROOT, finish, fingerprint, run_remembered

FOLDER = "build/unity"
PRECOMPILED = ("muster_core_precompiled", "muster_torch_precompiled")


def main():
    quiet = {"cwd": ROOT, "check": True, "stdout": subprocess.DEVNULL}
    subprocess.run(["cmake", "--preset", "release", "-B", FOLDER], **quiet)
    subprocess.run(["ninja", "-C", FOLDER, *PRECOMPILED], **quiet)
    jobs = []
    for entry in json.loads((ROOT / FOLDER / "compile_commands.json").read_text()):
        path = Path(entry["file"])
        if "Unity" in path.parts and not any(f"{p}.dir" in path.parts for p in PRECOMPILED):
            command = [*shlex.split(entry["command"]), "-Werror", "-fsyntax-only"]
            jobs.append((path.relative_to(ROOT), fingerprint(ROOT, path, command),
                         ["env", "-C", entry["directory"], *command]))
    failures = run_remembered("checks/unity", jobs)
    finish("unity", [f"{path}:1: does not compile; give the helpers names of their own"
                     for path in failures], len(jobs))


if __name__ == "__main__":
    main()
