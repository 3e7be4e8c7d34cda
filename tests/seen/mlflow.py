"""Runs are told to the real MLflow: one that begins before the server, one that loses it in the middle, one that ends
while it is away, one that ends in good order, one that fails and is resumed, one over https. What is in metrics.jsonl is
there, number by number: what a busy machine has not sent by the end `muster runs mlflow` sends."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import threading
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import ports
import prometheus
import runs

SOURCE = pathlib.Path(__file__).parent.parent.parent
PYTHON = SOURCE / ".deps/mlflow/bin/python"
SECRET = "not-for-the-run-folder"
# Its jobs for judging language models are processes by the dozen; nobody here wants them, nor to be counted.
QUIET = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}


class Server:
    """MLflow's tracking server in a folder, at an address that stays the same when it is started again."""

    def __init__(self, folder):
        self.folder = folder
        self.port = ports.free_ports(1)[0]
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        assert PYTHON.exists(), "no MLflow here: script/dependencies --with-pytorch installs it"
        command = [PYTHON, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1",
                   "--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db",
                   "--artifacts-destination", str(self.folder / "artifacts")]
        with open(self.folder / "mlflow.log", "a") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True,
                                            env=os.environ | QUIET)

    def wait(self):
        def answers():
            assert self.process.poll() is None, (self.folder / "mlflow.log").read_text()
            return urllib.request.urlopen(f"{self.uri}/health", timeout=30).status == 200
        runs.wait_for(answers, "the server")

    def kill(self):
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def ask(self, path, body=None, **query):
        url = f"{self.uri}/api/2.0/mlflow/{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def run_of(self, run):
        """As the server has it, of the run in that folder."""
        record = json.loads((run / "mlflow.json").read_text())
        assert record["tracking_uri"] == self.uri, record
        return self.ask("runs/get", run_id=record["run_id"])["run"]

    def runs(self):
        """How many runs there are, by experiment."""
        found = self.ask("experiments/search", {"max_results": 100})["experiments"]
        names = {one["experiment_id"]: one["name"] for one in found}
        every = self.ask("runs/search", {"experiment_ids": list(names), "max_results": 1000}).get("runs", [])
        counts = {}
        for one in every:
            name = names[one["info"]["experiment_id"]]
            counts[name] = counts.get(name, 0) + 1
        return counts

    def numbers(self, run):
        """(name, step, value), of all that it has of a run."""
        there = self.run_of(run)
        numbers = set()
        for metric in there["data"].get("metrics", []):
            history = self.ask("metrics/get-history", run_id=there["info"]["run_id"], metric_key=metric["key"])
            numbers |= {(one["key"], one["step"], float(one["value"])) for one in history["metrics"]}
        return numbers


def told(run, every):
    """What a server is to have of it: evaluations, every so many steps, and what comes with others only, as memory, as it
    was last before one of these, or the end."""
    expected, skipped = set(), {}
    for row in runs.rows(run):
        numbers = {name: (name, row["step"], float(value)) for name, value in row.items() if "/" in name}
        if "train/loss" not in row:
            expected |= set(numbers.values())
            continue
        skipped |= numbers
        if row["step"] % every == 0:
            expected |= set(skipped.values())
            skipped = {}
    return expected | set(skipped.values())


def all_there(server, run, every):
    numbers, expected = server.numbers(run), told(run, every)
    assert len(expected) > 20, expected
    missing = sorted(expected - numbers)
    assert not missing, f"{len(missing)} of {len(expected)} numbers are not there: {missing[:5]} …"
    more = {name for name, _, _ in numbers - expected}
    assert more <= {"mem/peak_rss_gib"}, f"nobody told it of {more}"  # the end's


