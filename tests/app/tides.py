"""examples/tides, a program of a user's: its names are words of its job file, it is its own worker, and all that muster
promises holds for it – the same bits at any size, a worker killed in between, a resume, an export."""
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "resume"))
import runs  # noqa: E402

arguments = runs.arguments("--tides", "--example", "--only")
TIDES = arguments.tides
STEPS = 200
MANY_STEPS = 2000  # so that a death comes in between


def job_in(folder, name="runs", steps=STEPS):
    """The example's job, shortened, with checkpoints in between."""
    example = pathlib.Path(arguments.example)
    shutil.copy(example / "levels.txt", folder)
    text = (example / "tides.yaml").read_text()
    text = text.replace("levels.txt", str(folder / "levels.txt")).replace("epochs: 12", f"max_steps: {steps}")
    text = text.replace("name: tides", f"name: tiny\nrun_folder: {folder / name}\ncheckpoint: {{every: 20 steps}}")
    job = folder / "tides.yaml"
    job.write_text(text)
    return job


def answer(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=runs.DEADLINE, check=False)
    return done.returncode, done.stdout + done.stderr


def trained(folder, workers):
    job = job_in(folder, f"runs-{workers}")
    runs.train(TIDES, job, "--workers", str(workers))
    return runs.latest(folder, f"runs-{workers}")


def learns_the_same_at_any_size(folder):
    found = {workers: trained(folder, workers) for workers in (1, 2, 3)}
    assert runs.weights(found[1], STEPS) == runs.weights(found[2], STEPS) == runs.weights(found[3], STEPS)
    told = [row for row in runs.rows(found[2]) if "eval/miss_cm" in row]
    assert "eval/accuracy" not in told[-1], told[-1]
    assert 0 < told[-1]["eval/miss_cm"] < 40, told  # a guess of the mean misses by more than a metre
    assert runs.trainer_state(found[2], STEPS)["best_value"] in [row["eval/miss_cm"] for row in told]


def survives_a_death(folder):
    alone = job_in(folder, "alone", MANY_STEPS)
    runs.train(TIDES, alone, "--workers", "1")
    expected = runs.weights(runs.latest(folder, "alone"), MANY_STEPS)
    process = runs.start(TIDES, job_in(folder, "killed", MANY_STEPS), "--workers", "2")
    runs.wait_for_step(process, folder, 30, "killed")
    runs.kill(runs.workers_of(process)[1])
    code, output = runs.finish(process)
    assert code == 0 and "SIGKILL" in output, output
    assert runs.weights(runs.latest(folder, "killed"), MANY_STEPS) == expected, output


def resumes(folder):
    job = job_in(folder)
    steady = runs.settings(*runs.UNTIL_STOPPED)
    first = runs.train(TIDES, job, "--workers", "2", *steady, *runs.settings("training.max_steps=60"))
    assert "tides checkpoint export" in first, first
    runs.train(TIDES, job, "--workers", "3", "--resume", *steady)
    whole = job_in(folder, "whole")
    runs.train(TIDES, whole, "--workers", "1", *steady)
    assert runs.weights(runs.latest(folder), STEPS) == runs.weights(runs.latest(folder, "whole"), STEPS)
    code, output = answer(TIDES, "train", whole, "--resume", "--set", "options.tide_net.width=8")
    assert code == 2 and "options.tide_net.width: 48 -> 8" in output, output


def exports(folder):
    code, output = answer(TIDES, "checkpoint", "export", runs.latest(folder, "runs-2"), "--output", folder / "weights")
    assert code == 0, output
    data = (folder / "weights" / "model.safetensors").read_bytes()
    assert b"model.hidden.weight" in data, data[:300]
    job = job_in(folder, "warm")
    runs.train(TIDES, job, *runs.settings(f"model.weights={folder / 'weights'}", "training.max_steps=1"))


def stages_need_blocks(folder):
    """A single module is one block, which a pipeline cannot cut: it says so before it trains."""
    code, output = answer(TIDES, "train", job_in(folder, "cut"), "--workers", "2", "--set", "strategy.type=pipeline")
    assert code == 2 and "block" in output, (code, output)


def batch_norm_needs_some(folder):
    """Whether a model of the program's has any, its worker says, at the line of the job."""
    code, output = answer(TIDES, "train", job_in(folder, "norms"), "--set", "training.sync_batch_norm=true")
    assert code == 2 and "training.sync_batch_norm: no block of tide_net has batch norm" in output, (code, output)


def shards(folder):
    """Every strategy that keeps the model whole takes it."""
    run = folder / "sharded"
    runs.train(TIDES, job_in(folder, "sharded"), "--workers", "2", *runs.settings("strategy.type=sharded"))
    assert runs.weights(runs.latest(folder, run.name), STEPS) == runs.weights(runs.latest(folder, "runs-1"), STEPS)


def evaluates_what_is_no_augmentation(folder):
    """On weights that hardly move: a transform changes what is evaluated, an augmentation does not."""
    def miss(name, *sets):
        hardly = ("training.max_steps=1", "optimizer.learning_rate=1e-12", "schedule.type=constant")
        runs.train(TIDES, job_in(folder, name), *runs.settings(*hardly, *sets))
        return [row["eval/miss_cm"] for row in runs.rows(runs.latest(folder, name)) if "eval/miss_cm" in row][-1]

    plain = miss("plain", "data.transforms=[]")
    assert abs(miss("noisy", "options.jitter.metres=5") - plain) < 1e-3, plain
    assert abs(miss("moved", "data.transforms=[datum]", "options.datum.metres=5") - plain) > 1, plain


def knows_its_names(folder):
    job = job_in(folder, "names")
    code, output = answer(TIDES, "validate", job)
    assert code == 0 and "valid: tide_net on" in output, output
    code, output = answer(TIDES, "validate", job, "--set", "model.type=tide_ned", "--set", "training.loss=hubert")
    assert code == 2 and "did you mean `tide_net`?" in output and "did you mean `huber`?" in output, output
    code, output = answer(TIDES, "help", "job")
    assert code == 0 and "options.tide_net.width" in output and "A layer of tanh over the hours before." in output, output
    code, output = answer(TIDES, "train", "--help")
    assert code == 0 and "tides train jobs/" in output, output
    code, output = answer(TIDES, "plan", job, "--workers", "2")
    assert code == 0 and "sharded" in output, output
    code, output = answer(TIDES, "doctor")
    assert "muster-worker" not in output, output
    code, output = answer(arguments.muster, "validate", job)
    assert code == 2 and "tide_net" in output and "unknown key `options`" in output, output


def tells_what_its_code_says(folder):
    job = job_in(folder, "faulty")
    (folder / "levels.txt").write_text("1.25\nhigh\n")
    code, output = answer(TIDES, "train", job)
    assert code == 2 and "levels.txt:2: expected a water level in metres, found `high`" in output, (code, output)
    (folder / "levels.txt").write_text("1.25\n")
    code, output = answer(TIDES, "train", job, "--dry-run")
    assert code == 2 and "data.type levels has no training samples" in output, (code, output)


SCENARIOS = (learns_the_same_at_any_size, survives_a_death, resumes, exports, stages_need_blocks,
             batch_norm_needs_some, shards, evaluates_what_is_no_augmentation, knows_its_names,
             tells_what_its_code_says)
with runs.workplace() as place:
    for scenario in SCENARIOS:
        if arguments.only in (None, scenario.__name__):
            scenario(place)
            print(f"ok  {scenario.__name__}", flush=True)
