"""What muster submit k8s has pods run: its scripts, played on this host with folders in the place of volumes. A launcher that
is evicted saves, the one in its place goes on in the same run, and the workers of other pods join both. On one node, two and three."""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs


def unpack(manifest, folder):
    """The files of the ConfigMap, whose scripts find them and the runs in this folder."""
    for name, lines in re.findall(r"^  (\S+): \|\d?\n((?:    .*\n|\n)+)", manifest, re.MULTILINE):
        text = re.sub("^    ", "", lines, flags=re.MULTILINE)
        if name.endswith(".sh"):
            text = text.replace("/etc/muster/", f"{folder}/").replace("/runs", f"{folder}/runs")
        (folder / name).write_text(text)


class Pods:
    def __init__(self, muster, folder):
        self.folder, self.started = folder, []
        self.environment = {**os.environ, "PATH": f"{muster.parent}:{os.environ['PATH']}", "POD_IP": "127.0.0.1",
                            "JOB_COMPLETION_INDEX": "0"}  # Kubernetes sets it in every pod of a JobSet

    def start(self, script):
        path = self.folder / f"{len(self.started)}.txt"
        with open(path, "w") as output:
            pod = subprocess.Popen(["/bin/sh", str(self.folder / script)], env=self.environment, stdout=output,
                                   stderr=subprocess.STDOUT, text=True, start_new_session=True)
        pod.output = path.read_text
        self.started.append(pod)
        return pod

    def take_away(self):
        for pod in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pod.pid, signal.SIGKILL)
            pod.wait()


def wait_for_step(pod, run, step):
    def has_come():
        assert pod.poll() is None, pod.output()
        return any(row["step"] >= step for row in runs.rows(run()))
    runs.wait_for(has_come, f"step {step}")


def evict(pod):
    pod.send_signal(signal.SIGTERM)
    return pod.wait(timeout=runs.DEADLINE)


def joined(run):
    return [row["text"] for row in runs.records(run, "notice") if " joins" in row["text"]]


def play(muster, folder, pods, nodes):
    job = runs.write_job(folder, "mlp", steps=10**6)
    words = [muster, "submit", "k8s", job, "--image", "muster", "--name", "pods", "--nodes", str(nodes), "--cpus-per-worker", "1",
             "--dry-run", *runs.settings(f"workers.min_workers={nodes}", *runs.UNTIL_STOPPED)]
    manifest = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout
    place = folder / f"pods-{nodes}"
    place.mkdir()
    pods.folder = place
    unpack(manifest, place)
    assert (place / "job.yaml").read_text() == job.read_text(), manifest
    assert (place / "worker.sh").exists() == (nodes > 1), manifest

    def run():
        return (place / "runs/pods/latest").resolve()
    workers, first = [pods.start("worker.sh") for _ in range(nodes - 1)], pods.start("train.sh")
    wait_for_step(first, run, 20)
    before = run()
    assert evict(first) == 128 + signal.SIGTERM, first.output()
    done = max(row["step"] for row in runs.rows(before))
    second = pods.start("train.sh")
    wait_for_step(second, run, done + 20)
    assert run() == before and "\nresumed after step " in second.output(), second.output()
    assert len(joined(before)) == 2 * len(workers), joined(before)
    assert evict(second) == 128 + signal.SIGTERM, second.output()
    for worker in workers:
        assert evict(worker) == 128 + signal.SIGTERM, worker.output()
    step = max(int(path.name[5:13]) for path in before.glob("checkpoints/step-*"))
    alone = runs.undisturbed(str(muster), folder, "mlp", step, *runs.settings(*runs.UNTIL_STOPPED), runs="alone")
    assert runs.weights(before, step) == alone, f"other weights after step {step}"


muster_program = pathlib.Path(runs.arguments().muster).resolve()
with runs.workplace() as workplace:
    runs.write_data(workplace)
    for count in (1, 2, 3):
        of_this = Pods(muster_program, workplace)
        try:
            play(muster_program, workplace, of_this, count)
        finally:
            of_this.take_away()
        print(f"ok  pods of {count}", flush=True)
