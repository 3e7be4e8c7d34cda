#!/usr/bin/env python3
"""Each header compiles alone: it includes what it uses. Headers of the layers with libtorch are
compiled with libtorch's umbrella header in front, which costs 25 s otherwise.

usage: tools/check_headers.py [--torch]
"""

import subprocess
from functools import partial

from compilers import LANGUAGE, WARNINGS, in_core, needs_torch, precompiled_torch
from sources import ROOT, arguments, cpp_files, finish, fingerprint, Remembered


def main():
    with_torch = "--torch" in arguments(__doc__)
    chosen = needs_torch if with_torch else in_core
    headers = [path for path in cpp_files(ROOT, ("muster",)) if path.suffix == ".h" and chosen(path)]
    compiler = ["clang++-19"] if with_torch else ["g++"]
    command = [*compiler, *LANGUAGE, *WARNINGS, "-fsyntax-only", "-x", "c++"]
    if with_torch and headers:
        command[1:1] = precompiled_torch(partial(subprocess.run, cwd=ROOT, check=True))
    jobs = [(path, fingerprint(ROOT, path, command), [*command, "-include", str(path), "/dev/null"])
            for path in headers]
    failures = Remembered("checks/headers", jobs).run_each()
    finish("headers", [f"{path}:1: does not compile alone" for path in failures], len(headers))


if __name__ == "__main__":
    main()
