#!/usr/bin/env python3
"""clang-tidy with the set of .clang-tidy on every source of the layers without libtorch, or with
--torch on those with it. A file that passed is not looked at again until something it includes
changes. Files of a layer are looked at together, as one: most of the time goes into the headers
that they share. Where something is found, each is looked at alone, and that is what counts.

usage: tools/check_tidy.py [--torch] [FILE…]
"""

import subprocess
from functools import partial
from pathlib import Path

from compilers import LANGUAGE, in_core, needs_torch, precompiled_torch
from sources import ROOT, arguments, cpp_files, finish, fingerprint, Remembered


def tidy(path, flags):
    return ["clang-tidy-19", "--quiet", "--warnings-as-errors=*", str(path), "--", *flags]


def tidy_of_all(flags, name, index, paths):
    """The texts one after another, not included: some checks look at the main file alone."""
    place = ROOT / "build/checks/together" / f"{name}{index}.cc"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("\n".join((ROOT / path).read_text() for path in paths))
    return tidy(place, flags)


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
    jobs = [(path, fingerprint(ROOT, path, rules, flags), tidy(path, flags)) for path in files]
    results = Remembered("checks/tidy", jobs)
    results.try_together(partial(tidy_of_all, flags, "torch" if with_torch else "core"))
    failures = results.run_each()
    finish("tidy", [f"{path}: see above" for path in failures], len(files))


if __name__ == "__main__":
    main()
