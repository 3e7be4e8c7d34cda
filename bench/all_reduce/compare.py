#!/usr/bin/env python3
"""All-reduce of f32, 1 KiB to 64 MiB, on one host: muster's shared memory, torch Gloo, Open MPI.

The engines take turns in rounds; each verifies every result. Prints a table in Markdown with the
median and the 95th percentile in microseconds.

Usage: bench/all_reduce/compare.py [--build build/release] [--python .deps/pytorch/bin/python]
"""
import argparse
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
SIZES = [1 << 10, 16 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]
ROUNDS = 5


def repetitions(size):
    return 200 if size <= 64 << 10 else 20 if size <= 4 << 20 else 5


def times(command, size):
    done = subprocess.run(command + [str(repetitions(size)), str(size)], capture_output=True,
                          text=True, timeout=300)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed ({done.returncode}): {done.stderr}")
    return [float(word) for word in done.stdout.splitlines()[-1].split()[1:]]


def engines(build, python, mpi, ranks):
    return {
        "muster": [str(build / "bench/all_reduce/muster_bench_all_reduce"), "memory", str(ranks)],
        "gloo": [str(python), str(HERE / "gloo.py"), str(ranks)],
        "mpi": ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np",
                str(ranks), str(mpi)],
    }


def median_and_late(values):
    """The median and the 95th percentile."""
    values = sorted(values)
    return statistics.median(values), values[int(0.95 * (len(values) - 1))]


def describe(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--python", type=pathlib.Path, default=ROOT / ".deps/pytorch/bin/python")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mpi = pathlib.Path(folder) / "mpi"
        subprocess.run(["mpicc", "-O2", str(HERE / "mpi.c"), "-o", str(mpi)], check=True)
        print("| ranks | size | muster µs (p95) | Gloo µs (p95) | Open MPI µs (p95) |"
              " Gloo / muster | MPI / muster |")
        print("|---|---|---|---|---|---|---|")
        for ranks in (2, 4):
            for size in SIZES:
                taken = {name: [] for name in ("muster", "gloo", "mpi")}
                for _ in range(ROUNDS):
                    for name, command in engines(options.build, options.python, mpi, ranks).items():
                        taken[name] += times(command, size)
                row = {name: median_and_late(values) for name, values in taken.items()}
                cells = " | ".join(f"{m:,.0f} ({p:,.0f})" for m, p in row.values())
                muster = row["muster"][0]
                print(f"| {ranks} | {describe(size)} | {cells} | {row['gloo'][0] / muster:.1f} | "
                      f"{row['mpi'][0] / muster:.1f} |", flush=True)


if __name__ == "__main__":
    main()
