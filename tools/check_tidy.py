#!/usr/bin/env python3
"""clang-tidy with the set of .clang-tidy on every source of the layers without libtorch, or with
--torch on those with it. A file that passed is not looked at again until something it includes
changes.

usage: tools/check_tidy.py [--torch] [FILE…]
"""

import subprocess
from functools import partial
from pathlib import Path

from compilers import LANGUAGE, in_core, needs_torch, precompiled_torch
from sources import ROOT, arguments, cpp_files, finish, fingerprint, run_remembered


def main():
    given = arguments(__doc__)
    with_torch = "--torch" in given
    named = [Path(name) for name in given if not name.startswith("--")]
    chosen = needs_torch if with_torch else in_core
    files = [path for path in named or cpp_files(ROOT, ("muster",))
             if path.suffix == ".cc" and chosen(path) and not path.name.endswith("_test.cc")]
    flags = list(LANGUAGE)
    if with_torch and files:
        flags += precompiled_torch(partial(subprocess.run, cwd=ROOT, check=True))
    rules = (ROOT / ".clang-tidy").read_text()
    jobs = [(path, fingerprint(ROOT, path, rules, flags),
             ["clang-tidy-19", "--quiet", "--warnings-as-errors=*", str(path), "--", *flags])
            for path in files]
    failures = run_remembered("checks/tidy", jobs)
    finish("tidy", [f"{path}: see above" for path in failures], len(files))


if __name__ == "__main__":
    main()
