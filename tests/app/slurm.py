"""A Slurm cluster of one's own: two nodes on this host, their controller and munge, in a folder and on ports of their own."""
import contextlib
import os
import pathlib
import random
import secrets
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
from ports import free_ports


def configuration(folder, nodes):
    control, *ports = free_ports(1 + len(nodes))
    host = socket.gethostname()
    lines = [f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4 State=UNKNOWN"
             for node, port in zip(nodes, ports, strict=True)]
    # Where a job's ranks meet follows from its number, and another test's cluster may be on this host.
    first = random.randrange(1, 1 << 20)
    return "\n".join([
        f"FirstJobId={first}", "ClusterName=tests", f"SlurmctldHost={host}(127.0.0.1)", "SlurmUser=root", f"SlurmctldPort={control}",
        "AuthType=auth/munge", f"AuthInfo=socket={folder}/munge.socket",
        f"StateSaveLocation={folder}/state", f"SlurmdSpoolDir={folder}/spool-%n",
        f"SlurmctldPidFile={folder}/slurmctld.pid", f"SlurmdPidFile={folder}/%n.pid",
        "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "JobAcctGatherType=jobacct_gather/none",
        "SelectType=select/cons_tres", "SelectTypeParameters=CR_Core", "SlurmdParameters=config_overrides",
        "ReturnToService=2", "SwitchType=switch/none", "MpiDefault=none", *lines,
        "PartitionName=all Nodes=ALL Default=YES State=UP", ""])


@contextlib.contextmanager
def cluster(folder, nodes):
    """Gives the environment in which srun and sbatch find it."""
    folder = pathlib.Path(folder)
    for name in ("state", *(f"spool-{node}" for node in nodes)):
        (folder / name).mkdir()
    os.chmod(folder, 0o755)  # munged asks for it
    (folder / "slurm.conf").write_text(configuration(folder, nodes))
    (folder / "munge.key").write_bytes(secrets.token_bytes(128))
    os.chmod(folder / "munge.key", 0o600)
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": os.environ["PATH"] + ":/usr/sbin"}
    commands = [["munged", "--foreground", *(f"--{name}={folder}/munge.{end}" for name, end in (
        ("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed")))],
                ["slurmctld", "-D", "-i"], *(["slurmd", "-D", "-N", node] for node in nodes)]
    daemons = []
    try:
        for command in commands:
            with open(folder / f"{len(daemons)}-{command[0]}.txt", "wb") as output:
                daemons.append(subprocess.Popen(command, env=environment, stdout=output, stderr=output))
            if command[0] == "munged":
                wait_for((folder / "munge.socket").exists, folder)
        wait_for(lambda: idle_nodes(environment) == len(nodes), folder)
        yield environment
    finally:
        for daemon in reversed(daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in daemons:
            daemon.wait(30)


def idle_nodes(environment):
    told = subprocess.run(["sinfo", "--noheader", "--Node", "--format=%t"], env=environment, capture_output=True, text=True,
                          timeout=30, check=False)
    return told.stdout.split().count("idle")


def wait_for(condition, folder):
    latest = time.monotonic() + 60
    while not condition():
        logs = {path.name: path.read_text()[-2000:] for path in folder.glob("*.txt")}
        assert time.monotonic() < latest, f"the cluster does not come up: {logs}"
        time.sleep(0.1)
