"""What a training tells and leaves: lines in a pipe, a line that is redrawn on a terminal, JSON, the folder of
the run, a sample of text, the learning rate, checkpoints by the clock; and what the command does without libtorch."""
import json
import math
import os
import pathlib
import re
import signal
import subprocess

import ptys
import runs

STEPS = 30

# Versions, device, world and layout, parameters of the mlp that runs.IMAGES has (196 · 24 + 24 + 24 · 10 + 10), memory.
HEADLINE = re.compile(r"muster \d+\.\d+\.\d+ · libtorch \d+\.\d+\.\d+\S* · cpu · 2 workers × \d+ lanes? · ordered · "
                      r"4\.98 k parameters · \d+\.\d [KM]iB a rank without activations")
PHASES = ("data_wait", "forward", "backward", "exposed_comm", "update", "checkpoint_stall")  # phase/…_s


def begins_with_the_headline(output):
    headline = output.splitlines()[0]
    assert HEADLINE.fullmatch(headline), f"the first line is {headline!r} in:\n{output}"


def first_line(muster, folder):
    """What can wait comes after it; where others have to join first, how they do it and that is all that there is."""
    job = runs.write_job(folder, "mlp", steps=STEPS)
    open_to_others = runs.settings("prometheus.listen=127.0.0.1:0", "workers.listen=127.0.0.1:0")
    output = runs.train(muster, job, "--workers", "2", *open_to_others)
    begins_with_the_headline(output)
    for told in ("\nmetrics for Prometheus: http://127.0.0.1:", "\nothers join with: muster worker --join 127.0.0.1:"):
        assert output.count(told) == 1, f"no {told!r} in:\n{output}"
    process = runs.start(muster, job, "--workers", "2", *open_to_others,
                         *runs.settings("workers.max_workers=3", "workers.min_workers=3"))
    told = [process.stdout.readline() for _ in range(3)]
    process.send_signal(signal.SIGTERM)
    code, output = runs.finish(process)
    assert code == 143, f"exit code {code}:\n{output}"
    for line, wanted in zip(told, ("metrics for Prometheus", "others join with", "waiting until 1 more has joined")):
        assert line.startswith(wanted), told


def in_a_pipe(muster, folder):
    output = runs.train(muster, runs.write_job(folder, "mlp", steps=STEPS), "--workers", "2")
    assert "\r" not in output and "\x1b" not in output, output
    begins_with_the_headline(output)
    assert f"\nrun {runs.latest(folder)}\n" in output, output
    for told in ("loss", "accuracy", "next: "):
        assert told in output, f"no {told!r} in:\n{output}"


def on_a_terminal(muster, folder):
    job = runs.write_job(folder, "mlp", steps=STEPS)
    redraw, colour = "\r\x1b[K", "\x1b[36m"
    for variables, redrawn, coloured in (({}, True, True), ({"NO_COLOR": "1"}, True, False),
                                         ({"TERM": "dumb"}, False, False), ({"CI": "true"}, False, False)):
        shown = ptys.Shown(muster, "train", job, "--workers", "2", **variables).ends()
        assert (redraw in shown) == redrawn, (variables, shown)
        assert (colour in shown) == coloured, (variables, shown)
        assert "accuracy" in shown.rsplit(redraw, maxsplit=1)[-1], f"the live line stays: {shown!r}"


def in_json(muster, folder):
    job = runs.write_job(folder, "mlp", steps=STEPS)
    output = runs.train(muster, job, "--workers", "2", "--log", "json")
    rows = [json.loads(line) for line in output.splitlines()]
    kinds = {row.get("type") for row in rows}
    assert {"run_started", "metrics", "checkpoint", "run_ended"} <= kinds, kinds


