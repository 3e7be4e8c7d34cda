#!/usr/bin/env python3
"""All-reduce of f32, 1 KiB to 64 MiB, on one host: muster's shared memory, torch Gloo, Open MPI, MPICH, and the bound.

The engines take turns in rounds; each verifies every result. Ranks are pinned where each has a core of its own. The
bound is the traffic alone, of two ranks (bound.cc); muster is measured in buffers that it handed out and in foreign
ones. Prints a table in Markdown with the median and the 95th percentile in microseconds.

Usage: bench/all_reduce/compare.py [--build build/release] [--python .deps/pytorch/bin/python] [--ranks 2 4]
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
SIZES = [1 << 10, 16 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]
ROUNDS = 10
PING_PONG = 0  # what bound.cc takes for a size
MPICH_HEADER = pathlib.Path("/usr/include/x86_64-linux-gnu/mpich/mpi.h")


def repetitions(size):
    return 100 if size <= 64 << 10 else 10 if size <= 4 << 20 else 3


def times(command, sizes):
    """By size: microseconds of each repetition."""
    words = [f"{size}:{repetitions(size)}" for size in sizes]
    done = subprocess.run(command + words, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed ({done.returncode}): {done.stderr}")
    lines = [line.split() for line in done.stdout.splitlines() if line[:1].isdigit()]
    return {int(size): [float(word) for word in taken] for size, *taken in lines}


def cores():
    return len(os.sched_getaffinity(0))


def mpirun(ranks):
    """The commands of Open MPI and MPICH, up to the program."""
    pinned = ranks <= cores()
    open_mpi = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "core" if pinned else "none"]
    mpich = ["mpirun.mpich"] + (["-bind-to", "core"] if pinned else [])
    return {"Open MPI": open_mpi + ["-np", str(ranks)], "MPICH": mpich + ["-n", str(ranks)]}


def engines(build, python, programs, ranks):
    native = str(build / "bench/all_reduce/muster_bench_all_reduce")
    commands = {"muster": [native, "memory", str(ranks)], "foreign": [native, "foreign", str(ranks)],
                "Gloo": [str(python), str(HERE / "gloo.py"), str(ranks)]}
    return commands | {name: mpirun(ranks)[name] + [str(program)] for name, program in programs.items()}


def median_and_late(values):
    """The median and the 95th percentile."""
    values = sorted(values)
    return statistics.median(values), values[int(0.95 * (len(values) - 1))]


def describe(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def build_peers(folder):
    """The programs of Open MPI, which script/packages.txt has, and of MPICH where its headers are installed."""
    programs = {"Open MPI": pathlib.Path(folder) / "open_mpi"}
    subprocess.run(["mpicc.openmpi", "-O2", str(HERE / "mpi.c"), "-o", str(programs["Open MPI"])], check=True)
    mpich = pathlib.Path(folder) / "mpich"
    if MPICH_HEADER.exists():
        subprocess.run(["mpicc.mpich", "-O2", str(HERE / "mpi.c"), "-o", str(mpich)], check=True)
        programs["MPICH"] = mpich
    else:
        print(f"MPICH is left out: {MPICH_HEADER} is missing (libmpich-dev)\n")
    return programs


def race(commands, sizes, rounds):
    """By engine and size, from all rounds."""
    taken = {}
    for _ in range(rounds):
        for name, command in commands.items():
            for size, values in times(command, sizes).items():
                taken.setdefault((name, size), []).extend(values)
    return {key: median_and_late(values) for key, values in taken.items()}


def cell(figure):
    median, late = figure
    return f"{median:,.1f} ({late:,.1f})" if median < 100 else f"{median:,.0f} ({late:,.0f})"


def print_rows(ranks, figures, peers):
    for size in SIZES:
        row = {name: figures[name, size] for name in ("muster", "foreign", *peers)}
        bound = figures.get(("bound", size))
        best = min(row[name][0] for name in peers)
        muster = row["muster"][0]
        print(f"| {ranks} | {describe(size)} | {cell(bound) if bound else '–'} | "
              f"{' | '.join(map(cell, row.values()))} | {f'{muster / bound[0]:.2f}' if bound else '–'} | "
              f"{best / muster:.1f} | {best / row['foreign'][0]:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--python", type=pathlib.Path, default=ROOT / ".deps/pytorch/bin/python")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    bound = {"bound": [str(options.build / "bench/all_reduce/muster_bench_bound")]}
    with tempfile.TemporaryDirectory() as folder:
        programs = build_peers(folder)
        peers = ["Gloo", *programs]
        print(f"| ranks | size | bound | muster, handed out | muster, foreign | {' | '.join(peers)} | muster / bound |"
              " best peer / muster | / foreign |")
        print("|---" * (8 + len(peers)) + "|")
        for ranks in options.ranks:
            commands = engines(options.build, options.python, programs, ranks)
            figures = race((bound if ranks == 2 <= cores() else {}) | commands, SIZES, options.rounds)
            print_rows(ranks, figures, peers)
    round_trip = race(bound, [PING_PONG], 1)["bound", PING_PONG]
    print(f"\nA cache line there and back between two cores: {round_trip[0]:.3f} µs ({round_trip[1]:.3f}).")


if __name__ == "__main__":
    main()
