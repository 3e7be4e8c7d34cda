"""What a person asks of a run and tells it, by its id, its job's name or its folder: real processes."""
import json
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs


class Asked:
    """muster with the folder of runs of this test."""
    def __init__(self, muster, folder):
        self.muster, self.runs = muster, folder / "runs"

    def ask(self, *words, code=0):
        asked = subprocess.run([self.muster, *words, "--run-folder", str(self.runs)], capture_output=True, text=True,
                               timeout=runs.DEADLINE)
        assert asked.returncode == code, asked
        return asked.stdout + asked.stderr

    def json(self, *words):
        return json.loads(self.ask(*words, "--json"))


def wait_until(holds, what):
    end = time.monotonic() + runs.DEADLINE
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def id_of(run):
    return run.name.rsplit("-", 1)[1]


def while_it_trains(muster, folder, workers):
    """Listed as running, with step, rate and every worker, and what each of them does; its log is followed to the end; it is stopped with a
    checkpoint, and goes on where it was."""
    asked = Asked(muster, folder)
    job = runs.write_job(folder, "mlp", steps=10**6)
    training = runs.start(muster, job, "--workers", str(workers), *runs.settings(
        *runs.UNTIL_STOPPED, "stragglers.compare_every=1h"))  # else on a busy machine somebody is late
    run = runs.wait_for_step(training, folder, 30)
    name = id_of(run)
    (listed,) = [one for one in asked.json("runs", "--state", "running")["runs"] if one["id"] == name]
    assert listed["job"] == "tiny" and listed["workers"] == workers and listed["total_steps"] == 10**6, listed

    status = asked.json("status", "tiny")
    assert status["state"] == "running" and status["step"] >= 30 and status["left_s"] > 0, status
    assert {one["worker"]: one["pid"] for one in status["members"]} == runs.workers_of(training), status
    assert status["metrics"]["perf/samples_per_s"] > 0 and status["late"] == [], status
    text = asked.ask("status", name)
    assert re.search(r"^  rate +[\d,]+ samples/s, [\d.e+]+ ms a step, [\d:]+ left$", text, re.MULTILINE), text
    assert max(len(line) for line in text.splitlines()[1:]) <= 80 and "late     nobody" in text, text

    runs.wait_for(lambda: (run / "live.json").exists(), "what workers do now")
    top = runs.wait_for(lambda: [shown for shown in [asked.json("top", name)] if len(shown["members"]) == workers and
                                 all(one["step"] > 0 for one in shown["members"])], "heartbeats")[0]
    assert {one["worker"]: one["pid"] for one in top["members"]} == runs.workers_of(training), top
    assert all(one["resident_bytes"] > 2**20 and 0.99 < sum(one["shares"].values()) < 1.01 for one in top["members"]), top
    text = asked.ask("top", name)
    assert re.search(r"^step: data \d+ %  forward .*  save \d+ %$", text, re.MULTILINE), text
    assert len(re.findall(r"^\S+ +\d+ +\d+ +\d+ +[\d,]+ +[\d.]+ MiB( +\d+ %){5}$", text, re.MULTILINE)) == workers, text
    assert max(map(len, text.splitlines())) <= 80 and "\x1b" not in text, text

    follower = subprocess.Popen([muster, "logs", str(run), "-f"], stdout=subprocess.PIPE, text=True)
    stopped = asked.ask("stop", name)
    assert not (run / "live.json").exists()
    code, output = runs.finish(training)
    assert code == 143 and "SIGTERM" in output, (code, output)
    told = re.fullmatch(rf"tiny {name}: stopped at step ([\d,]+), as asked, checkpoint written; "
                        rf"go on with: muster resume (.*)\n", stopped)
    assert told and pathlib.Path(told[2]).resolve() == run, stopped
    step = int(told[1].replace(",", ""))
    assert (run / f"checkpoints/step-{step:08d}/manifest.json").exists(), stopped
    followed, _ = follower.communicate(timeout=runs.DEADLINE)
    for rank in range(workers):
        for line in (run / f"logs/rank-{rank}.log").read_text().splitlines():
            assert f"[rank{rank}] {line}\n" in followed, (line, followed)

    output = asked.ask("resume", name, "--workers", "1", "--set", f"training.max_steps={step + 5}")
    assert re.search(r"train twice as long +\S+ resume \S+ --workers 1 --set ", output), output
    (listed,) = [one for one in asked.json("runs")["runs"] if one["id"] == name]
    assert listed["state"] == "finished" and listed["step"] == step + 5, listed
    assert "nothing to stop" in asked.ask("stop", name, code=3)


