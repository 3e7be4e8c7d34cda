#!/usr/bin/env python3
"""Collectives of f32 on one host: muster's shared memory, torch Gloo, Open MPI, MPICH, and the bound.

All-reduce, reduce-scatter, all-gather, all-to-all and broadcast, 1 KiB to 64 MiB. The engines take turns in rounds;
each verifies every result, and a time is that of the slowest rank. Ranks are pinned where each has a core of its own.
A size is that of the larger of both tensors, as in NCCL-tests, and so is the bus bandwidth: what each link would have
to carry. The bound is the traffic alone, of two ranks (bound.cc); muster is measured in buffers that it handed out
and in foreign ones. Prints a table in Markdown with the median and the 95th percentile in microseconds.

Usage: bench/collectives/compare.py [--build build/release] [--python .deps/pytorch/bin/python]
           [--operations all_reduce all_gather] [--ranks 2 4] [--sizes 1K 16M 256M] [--repetitions 10]
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness

HERE = pathlib.Path(__file__).resolve().parent
# By operation: its bus bandwidth, as a multiple of size / time, among n ranks.
OPERATIONS = {"all_reduce": lambda n: 2 * (n - 1) / n, "reduce_scatter": lambda n: (n - 1) / n,
              "all_gather": lambda n: (n - 1) / n, "all_to_all": lambda n: (n - 1) / n, "broadcast": lambda n: 1}
RANKS = [2, 3, 4, 8]
SIZES = [1 << 10, 16 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]
LARGEST = 256 << 20
PING_PONG = 0  # what bound.cc takes for a size
CANNOT = "cannot"  # a peer that has no such operation
MPICH_HEADER = pathlib.Path("/usr/include/x86_64-linux-gnu/mpich/mpi.h")
ENGINES = ("muster", "foreign")


def repetitions(size):
    return 100 if size <= 64 << 10 else 10 if size <= 4 << 20 else 3


def parse_size(text):
    found = re.fullmatch(r"(\d+)([KM]?)", text)
    size = int(found[1]) << {"": 0, "K": 10, "M": 20}[found[2]] if found else 0
    if not 64 <= size <= LARGEST:
        raise argparse.ArgumentTypeError(f"expected bytes, as in 64K or 16M, from 64 to 256M, found {text}")
    return size


def read_line(line):
    size, *taken = line.split()
    return int(size), None if taken == [CANNOT] else [float(word) for word in taken]


def times(command, sizes):
    """By size: microseconds of each repetition; None where the engine has no such operation."""
    words = [f"{size}:{repetitions(size)}" for size in sizes]
    done = subprocess.run(command + words, capture_output=True, text=True, timeout=harness.TIMEOUT_S)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed ({done.returncode}): {done.stderr}")
    return dict(read_line(line) for line in done.stdout.splitlines() if line[:1].isdigit())


def cores():
    return len(os.sched_getaffinity(0))


def mpirun(ranks):
    """The commands of Open MPI and MPICH, up to the program."""
    pinned = ranks <= cores()
    open_mpi = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "core" if pinned else "none"]
    mpich = ["mpirun.mpich"] + (["-bind-to", "core"] if pinned else [])
    return {"Open MPI": open_mpi + ["-np", str(ranks)], "MPICH": mpich + ["-n", str(ranks)]}


def bound_command(build, operation):
    return [str(build / "bench/collectives/muster_bench_bound"), operation]


def engines(options, programs, ranks, operation):
    native = str(options.build / "bench/collectives/muster_bench_collectives")
    words = [str(ranks), operation]
    commands = {"muster": [native, "memory", *words], "foreign": [native, "foreign", *words],
                "Gloo": [str(options.python), str(HERE / "gloo.py"), *words]}
    commands |= {name: mpirun(ranks)[name] + [str(program), operation] for name, program in programs.items()}
    return ({"bound": bound_command(options.build, operation)} if ranks == 2 <= cores() else {}) | commands


def median_and_late(values):
    """The median and the 95th percentile."""
    return None if values is None else (statistics.median(values), harness.p95(values))


def describe(size):
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if size >= 1 << shift:
            return f"{size / (1 << shift):g} {unit}"
    return f"{size} B"


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
                if values is None:
                    taken[name, size] = None
                else:
                    taken.setdefault((name, size), []).extend(values)
    return {key: median_and_late(values) for key, values in taken.items()}


def cell(figure):
    if figure is None:
        return CANNOT
    median, late = figure
    return f"{median:,.1f} ({late:,.1f})" if median < 100 else f"{median:,.0f} ({late:,.0f})"


def row(operation, ranks, size, figures, peers):
    muster, foreign = (figures[name, size][0] for name in ENGINES)
    bound = figures.get(("bound", size))
    can = [figures[name, size][0] for name in peers if figures[name, size]]
    gigabytes = OPERATIONS[operation](ranks) * size / (muster * 1e3)
    ratios = [f"{min(can) / taken:.1f}" if can else "–" for taken in (muster, foreign)]
    return [operation, ranks, describe(size), cell(bound) if bound else "–",
            *(cell(figures[name, size]) for name in (*ENGINES, *peers)), f"{gigabytes:.2f}",
            f"{muster / bound[0]:.2f}" if bound else "–", *ratios]


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=harness.ROOT / "build/release")
    parser.add_argument("--python", type=pathlib.Path, default=harness.ROOT / ".deps/pytorch/bin/python")
    parser.add_argument("--operations", choices=OPERATIONS, nargs="+", default=list(OPERATIONS))
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS)
    parser.add_argument("--sizes", type=parse_size, nargs="+", default=SIZES, help="of the larger tensor, to 256M")
    parser.add_argument("--repetitions", type=int, default=10, help="rounds, in each of which all engines take a turn")
    return parser.parse_args()


def main():
    options = parse_options()
    with tempfile.TemporaryDirectory() as folder:
        programs = build_peers(folder)
        peers = ["Gloo", *programs]
        columns = ["operation", "ranks", "size", "bound", "muster, handed out", "muster, foreign", *peers,
                   "muster GB/s of bus", "muster / bound", "best peer / muster", "/ foreign"]
        harness.table(columns, ["---"] * len(columns))
        for operation in options.operations:
            for ranks in options.ranks:
                figures = race(engines(options, programs, ranks, operation), options.sizes, options.repetitions)
                harness.table(*(row(operation, ranks, size, figures, peers) for size in options.sizes))
    if cores() >= 2:
        median, late = race({"bound": bound_command(options.build, "all_reduce")}, [PING_PONG], 1)["bound", PING_PONG]
        print(f"\nA cache line there and back between two cores: {median:.3f} µs ({late:.3f}).")


if __name__ == "__main__":
    main()
