"""The launchers that people have, for tests of what they start."""
import os
import socket
import subprocess
import time

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


def ranks_of_two(rank):
    """A shell that starts a command as both, each told its own by this variable."""
    return "sh", "-c", f'{rank}=1 "$0" "$@" & {rank}=0 "$0" "$@"; wait'


def answers(port):
    with socket.socket() as each:
        return each.connect_ex(("127.0.0.1", port)) == 0


def wait_for_port(port):
    end = time.monotonic() + 60
    while not answers(port):
        assert time.monotonic() < end, "nobody came to the port"
        time.sleep(0.02)


def kubernetes(port):
    """By launcher: the variable of a rank, and those that both of two have."""
    return {"Kubeflow (PET_NODE_RANK)": ("PET_NODE_RANK", {
                "PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": str(port)}),
            "an indexed Job of Kubernetes": ("JOB_COMPLETION_INDEX", {
                "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})}


def torchrun(python, *words):
    return (python, "-m", "torch.distributed.run", "--no-python", *words)