def deliver(muster, run):
    """Whatever the end of the run had no time for; how many numbers, none where all was there."""
    done = subprocess.run([muster, "runs", "mlflow", "--json", str(run)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (run / "mlflow-unsent.jsonl").exists(), "what has arrived is still kept"
    return json.loads(done.stdout)["numbers"]


def notices(run, text):
    return [row["text"] for row in runs.records(run, "notice") if text in row["text"]]


def wait_for_notice(run, text):
    return runs.wait_for(lambda: notices(run, text), f"a notice of `{text}`")


def tracked(server, *more):
    return runs.settings(f"mlflow.tracking_uri={server.uri}", *more)


def endless(muster, folder, name, *flags):
    """A training that goes on until it is told to end, and lets the server start meanwhile."""
    job = runs.write_job(folder, "mlp", steps=10**6, runs=name)
    return runs.start(muster, job, *runs.settings(*runs.UNTIL_STOPPED), *flags, preexec_fn=lambda: os.nice(15))


def late(server, muster, folder):
    """The run begins, the server comes later and gets what it has missed; then a signal ends the run."""
    training = endless(muster, folder, "late", "--workers", "2", *tracked(server))
    run = runs.wait_for_step(training, folder, 100, runs="late")
    (warning,) = wait_for_notice(run, "nobody answers")
    assert server.uri in warning and "training goes on" in warning, warning
    assert not (run / "mlflow.json").exists()
    server.start()
    server.wait()
    wait_for_notice(run, "answers again")
    (page,) = wait_for_notice(run, "run in MLflow")
    assert page.startswith(f"run in MLflow: {server.uri}/#/experiments/"), page
    assert server.run_of(run)["info"]["status"] == "RUNNING"
    runs.goes_on(training, run)
    training.terminate()
    code, output = runs.finish(training)
    assert code == 143 and output.count("nobody answers") == 1, output
    deliver(muster, run)
    assert server.run_of(run)["info"]["status"] == "KILLED", server.run_of(run)
    all_there(server, run, 10)


def lost(server, muster, folder):
    """The server is killed in the middle, and comes again."""
    training = endless(muster, folder, "lost", "--workers", "3", *tracked(server))
    run = runs.wait_for_step(training, folder, 50, runs="lost")
    wait_for_notice(run, "run in MLflow")
    server.kill()
    wait_for_notice(run, "what is measured is kept")
    runs.goes_on(training, run)
    server.start()
    server.wait()
    wait_for_notice(run, "answers again")
    training.terminate()
    code, output = runs.finish(training)
    assert code == 143, output
    deliver(muster, run)
    all_there(server, run, 10)


def away_at_the_end(server, muster, folder):
    """Nothing is lost: a file keeps what could not be sent, the end names it and the command, which sends it."""
    training = endless(muster, folder, "away", "--workers", "2", *tracked(server))
    run = runs.wait_for_step(training, folder, 50, runs="away")
    wait_for_notice(run, "run in MLflow")
    server.kill()
    wait_for_notice(run, "what is measured is kept")
    runs.goes_on(training, run)
    training.terminate()
    code, output = runs.finish(training)
    kept = run / "mlflow-unsent.jsonl"
    assert code == 143 and output.count("not whole") == 1, output
    assert "mlflow-unsent.jsonl keeps it, and `muster runs mlflow " in output, output
    command = [muster, "runs", "mlflow", str(run)]
    early = subprocess.run(command, capture_output=True, text=True)
    assert early.returncode == 3 and kept.exists(), early
    server.start()
    server.wait()
    assert deliver(muster, run) > 0
    assert server.run_of(run)["info"]["status"] == "KILLED", server.run_of(run)
    all_there(server, run, 10)
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0 and "nothing that is still to be sent" in again.stdout, again


def whole(server, muster, folder, workers):
    """All that there is of a run: parameters, tags, numbers of each step, files, its end; and no secret anywhere."""
    job = runs.write_job(folder, "mlp", steps=60, runs="whole")
    output = runs.train(muster, job, "--workers", str(workers), *tracked(server, "mlflow.experiment=tiny & more",
                                                               "mlflow.run_name=first", "mlflow.logging_steps=1",
                                                               "stragglers.compare_every=1h"),
                        env=os.environ | {"MLFLOW_TRACKING_TOKEN": SECRET, "USER": "ada"})
    assert "[WARN" not in output, output
    run = runs.latest(folder, "whole")
    there = server.run_of(run)
    info, params, tags = there["info"], *({one["key"]: one["value"] for one in there["data"][kind]}
                                          for kind in ("params", "tags"))
    assert info["status"] == "FINISHED" and info["end_time"] > info["start_time"], info
    assert info["run_name"] == "first" and tags["mlflow.user"] == "ada" and tags["muster.run"] == run.name, there
    assert tags["muster.workers"] == str(workers) and tags["mlflow.source.name"] == str(job), tags
    resolved = json.loads(subprocess.run(
        [muster, "validate", "--json", str(run / "resolved.yaml")], capture_output=True, text=True, check=True).stdout)
    assert set(params) == set(resolved["job"]), set(params) ^ set(resolved["job"])
    assert params["training.max_steps"] == "60" and params["optimizer.learning_rate"] == "0.05", params
    assert len({step for name, step, _ in server.numbers(run) if name == "train/loss"}) == 60
    all_there(server, run, 1)
    for name in ("job.yaml", "resolved.yaml", "env.json", "summary.json", "report.html"):
        with urllib.request.urlopen(f"{server.uri}/get-artifact?path={name}&run_uuid={info['run_id']}") as answer:
            assert answer.read() == (run / name).read_bytes(), name
    for file in (path for path in run.rglob("*") if path.is_file()):
        assert SECRET.encode() not in file.read_bytes(), file
    assert SECRET not in output and SECRET not in json.dumps(there)


def whole_of_three(server, muster, folder):
    whole(server, muster, folder, 3)


def whole_of_one(server, muster, folder):
    whole(server, muster, folder, 1)


def resumed(server, muster, folder):
    """A worker's death ends the run as failed; it goes on in the same one, with another number of workers."""
    job = runs.write_job(folder, "mlp", steps=10**6)
    flags = (*tracked(server), *runs.settings(*runs.UNTIL_STOPPED))
    run = runs.killed_after(muster, job, folder, 45, 1, *flags)
    deliver(muster, run)
    before = server.run_of(run)
    assert before["info"]["status"] == "FAILED", before["info"]
    aim = max(row["step"] for row in runs.rows(run)) + 20
    runs.train(muster, job, "--resume", "--workers", "3", *flags, "--set", f"training.max_steps={aim}")
    deliver(muster, run)
    after = server.run_of(run)
    assert after["info"]["run_id"] == before["info"]["run_id"] and server.runs()["tiny"] == 4, server.runs()
    assert after["info"]["status"] == "FINISHED" and after["info"]["end_time"] > before["info"]["end_time"], after
    changed = {one["key"]: one["value"] for one in after["data"]["tags"] if one["key"].startswith("resumed.")}
    assert changed["resumed.training.max_steps"] == str(aim) and changed["resumed.workers.count"] == "3", changed
    steps = {step for name, step, _ in server.numbers(run) if name == "train/loss"}
    assert aim in steps and 40 in steps, steps


def relay(source, to):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            to.sendall(data)
    with contextlib.suppress(OSError):
        to.shutdown(socket.SHUT_WR)


def relay_all(listener, context, port):
    """https before a server of http, one connection at a time a thread each way."""
    while True:
        try:
            plain, _ = listener.accept()
        except OSError:
            return  # closed
        with contextlib.suppress(OSError):
            client = context.wrap_socket(plain, server_side=True)
            behind = socket.create_connection(("127.0.0.1", port))
            for ends in ((client, behind), (behind, client)):
                threading.Thread(target=relay, args=ends, daemon=True).start()


def https(server, muster, folder):
    """With the authority's certificate the run is there; without, the server is not trusted, and the training goes on."""
    pem, key = prometheus.certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=relay_all, args=(listener, context, server.port), daemon=True).start()
        uri = f"https://127.0.0.1:{listener.getsockname()[1]}"
        job = runs.write_job(folder, "mlp", steps=20, runs="https")
        secure = runs.settings(f"mlflow.tracking_uri={uri}", "mlflow.experiment=secure")
        output = runs.train(muster, job, *secure)
        assert "its certificate is not one that is trusted here" in output and "not whole" in output, output
        assert "secure" not in server.runs()
        output = runs.train(muster, job, *secure, "--set", f"mlflow.certificate={pem}")
        assert f"run in MLflow: {uri}" in output and "not whole" not in output, output
        assert server.runs()["secure"] == 1


def main():
    arguments = runs.arguments()
    scenarios = (late, lost, away_at_the_end, whole_of_three, whole_of_one, resumed, https)
    with runs.workplace() as folder:
        runs.write_data(folder)
        server = Server(folder)
        try:
            for scenario in scenarios:
                scenario(server, arguments.muster, folder)
                print(f"ok  {scenario.__name__}", flush=True)
        finally:
            server.kill()


if __name__ == "__main__":
    main()
