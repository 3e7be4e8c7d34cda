"""The launchers that people have, for tests of what they start."""
import os
import socket
import subprocess
import time

import slurm

# The test's own launcher must not be taken for that of the program.
SIGNS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "MUSTER_", "PMI", "OMPI_", "SLURM_", "PET_", "TORCHELASTIC_",
         "JOB_COMPLETION_INDEX")
CLEAN = {key: value for key, value in os.environ.items() if not key.startswith(SIGNS)} | {
    "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}


def run(*words, environment=CLEAN, code=0):
    """`code`: how it has to end; None: anyhow."""
    done = subprocess.run([*map(str, words)], env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert code is None or done.returncode == code, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def read_until(process, words):
    """What it writes until then; of one with pipes for what it writes."""
    told = ""
    while words not in told:
        line = process.stdout.readline()
        assert line, f"it has ended: {told}{process.stderr.read() if process.stderr else ''}"
        told += line
    return told


def ranks_of(size, rank):
    """A shell that starts a command as each of so many, told which one by this variable."""
    return "sh", "-c", " ".join(f'{rank}={number} "$0" "$@" &' for number in range(size)) + " wait"


def answers(port):
    with socket.socket() as each:
        return each.connect_ex(("127.0.0.1", port)) == 0


def wait_for_port(port):
    end = time.monotonic() + 60
    while not answers(port):
        assert time.monotonic() < end, "nobody came to the port"
        time.sleep(0.02)


def by_variables(size):
    """Those that are known by what they set, and not to be had here; by name: the variable of a rank, and what all have."""
    address, port = "127.0.0.1", str(slurm.free_ports(1)[0])
    return {"PMI": ("PMI_RANK", {"PMI_SIZE": str(size), "PMI_LOCAL_SIZE": str(size)}),
            "Kubeflow (PET_NODE_RANK)": ("PET_NODE_RANK", {
                "PET_NNODES": str(size), "PET_NPROC_PER_NODE": "1", "PET_MASTER_ADDR": address, "PET_MASTER_PORT": port}),
            "an indexed Job of Kubernetes": ("JOB_COMPLETION_INDEX", {
                "WORLD_SIZE": str(size), "MASTER_ADDR": address, "MASTER_PORT": port})}


def torchrun(python, *words):
    return (python, "-m", "torch.distributed.run", "--no-python", *words)
