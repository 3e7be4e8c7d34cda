"""The real Prometheus scrapes two runs, one of a single worker and one of three, with a token over https, and has an
answer to every query of the dashboard that is shipped."""
import contextlib
import json
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import ports
import runs

SOURCE = pathlib.Path(__file__).parent.parent.parent
DASHBOARD = SOURCE / "docs/monitoring/grafana.json"
TOKEN = "not for everybody"
CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: plain
    static_configs: [{{targets: ["{plain}"]}}]
  - job_name: guarded
    scheme: https
    authorization: {{credentials_file: {token}}}
    tls_config: {{ca_file: {certificate}}}
    static_configs: [{{targets: ["{guarded}"]}}]
"""


def expose(muster, folder, model, workers, *flags):
    """A run that goes on, and where its numbers are."""
    job = runs.write_job(folder, model, steps=10**6, runs=model)
    training = runs.start(muster, job, "--workers", str(workers), *runs.settings("evaluation.every=20 steps", *flags),
                          *runs.settings(*runs.UNTIL_STOPPED))
    run = runs.wait_for_step(training, folder, 45, runs=model)
    runs.wait_for(lambda: list(run.glob("checkpoints/*/manifest.json")), "a checkpoint")
    told = runs.wait_for(lambda: [row["text"] for row in runs.records(run, "notice") if "Prometheus" in row["text"]],
                         "the address")
    return training, run, re.fullmatch(r"metrics for Prometheus: (https?://(.*)/metrics)", told[0])


def certificate(folder):
    pem, key = folder / "host.pem", folder / "host.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=muster", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key),
                    "-out", str(pem)], check=True, capture_output=True)
    return pem, key


def status_of(url, token, pem):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        return urllib.request.urlopen(request, timeout=30, context=ssl.create_default_context(cafile=pem)).status
    except urllib.error.HTTPError as error:
        return error.code


@contextlib.contextmanager
def prometheus(folder, config):
    """Its address, while it runs."""
    found = shutil.which("prometheus")
    assert found, "no prometheus here: script/dependencies --for test installs it"
    (folder / "prometheus.yml").write_text(config)
    address = f"127.0.0.1:{ports.free_ports(1)[0]}"
    with open(folder / "prometheus.log", "w") as log:
        server = subprocess.Popen([found, f"--config.file={folder}/prometheus.yml", f"--web.listen-address={address}",
                                   f"--storage.tsdb.path={folder}/tsdb"], stdout=log, stderr=log)
    runs.STARTED.append(server)
    try:
        yield f"http://{address}"
    finally:
        server.terminate()
        server.wait()


def query(server, expression):
    url = f"{server}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        result = json.load(answer)
    assert result["status"] == "success", result
    return result["data"]["result"]


def scraped(server, name):
    """The value that Prometheus has of each run's, by the scrape's job."""
    return {one["metric"]["job"]: float(one["value"][1]) for one in query(server, name)}


def exported_name(metric):
    return "muster_" + re.sub("[^a-zA-Z0-9]", "_", metric)


def dashboard_queries():
    board = json.loads(DASHBOARD.read_text())
    variables = {variable["name"] for variable in board["templating"]["list"]}
    assert {"name", "run"} <= variables, variables
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [re.sub(r"\$(name|run)\b", ".*", expression) for expression in expressions]


def scrape(muster, folder):
    pem, key = certificate(folder)
    token = folder / "token"
    token.write_text(TOKEN + "\n")
    plain, run, at = expose(muster, folder, "mlp", 1, "prometheus.listen=0")
    guarded, other, door = expose(muster, folder, "gpt", 3, "prometheus.listen=0.0.0.0:0",
                              f"prometheus.token_file={token}", f"prometheus.certificate={pem}", f"prometheus.key={key}")
    assert at[1].startswith("http://127.0.0.1:") and door[1].startswith("https://0.0.0.0:"), (at, door)
    address = door[2].replace("0.0.0.0", "127.0.0.1")
    for shown, expected in ((None, 401), (TOKEN[:-1], 401), (TOKEN, 200)):
        assert status_of(f"https://{address}/metrics", shown, pem) == expected, shown

    config = CONFIG.format(plain=at[2], guarded=address, token=token, certificate=pem)
    with prometheus(folder, config) as server:
        runs.wait_for(lambda: scraped(server, "up") == {"plain": 1, "guarded": 1}, "both scraped")
        first = scraped(server, "muster_step")
        assert min(first.values()) >= 45, first
        runs.wait_for(lambda: scraped(server, "muster_step")["plain"] > first["plain"], "another step")
        assert scraped(server, "muster_workers") == {"plain": 1, "guarded": 3}
        (one,) = [each for each in query(server, "muster_train_loss") if each["metric"]["job"] == "plain"]
        assert one["metric"]["name"] == "tiny" and one["metric"]["run"] == run.name, one
        for job, its in (("plain", run), ("guarded", other)):
            for metric in {name for row in runs.rows(its) for name in row if "/" in name}:
                runs.wait_for(lambda: job in scraped(server, exported_name(metric)), f"{metric} of {job}")
        for expression in dashboard_queries():  # of a rate there is none before the second scrape
            runs.wait_for(lambda: query(server, expression), f"what the dashboard asks for, {expression},")
    for training in (plain, guarded):
        training.terminate()
        code, output = runs.finish(training)
        assert code == 143, output


def port_taken(muster, folder):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        job = runs.write_job(folder, "mlp", steps=20, runs="taken")
        code, output = runs.finish(runs.start(muster, job, "--set", f"prometheus.listen={listen}"))
    assert code == 3 and "prometheus.listen" in output and f"{listen} cannot be had" in output, output
    assert not (folder / "taken").exists(), "a run that never was"


def main():
    arguments = runs.arguments()
    runs.play((scrape, port_taken), arguments.muster)


if __name__ == "__main__":
    main()
