"""A training of which everything is told that can be: to a terminal, into files, a trace, to Prometheus once a second,
to an MLflow server, and to somebody who has the run's page open."""
import contextlib
import http.server
import json
import re
import signal
import subprocess
import threading
import time
import urllib.request

import harness
import turns

SCRAPE_S = 1.0
PAGE_S = 2.0  # as a page fetches itself again
ANSWER_S = 5
EXPERIMENT = {"experiment": {"experiment_id": "1", "lifecycle_stage": "active"}}
RUN = {"run": {"info": {"run_id": "1", "experiment_id": "1", "lifecycle_stage": "active",
                        "artifact_uri": "mlflow-artifacts:/1/1/artifacts"}}}


class Tracking(http.server.ThreadingHTTPServer):
    """As much of an MLflow server as a run asks for: it has one experiment, and counts the numbers that it gets."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Request)
        self.lock = threading.Lock()
        self.numbers = 0
        self.loss_steps = []
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    @property
    def uri(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def take(self, metrics):
        with self.lock:
            self.numbers += len(metrics)
            self.loss_steps += [metric["step"] for metric in metrics if metric["key"] == "train/loss"]

    def close(self):
        self.shutdown()
        self.thread.join()
        self.server_close()


class Request(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        what = self.path.partition("?")[0].removeprefix("/api/2.0/mlflow/")
        if what == "runs/log-batch":
            self.server.take(json.loads(body).get("metrics", []))
        text = json.dumps({"experiments/get-by-name": EXPERIMENT, "runs/create": RUN}.get(what, {})).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *_):
        pass


class Visitor:
    """Fetches a page again and again while it may; `answers` counts those that had `word` in them."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def __init__(self, url, word, every):
        self.url, self.word, self.every = url, word, every
        self.answers = 0
        self.may = threading.Event()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.visit, daemon=True)
        self.thread.start()

    def visit(self):
        while not self.over.is_set():
            if not self.may.wait(timeout=0.1):
                continue
            with contextlib.suppress(OSError):  # who is asked may have been stopped meanwhile
                with self.opener.open(self.url, timeout=ANSWER_S) as answer:
                    self.answers += self.word in answer.read().decode()
            self.over.wait(self.every)

    def close(self):
        self.over.set()
        self.may.set()
        self.thread.join()


class EverythingOn(turns.Muster):
    """Whoever serves the page stops and goes on with the training, and its time counts as the training's."""

    def __init__(self, folder, build, job, workers, tracking):
        sets = ["prometheus.listen=127.0.0.1:0", f"mlflow.tracking_uri={tracking.uri}", "mlflow.logging_steps=1",
                "trace.enabled=true"]
        self.page, self.visitors = None, []
        super().__init__(folder, build, job, workers, sets)
        self.build = build

    def wait_for(self, steps):
        super().wait_for(steps)
        self.page = subprocess.Popen([self.build / "bin/muster", "page", self.folder, "--json"], cwd=harness.ROOT,
                                     stdout=subprocess.PIPE, text=True)
        page = json.loads(self.page.stdout.readline())["page"]
        [run] = {path.parent.resolve() for path in self.folder.glob("*/latest/metrics.jsonl")}
        numbers = re.search(r"metrics for Prometheus: (\S+)", (self.folder / "output").read_text())
        self.visitors = [
            Visitor(numbers[1], "muster_step{", SCRAPE_S),
            Visitor(f"{page}run/{run.relative_to(self.folder.resolve())}", run.name, PAGE_S)]
        self.family.append(self.page.pid)

    def signal(self, number):
        for visitor in self.visitors:
            visitor.may.set() if number == signal.SIGCONT else visitor.may.clear()
        super().signal(number)

    def close(self):
        super().close()
        for visitor in self.visitors:
            visitor.close()
        if self.page:
            self.page.kill()
            self.page.wait()
            self.page.stdout.close()

    def check(self, tracking, steps):
        """That all of them got what there was to get, but for what was on its way when the training was killed."""
        [run] = self.folder.glob("*/latest/")
        spans = sum(path.read_text().count('"ph":"X"') for path in (run / "trace").iterdir())
        scrapes, pages = (visitor.answers for visitor in self.visitors)
        told = sorted(tracking.loss_steps)
        whole = told == list(range(1, len(told) + 1)) and len(told) >= steps / 2
        if not (whole and scrapes and pages and spans >= steps):
            raise SystemExit(f"of {steps} steps MLflow has {len(told)}{'' if whole else ', not each once'}, the trace "
                             f"{spans} spans; {scrapes} scrapes and {pages} pages were answered")
        harness.say(f"{steps} steps: {len(told)} at MLflow, {spans} spans, {scrapes} scrapes, {pages} pages")