def version(muster, folder):
    """muster does not load libtorch, and knows all the same which one the worker has."""
    mine = subprocess.run([muster, "--version"], capture_output=True, text=True, check=True).stdout
    worker = pathlib.Path(muster).with_name("muster-worker")
    its = subprocess.run([worker, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"^libtorch (\d+\.\d+\.\d+)$", mine, re.MULTILINE)
    assert found and f"(libtorch {found[1]}" in its, (mine, its)


def loaded_by(command, folder):
    """The libraries that a command loads, and whatever it starts, by the dynamic linker's own account (ld.so(8))."""
    folder.mkdir()
    subprocess.run([str(word) for word in command], capture_output=True, check=True,
                   env={**os.environ, "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(folder / "linker")})
    told = "".join(path.read_text() for path in folder.iterdir())
    return {pathlib.Path(path).name for path in re.findall(r"calling init: (\S+)", told)}


def without_libtorch(muster, folder):
    """What only reads and tells takes milliseconds: it loads no libtorch, and starts no worker, which would."""
    def has_libtorch(names):
        return any(name.startswith(("libtorch", "libc10")) for name in names)

    worker = pathlib.Path(muster).with_name("muster-worker")
    assert has_libtorch(loaded_by([worker, "--version"], folder / "worker")), "not even the worker loads libtorch"
    job = runs.write_job(folder, "mlp", steps=STEPS)
    for number, words in enumerate((["--help"], ["--version"], ["help", "job"], ["validate", job])):
        names = loaded_by([muster, *words], folder / f"command-{number}")
        assert names and not has_libtorch(names), f"muster {words} loads {sorted(names)}"


def folder_of_the_run(muster, folder):
    runs.train(muster, runs.write_job(folder, "mlp", steps=STEPS), "--workers", "2")
    run = runs.latest(folder)
    names = {path.name for path in run.iterdir()}
    wanted = {"job.yaml", "resolved.yaml", "env.json", "metrics.jsonl", "summary.json", "report.html", "logs",
              "checkpoints"}
    assert wanted <= names, wanted - names
    assert any(name.startswith("events.out.tfevents.") for name in names), f"nothing for TensorBoard: {names}"
    assert {path.name for path in (run / "logs").iterdir()} >= {"rank-0.log", "rank-1.log"}
    page = (run / "report.html").read_text()
    assert "<svg" in page, "no curves in the report"
    steps = [row for row in runs.rows(run) if "train/loss" in row]
    for phase in PHASES:
        assert all(row[f"phase/{phase}_s"] >= 0 for row in steps), (phase, steps)
    # As the bar of the report names them; of a phase that took no time it says nothing.
    for shown in ("data wait", "forward", "backward", "communication", "update", "checkpoint"):
        assert f"</i>{shown}<td" in page, f"no {shown} among the phases of the report"
    environment = json.loads((run / "env.json").read_text())
    table = page.split("<h2>Environment</h2>")[1].split("</section>")[0]
    for value in (environment["host"], environment["system"], *environment["instruction_sets"], "libtorch", "compiler"):
        assert value and value in table, f"no {value!r} in the environment of the report: {table}"
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


def learning_rate_scaled_with_the_batch(muster, folder):
    """32 samples a step instead of 8: four times the rate, or twice. That is told, and the weights are those of that
    rate set by hand."""
    job = runs.write_job(folder, "mlp", steps=STEPS)
    flags = ("training.global_batch_size=32", "schedule.base_batch_size=8", *runs.UNTIL_STOPPED)

    def trained(*settings):
        runs.train(muster, job, "--workers", "2", *runs.settings(*flags, *settings))
        run = runs.latest(folder)
        rates = [row["train/learning_rate"] for row in runs.rows(run) if "train/learning_rate" in row]
        assert len(rates) == STEPS, rates
        return rates, runs.weights(run, STEPS)

    plain = trained("optimizer.learning_rate=0.05")
    assert all(math.isclose(rate, 0.05, rel_tol=1e-6) for rate in plain[0]), plain
    for scaling, by_hand in (("linear", 0.2), ("sqrt", 0.1)):
        rates, weights = trained("optimizer.learning_rate=0.05", f"schedule.scale_with_batch={scaling}")
        assert all(math.isclose(rate, by_hand, rel_tol=1e-6) for rate in rates), (scaling, rates)
        assert weights == trained(f"optimizer.learning_rate={by_hand}")[1] != plain[1], f"{scaling}: other weights"


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
             "4 workers, 2 replicas of 2, 4 slices of the batch each (8 in all)"),
            (8, ("strategy.mesh.shard=2", "strategy.mesh.pipeline=2", "strategy.mesh.tensor=-1"),
             "8 workers as pipeline 2 x shard 2 x tensor 2, 2 replicas of 4, 4 slices of the batch each (8 in all)")):
        output = runs.train(muster, job, "--dry-run", "--workers", str(workers), *runs.settings(*flags))
        assert f"layout      {told}" in output, output


def a_batch_larger_than_the_data(muster, folder):
    """It is told how many samples there are, before training and without; otherwise nothing is."""
    job = runs.write_job(folder, "mlp", steps=3)
    told = r"training\.global_batch_size is 301, but there are only 300 training samples: each step takes all of them"
    larger = runs.settings("training.global_batch_size=301")
    for flags in (("--workers", "2"), ("--dry-run",)):
        output = runs.train(muster, job, *flags, *larger)
        assert len(re.findall(told, output)) == 1, f"no `{told}` in:\n{output}"
        output = runs.train(muster, job, *flags, *runs.settings("training.global_batch_size=300"))
        assert "but there are only" not in output, output


def divergence(muster, folder):
    """A training that runs away, without a NaN, ends by itself, and says where the weights have gone."""
    job = runs.write_job(folder, "mlp", steps=2000)
    flags = runs.settings("optimizer.type=adamw", "optimizer.learning_rate=300", "schedule.type=constant")
    code, output = runs.finish(runs.start(muster, job, "--workers", "2", *flags))
    assert code == 4, f"exit code {code}:\n{output}"
    told = re.search(r"\[train/divergence\] step \d+: the loss is \S+ on average, .* at learning rate \S+; .*; the largest "
                     r"number among the weights of this worker is \S+, in (\S+)", output)
    assert told and told[1].endswith((".weight", ".bias")), output


def use_of_the_processor(muster, folder):
    """Whatever the ranks hold of the model, once the first step is over; of the lanes that compute."""
    for model, *ways in (("mlp", "data", "sharded"), ("gpt", "data", "pipeline", "tensor", "context")):
        job = runs.write_job(folder, model, steps=4)
        for way in ways:
            recompute = ["training.recompute=[\"*\"]"] if model == "gpt" else []
            runs.train(muster, job, "--workers", "2", *runs.settings(f"strategy.type={way}", *recompute))
            found = [row.get("perf/mfu") for row in runs.rows(runs.latest(folder)) if "train/loss" in row]
            assert found[0] is None and len(found) == 4 and min(found[1:]) > 0, f"{model}, {way}: {found}"
    job = runs.write_job(folder, "mlp", steps=10**6)
    process = runs.start(muster, job, "--workers", "3", *runs.settings("workers.max_restarts=0", "training.lanes=1"))
    run = runs.wait_for_step(process, folder, 30)
    runs.kill(runs.workers_of(process)[2])
    runs.wait_for(lambda: any(" of 2 workers stands" in row["text"] for row in runs.records(run, "notice")), "the others")
    runs.goes_on(process, run)
    process.send_signal(signal.SIGTERM)
    code, output = runs.finish(process)
    assert code == 143, output
    of_a_sample = [row["perf/mfu"] / row["perf/samples_per_s"] for row in runs.rows(run) if "perf/mfu" in row]
    for share in of_a_sample:
        assert min(abs(share / of_a_sample[0] / wanted - 1) for wanted in (1, 3 / 2)) < 1e-6, of_a_sample
    assert of_a_sample[-1] > of_a_sample[0], of_a_sample


CASES = [version, without_libtorch, in_a_pipe, first_line, on_a_terminal, layout_of_a_dry_run, in_json,
         folder_of_the_run, sample_of_text, learning_rate_scaled_with_the_batch, checkpoints_by_the_clock,
         a_batch_larger_than_the_data, use_of_the_processor, divergence]

parser = runs.arguments("--only")
for case in CASES:
    if parser.only and parser.only != case.__name__:
        continue
    with runs.workplace() as workplace:
        runs.write_data(workplace)
        case(parser.muster, workplace)
    print(f"{case.__name__}: as it should be", flush=True)