def by_one(muster, folder):
    while_it_trains(muster, folder, 1)


def by_three(muster, folder):
    while_it_trains(muster, folder, 3)


def killed(muster, folder):
    """A run whose launcher was killed has failed, and goes on all the same."""
    asked = Asked(muster, folder)
    job = runs.write_job(folder, "mlp", steps=10**6)
    training = runs.start(muster, job, *runs.settings(*runs.UNTIL_STOPPED))
    run = runs.wait_for_step(training, folder, 30)
    runs.wait_for(lambda: list(run.glob("checkpoints/*/manifest.json")), "a checkpoint")
    training.kill()
    training.communicate()
    wait_until(lambda: asked.json("status", id_of(run))["state"] == "failed", "it is told as failed")
    assert "no end was recorded" in asked.ask("status", id_of(run))
    asked.ask("resume", str(run), "--set", "training.max_steps=10")


def killed_before_it_saved(muster, folder):
    """There is nothing to go on from, which is told at once, and what was recorded stays."""
    asked = Asked(muster, folder)
    job = runs.write_job(folder, "mlp", steps=10**6)
    training = runs.start(muster, job, *runs.settings(*runs.UNTIL_STOPPED, "checkpoint.every=never", "evaluation.keep_best=false"))
    run = runs.wait_for_step(training, folder, 30)
    told = asked.ask("resume", str(run), code=3)  # it may save yet
    assert "another muster still trains there" in told and "has no checkpoint" not in told, told
    training.kill()
    training.communicate()
    wait_until(lambda: asked.json("status", str(run))["state"] == "failed", "it is told as failed")
    before = asked.ask("status", str(run))
    for dry in ([], ["--dry-run"]):
        told = asked.ask("resume", str(run), *dry, code=3)
        assert f"{run} has no checkpoint" in told and f"muster train {run}/job.yaml" in told, told
    assert asked.ask("status", str(run)) == before, before


def stopped_before_it_saved(muster, folder):
    """Named from within its folders it has its name all the same, and nobody is sent where there is nothing."""
    asked = Asked(muster, folder)
    job = runs.write_job(folder, "mlp", steps=10**6)
    training = runs.start(muster, job, *runs.settings(*runs.UNTIL_STOPPED, "checkpoint.every=never", "evaluation.keep_best=false"))
    run = runs.wait_for_step(training, folder, 30)
    here = subprocess.run([muster, "status", ".", "--json"], cwd=run, capture_output=True, text=True, check=True)
    status = json.loads(here.stdout)
    assert status["job"] == "tiny" and status["id"] == id_of(run), status
    told = asked.ask("stop", "--now", str(run))
    training.communicate()
    saved = any(run.glob("checkpoints/step-*"))  # where it was quicker than the second signal
    assert ("go on with" in told) == saved, told


def two_compared(muster, folder):
    asked = Asked(muster, folder)
    job = runs.write_job(folder, "mlp", steps=20)
    found = []
    for rate in ("0.05", "0.01"):
        runs.train(muster, job, "--set", f"optimizer.learning_rate={rate}")
        found.append(id_of(runs.latest(folder)))
    page = folder / "compared.html"
    compared = asked.json("runs", "compare", *found, "--page", str(page))
    assert compared["differences"] == {"optimizer.learning_rate": ["0.05", "0.01"]}, compared
    assert len(set(compared["metrics"]["eval/loss"])) == 2, compared
    assert len({run["weights"] for run in compared["runs"]}) == 2, compared
    assert page.read_text().count("<svg") >= 1
    (only,) = asked.json("runs", "--where", "optimizer.learning_rate=0.01")["runs"]
    assert only["id"] == found[1] and only["state"] == "finished", only


def main():
    arguments = runs.arguments()
    runs.play((by_one, by_three, killed, killed_before_it_saved, stopped_before_it_saved, two_compared), arguments.muster)


if __name__ == "__main__":
    main()
