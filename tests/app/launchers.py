"""The launchers that people have, for tests of what they start."""
import os
import subprocess

# The test's own launcher must not be taken for that of the program.
SIGNS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "MUSTER_", "PMI", "OMPI_", "SLURM_", "PET_", "TORCHELASTIC_")
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


def torchrun(python, *words):
    return (python, "-m", "torch.distributed.run", "--no-python", *words)
