"""`muster bench comm` (docs/communication.md): every collective is timed and verified among ranks of this host through
shared memory and TLS, with a table as it goes, JSON and a picture; it is a rank where a launcher has started it; what is
wrong is told before anything starts; a rank that dies ends it."""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import xml.etree.ElementTree

parser = argparse.ArgumentParser()
parser.add_argument("--muster", required=True)
MUSTER = parser.parse_args().muster
SIGNS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "MUSTER_", "PMI", "OMPI_", "SLURM_", "PET_", "TORCHELASTIC_")
CLEAN = {key: value for key, value in os.environ.items() if not key.startswith(SIGNS)} | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
OPERATIONS = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all"]
SHORT = ("--sizes", "4KiB-64KiB,1MiB", "--time", "2 ms")


def run(*words, code=0):
    done = subprocess.run([*map(str, words)], env=CLEAN, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == code, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def every_collective_in_json(ranks, transport, *words):
    found = json.loads(run(MUSTER, "bench", "comm", "--workers", ranks, "--transport", transport, "--ops", "all", "--json",
                           *SHORT, *words).stdout)
    assert (found["ranks"], found["hosts"], found["transport"]) == (ranks, 1, transport), found
    rows = [(row["operation"], row["bytes"] // 1024) for row in found["timings"]]
    whole = [4, 16, 64, 1024]
    # Of three ranks each has the same share, so a few bytes are missing.
    wanted = [(name, size) for name in OPERATIONS for size in whole]
    assert [name for name, _ in rows] == [name for name, _ in wanted], rows
    assert all(size - 1 <= kib <= size for (_, kib), (_, size) in zip(rows, wanted, strict=True)), rows
    for row in found["timings"]:
        assert 0 < row["p50_us"] <= row["p99_us"] and row["limit_us"] > 0 and row["repetitions"] >= 5, row
    return found["timings"]


def fits_a_terminal(table):
    wide = [line for line in table.splitlines() if len(line) > 80 and not line.startswith("written: ")]
    assert not wide, wide


def a_table_and_a_picture():
    with tempfile.TemporaryDirectory() as folder:
        picture = pathlib.Path(folder) / "comm.svg"
        table = run(MUSTER, "bench", "comm", "-n", 2, "--svg", picture, *SHORT).stdout
        assert "2 ranks on 1 host, shared memory, f32, the engine's memory" in table, table
        assert len(re.findall(r"^all_reduce +\d", table, re.MULTILINE)) == 4 and f"written: {picture}" in table, table
        fits_a_terminal(table)
        root = xml.etree.ElementTree.parse(picture).getroot()
        assert root.tag.endswith("svg") and len([one for one in root.iter() if one.tag.endswith("path")]) == 2


def started_by_launchers():
    for words, ranks in ((("mpirun.openmpi", "-n", "2"), 2), ((MUSTER, "launch", "-n", "3"), 3)):
        table = run(*words, MUSTER, "bench", "comm", *SHORT).stdout
        assert f"{ranks} ranks on 1 host" in table and table.count("all_reduce ") == 4, table
        fits_a_terminal(table)


def what_is_wrong_is_told():
    for words, told in ((("--ops", "all_reduse"), "--ops: no such word, `all_reduse`; did you mean `all_reduce`?"),
                        (("--sizes", "1MiB-1KiB"), "--sizes: 1MiB-1KiB ends before it begins"),
                        (("--sizes", "9GiB"), "--sizes: 9GiB is not between 1 B and 8.0 GiB"),
                        (("--engine", "mpi"), "--engine mpi: no MPI has started this process; start it as `mpirun -n 4 muster"),
                        (("--engine", "mpi", "--transport", "tcp"), "--transport: tcp is of --engine native"),
                        (("--engine", "nccl"), "--engine: no such word, `nccl`"),
                        (("--dtype", "i32"), "--dtype: no such word, `i32`"),
                        (("--time", "0s"), "--time: 0s is not between 1 ns and 1 h"),
                        (("--workers", "0"), "--workers")):
        done = run(MUSTER, "bench", "comm", *words, code=2)
        assert told in done.stderr and not done.stdout, (words, done.stderr)


def a_death_ends_it():
    bench = subprocess.Popen([MUSTER, "bench", "comm", "-n", "3", "--time", "1 min"], env=CLEAN, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        children = pathlib.Path(f"/proc/{bench.pid}/task/{bench.pid}/children")
        deadline = time.monotonic() + 60
        while "operation" not in bench.stdout.readline():
            assert time.monotonic() < deadline
        ranks = [int(pid) for pid in children.read_text().split()]
        assert len(ranks) == 3, ranks
        os.kill(ranks[1], signal.SIGKILL)
        _, told = bench.communicate(timeout=60)
    finally:
        bench.kill()
    assert bench.returncode == 1 and "killed by SIGKILL" in told and "rank 1" in told, told
    assert not any(pathlib.Path(f"/proc/{pid}").exists() for pid in ranks)


memory = every_collective_in_json(2, "shm")
assert {row["schedule"] for row in memory} == {"direct"}
every_collective_in_json(3, "shm", "--foreign", "--dtype", "bf16")
wired = every_collective_in_json(3, "tcp", "--algorithm", "ring")
assert {row["schedule"] for row in wired if row["operation"] != "all_to_all"} == {"ring"}, wired
a_table_and_a_picture()
started_by_launchers()
what_is_wrong_is_told()
a_death_ends_it()
