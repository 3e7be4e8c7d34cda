#!/usr/bin/env python3
"""Runs text-file tests of the command line: run_jobs.py MUSTER FILE…

A file is a list of cases:

    case: what is promised
    job: |                      the lines that start with "| " are written to job.yaml
    | model:
    |   type: mlp
    bytes: |                    the same with Python's escapes (\\t, \\xff, \\0), for odd bytes
    repeat: 3000 [              to job.yaml: this text so many times
    env: NAME=value             any number
    run: muster validate job.yaml
    exit: 2
    out: |                      standard output, exactly; out~: lines that hold these, in this order
    err: |                      the same for standard error; neither named: it must be empty
    json: a.b[0] = value        any number: what standard output, as JSON, has there
    time: 10                    seconds within which the command must have ended (default 20)

Each case runs in an empty folder, without MUSTER_* variables. `$SOURCE` in `run` is the project's folder.
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

BLOCKS = ("job", "bytes", "out", "err", "out~", "err~")
LINES = ("case", "env", "run", "exit", "json", "time", "repeat")


class Case:
    def __init__(self, name, line):
        self.name, self.line = name, line
        self.job = b""
        self.env, self.json = [], []
        self.run, self.exit, self.time = None, None, 20
        self.expected = {}


def parse(path):
    cases, block = [], None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("|") and block:
            add_to_block(cases[-1], block, line[2:])
            continue
        block = None
        if not line.strip() or line.startswith("#"):
            continue
        key, _, value = line.partition(":")
        value = value.strip()
        if key == "case":
            cases.append(Case(value, number))
        elif not cases or key not in BLOCKS + LINES:
            sys.exit(f"{path}:{number}: cannot read this line: {line}")
        elif key in BLOCKS and value == "|":
            block = key
            if key not in ("job", "bytes"):
                cases[-1].expected[key] = []
        else:
            set_line(cases[-1], key, value)
    return cases


def add_to_block(case, block, text):
    if block == "job":
        case.job += text.encode() + b"\n"
    elif block == "bytes":
        case.job += text.encode().decode("unicode_escape").encode("latin-1") + b"\n"
    else:
        case.expected[block].append(text)


def set_line(case, key, value):
    if key in ("env", "json"):
        getattr(case, key).append(value)
    elif key == "repeat":
        count, _, text = value.partition(" ")
        case.job += text.encode().decode("unicode_escape").encode("latin-1") * int(count)
    else:
        setattr(case, key, int(value) if key in ("exit", "time") else value)


def environment(case):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    return kept | dict(entry.split("=", 1) for entry in case.env)


def in_order(wanted, found):
    rest = iter(found)
    return all(any(text in line for line in rest) for text in wanted)


def stream_problems(case, stream, text):
    if stream in case.expected:
        want = "".join(line + "\n" for line in case.expected[stream])
        if text != want:
            yield f"{stream}: expected\n{want}found\n{text}"
    elif stream + "~" in case.expected:
        want = case.expected[stream + "~"]
        if not in_order(want, text.splitlines()):
            yield f"{stream}: these lines are not in it in this order\n" + "\n".join(want) + f"\nfound\n{text}"
    elif text and not (stream == "out" and case.json):
        yield f"{stream}: expected nothing, found\n{text}"


def json_problems(case, text):
    if not case.json:
        return
    try:
        answer = json.loads(text)
    except ValueError as error:
        yield f"out is not JSON: {error}\n{text}"
        return
    for entry in case.json:
        place, _, want = entry.partition(" = ")
        try:
            found = answer
            for part in re.findall(r"\[\"([^\"]+)\"\]|\[(\d+)\]|([^.\[]+)", place):
                found = found[int(part[1])] if part[1] else found[part[0] or part[2]]
        except (KeyError, IndexError, TypeError):
            yield f"out has no {place}:\n{text}"
            continue
        if found != json.loads(want):
            yield f"{place}: expected {want}, found {json.dumps(found)}"


def problems_of(case, muster):
    words = [word.replace("$SOURCE", os.environ.get("MUSTER_SOURCE", ".")) for word in shlex.split(case.run)]
    words = [muster if word == "muster" else word for word in words]
    with tempfile.TemporaryDirectory(prefix="muster-jobs-") as folder:
        (Path(folder) / "job.yaml").write_bytes(case.job)
        try:
            done = subprocess.run(words, cwd=folder, env=environment(case), capture_output=True,
                                  stdin=subprocess.DEVNULL, timeout=case.time)
        except subprocess.TimeoutExpired:
            return [f"did not end within {case.time} s"]
    found = [f"exit: expected {case.exit}, found {done.returncode}"] if done.returncode != case.exit else []
    for stream, data in (("out", done.stdout), ("err", done.stderr)):
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            found.append(f"{stream} is not UTF-8: {error}")
            continue
        found += stream_problems(case, stream, text)
        found += json_problems(case, text) if stream == "out" else []
    return found


def main():
    muster, files = os.path.abspath(sys.argv[1]), sys.argv[2:]
    count = failed = 0
    for path in map(Path, files):
        for case in parse(path):
            count += 1
            found = problems_of(case, muster)
            failed += bool(found)
            for problem in found:
                print(f"{path.name}:{case.line}: {case.name}\n  {case.run}\n{problem}\n")
    print(f"{count} cases, {failed} failed")
    sys.exit(1 if failed or not count else 0)


main()
