"""What the checks beside this file share: which files there are, their includes, their text without
comments, and compiler runs whose good results are remembered."""

import concurrent.futures
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE_FOLDERS = ("muster", "tests", "bench", "examples")
# What the operating system offers, as a pattern of headers.
SYSTEM_HEADER = (r"((arpa|linux|net|netinet|sys)/\w+|fcntl|unistd|poll|pthread|sched|semaphore|signal|dlfcn|execinfo|cxxabi"
                 r"|ifaddrs|locale|malloc|netdb|dirent|termios|spawn|pwd|grp|time|stdlib|stdio|string)\.h")
TOGETHER = 16  # files of one run, as in the unity builds of CMakePresets.json
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def arguments(usage):
    """What follows the program's name. An option that `usage` does not name shows it and ends the program."""
    given = sys.argv[1:]
    unknown = [word for word in given if word.startswith("-") and f"[{word}]" not in usage]
    if unknown:
        print(usage.strip())
        sys.exit(0 if unknown[0] in ("-h", "--help") else 2)
    return given


def root_of(given):
    return Path(given[0]) if given else ROOT


def cpp_files(root, folders=SOURCE_FOLDERS):
    """Every .h and .cc below the folders, sorted, relative to root."""
    return sorted(
        path.relative_to(root)
        for folder in folders
        for path in (Path(root) / folder).rglob("*")
        if path.suffix in (".h", ".cc") and path.is_file()
    )


def is_test(path):
    """True for what only tests use: x_test.cc, tests/, bench/, folders named testing."""
    return path.name.endswith("_test.cc") or path.parts[0] != "muster" or "testing" in path.parts[1:-1]


def includes(text):
    """Yields (line number, '<' or '"', path) for each include."""
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1), match.group(2)


def code_only(text):
    """The text with comments and the contents of literals blanked; line numbers stay."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"'
        r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'(?!\w)',
        re.DOTALL,
    )

    def blank(match):
        found = match.group(0)
        if found.startswith(("//", "/*")):
            return "\n" * found.count("\n")
        return '""' + "\n" * found.count("\n")

    return pattern.sub(blank, text)


def closure(root, path, seen=None):
    """The file and every file of the project it includes, directly or not."""
    seen = {} if seen is None else seen
    if path in seen:
        return seen
    text = (root / path).read_text()
    seen[path] = text
    for _, _, name in includes(text):
        if (root / name).is_file():
            closure(root, Path(name), seen)
    return seen


def fingerprint(root, path, *extra):
    """Changes when the file, anything of the project it includes, or `extra` changes."""
    digest = hashlib.sha256(repr(extra).encode())
    for name, text in sorted(closure(root, path).items()):
        digest.update(f"{name}\0{text}\0".encode())
    return digest.hexdigest()


class Remembered:
    """Results that were good, kept below build/: what passed is not looked at again while its
    fingerprint stays. Jobs are (path, fingerprint, command)."""

    def __init__(self, name, jobs, root=ROOT):
        self.root = root
        self.jobs = jobs
        self.passed = root / "build" / name
        self.passed.mkdir(parents=True, exist_ok=True)

    def open_jobs(self):
        return [job for job in self.jobs if not (self.passed / job[1]).exists()]

    def try_together(self, command_of):
        """One run for several jobs of a layer, where most of a run is what they share:
        `command_of(index, paths)` returns the command that stands for those of all. Jobs of a run that
        passes have passed; one that does not is tried in halves, down to single jobs, which stay open.
        Nothing is printed."""
        layers = {}
        for job in self.open_jobs():
            layers.setdefault(job[0].parts[:2], []).append(job)
        chunks = [jobs[first:first + TOGETHER] for jobs in layers.values()
                  for first in range(0, len(jobs), TOGETHER)]

        def run(index, jobs):
            if len(jobs) < 2:
                return
            if self._run(command_of(index, [job[0] for job in jobs])).returncode == 0:
                self._remember(jobs)
                return
            run(index, jobs[:len(jobs) // 2])
            run(index, jobs[len(jobs) // 2:])

        self._on_all_cores(lambda numbered: run(*numbered), enumerate(chunks))

    def run_each(self):
        """Runs what is open. Prints the output of those that fail and returns their paths."""
        def run(job):
            done = self._run(job[2])
            if done.returncode == 0:
                self._remember([job])
                return None
            print(done.stdout, flush=True)  # at once: a run that is cut short has still told
            return job[0]

        return [failure for failure in self._on_all_cores(run, self.open_jobs()) if failure]

    def _run(self, command):
        return subprocess.run(command, cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", check=False)

    def _remember(self, jobs):
        for _, mark, _ in jobs:
            (self.passed / mark).touch()

    @staticmethod
    def _on_all_cores(run, items):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(run, items))


def finish(check, problems, looked_at):
    """Prints the problems, one a line, and ends the program: 0 when there are none."""
    for problem in problems:
        print(problem)
    verdict = f"{len(problems)} problems" if problems else "good"
    print(f"{check}: {verdict} ({looked_at} files)")
    sys.exit(1 if problems else 0)
