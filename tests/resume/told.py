"""What a training tells and leaves: lines in a pipe, a line that is redrawn on a terminal, JSON, the folder of
the run, a sample of text, checkpoints by the clock."""
import contextlib
import json
import os
import pty
import signal
import subprocess

import runs

STEPS = 30


def in_a_pipe(muster, folder):
    output = runs.train(muster, runs.write_job(folder, "mlp", steps=STEPS), "--workers", "2")
    assert "\r" not in output and "\x1b" not in output, output
    for told in ("libtorch", "2 workers", "loss", "accuracy", "next: "):
        assert told in output, f"no {told!r} in:\n{output}"


def shown_on_a_terminal(muster, job, **variables):
    """Everything that a terminal got."""
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")}
    process = subprocess.Popen([muster, "train", str(job), "--workers", "2"], stdin=theirs, stdout=theirs,
                               stderr=theirs, env=environment | {"TERM": "xterm"} | variables)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # what reading gives once nobody holds the other end
        while part := os.read(ours, 65536):
            shown += part
    os.close(ours)
    assert process.wait(timeout=runs.DEADLINE) == 0, shown.decode()
    return shown.decode()


def on_a_terminal(muster, folder):
    job = runs.write_job(folder, "mlp", steps=STEPS)
    redraw, colour = "\r\x1b[K", "\x1b[36m"
    for variables, redrawn, coloured in (({}, True, True), ({"NO_COLOR": "1"}, True, False),
                                         ({"TERM": "dumb"}, False, False), ({"CI": "true"}, False, False)):
        shown = shown_on_a_terminal(muster, job, **variables)
        assert (redraw in shown) == redrawn, (variables, shown)
        assert (colour in shown) == coloured, (variables, shown)
        assert "accuracy" in shown.rsplit(redraw, maxsplit=1)[-1], f"the live line stays: {shown!r}"


def in_json(muster, folder):
    job = runs.write_job(folder, "mlp", steps=STEPS)
    output = runs.train(muster, job, "--workers", "2", "--log", "json")
    rows = [json.loads(line) for line in output.splitlines()]
    kinds = {row.get("type") for row in rows}
    assert {"run_started", "metrics", "checkpoint", "run_ended"} <= kinds, kinds


def folder_of_the_run(muster, folder):
    runs.train(muster, runs.write_job(folder, "mlp", steps=STEPS), "--workers", "2")
    run = runs.latest(folder)
    names = {path.name for path in run.iterdir()}
    wanted = {"job.yaml", "resolved.yaml", "env.json", "metrics.jsonl", "summary.json", "report.html", "logs",
              "checkpoints"}
    assert wanted <= names, wanted - names
    assert {path.name for path in (run / "logs").iterdir()} >= {"rank-0.log", "rank-1.log"}
    page = (run / "report.html").read_text()
    assert "<svg" in page and "backward" in page.lower(), "no curves or phases in the report"
    step = runs.rows(run)[0]
    for phase in ("data_wait", "forward", "backward", "update"):
        assert any(phase in name for name in step), (phase, step)
    manifest = json.loads((run / f"checkpoints/step-{STEPS:08d}/manifest.json").read_text())["manifest"]
    assert manifest["generation"] == 1, manifest
    # The resolved job is the job.
    runs.train(muster, run / "resolved.yaml")
    assert runs.latest(folder) != run
    assert runs.weights(runs.latest(folder), STEPS) == runs.weights(run, STEPS)


def sample_of_text(muster, folder):
    job = runs.write_job(folder, "gpt", steps=100)  # enough to write letters
    flags = runs.settings("generate.length=40", "generate.prompt=and it came", "generate.temperature=0")
    samples = set()
    for workers in "12":
        output = runs.train(muster, job, "--workers", workers, *flags)
        samples.add(output.split("a sample of what the model writes:\n")[1][:len("and it came") + 40])
    assert len(samples) == 1 and samples.pop().startswith("and it came"), samples


def checkpoints_by_the_clock(muster, folder):
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    process = runs.start(muster, job, "--workers", "2", *runs.settings(
        "checkpoint.every=300ms", "checkpoint.keep=100", "evaluation.every=never"))
    run = runs.wait_for_step(process, folder, 10)
    runs.wait_for(lambda: len(list(run.glob("checkpoints/*/manifest.json"))) >= 3, "the third checkpoint")
    process.send_signal(signal.SIGTERM)
    code, output = runs.finish(process)
    assert code == 143, f"exit code {code}:\n{output}"


def layout_of_a_dry_run(muster, folder):
    job = runs.write_job(folder, "gpt")
    for workers, flags, told in (
            (3, (), "3 workers, 2 or 3 slices of the batch each (8 in all), 18 samples a step"),
            (2, ("strategy.type=context",), "2 workers, 1 replica of 2, 8 slices of the batch each (8 in all)"),
            (4, ("strategy.type=tensor", "strategy.tensor=2"),
             "4 workers, 2 replicas of 2, 4 slices of the batch each (8 in all)")):
        output = runs.train(muster, job, "--dry-run", "--workers", str(workers), *runs.settings(*flags))
        assert f"layout      {told}" in output, output


CASES = [in_a_pipe, on_a_terminal, layout_of_a_dry_run, in_json, folder_of_the_run, sample_of_text,
         checkpoints_by_the_clock]

parser = runs.arguments("--only")
for case in CASES:
    if parser.only and parser.only != case.__name__:
        continue
    with runs.workplace() as workplace:
        runs.write_data(workplace)
        case(parser.muster, workplace)
    print(f"{case.__name__}: as it should be", flush=True)
