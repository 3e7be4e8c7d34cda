"""What becomes of a training whose numbers run away, or get no better: the culprit, and which checkpoints stay."""
import json

import runs
from cases import expect, play, saved_steps


def numbers_run_away(muster, folder):
    job = runs.write_job(folder, "mlp", steps=400)
    code, output = runs.finish(runs.start(muster, job, "--workers", "2", "--set",
                                          "optimizer.learning_rate=1e30", "--set", "checkpoint.every=1 steps"))
    expect(code, 4, output, "learning rate", "step", "the gradient of ")


def ruined_weights_are_put_away(muster, folder):
    """An update may ruin the weights that the next loss tells of: by then they are saved. The checkpoint before them is
    there, whatever is kept, and the way out that is shown leads on."""
    job = runs.write_job(folder, "mlp", steps=30)
    sane = runs.settings("checkpoint.keep=1", "evaluation.keep_best=false")
    runs.train(muster, job, "--workers", "2", *sane)
    run = runs.latest(folder)
    wild = runs.settings("training.max_steps=60", "checkpoint.every=1 steps", "optimizer.learning_rate=1e30",
                         "schedule.type=constant", "schedule.warmup=0 steps")
    code, output = runs.finish(runs.start(muster, job, "--workers", "2", "--resume", *sane, *wild))
    expect(code, 4, output, "step 32", "the checkpoint of step 31 has the weights whose loss is no number",
           "ruined-step-00000031")
    assert saved_steps(run) == [30] and (run / "checkpoints/ruined-step-00000031").is_dir(), saved_steps(run)
    assert output.count("optimizer.learning_rate=") == 1, output
    assert json.loads((run / "summary.json").read_text())["step"] == 31
    runs.train(muster, job, "--workers", "1", "--resume", *sane, "--set", "training.max_steps=60")
    assert saved_steps(run) == [60]


def the_last_update_counts(muster, folder):
    """The loss of a step is that of the weights before it: what the last update has done only the evaluation tells."""
    job = runs.write_job(folder, "mlp", steps=1)
    code, output = runs.finish(runs.start(muster, job, "--workers", "2", *runs.settings(
        "optimizer.learning_rate=1e38", "schedule.type=constant", "schedule.warmup=0 steps")))
    expect(code, 4, output, "the loss of the evaluation after step 1 is ", "learning_rate")
    assert not saved_steps(runs.latest(folder))


def loss_runs_away(muster, folder):
    """Long before there is a NaN: checkpoints of that time must not replace the good ones before."""
    job = runs.write_job(folder, "mlp", steps=400)
    def settings(warmup):
        return runs.settings(f"optimizer.learning_rate={2000 * warmup / 300}", "schedule.type=linear",
                             f"schedule.warmup={warmup} steps", "checkpoint.every=2 steps")

    code, output = runs.finish(runs.start(muster, job, "--workers", "2", *settings(300)))
    expect(code, 4, output, "learning rate")
    assert output.count("waits: the losses of the last steps run away") == 1, output
    run = runs.latest(folder)
    loss = {row["step"]: row["train/loss"] for row in runs.rows(run) if "train/loss" in row}
    saved = saved_steps(run)
    assert saved and max(loss[step] for step in saved) <= 10 * loss[1], (saved, loss)
    # It ends before it is judged: the end is saved beside the last good one, not in its place.
    last = max(loss) - 1
    runs.train(muster, job, "--workers", "2", *settings(last), *runs.settings(
        "checkpoint.keep=1", f"training.max_steps={last}"))
    # Nor has it proven the last good one, so the one before is there as well.
    assert saved_steps(runs.latest(folder)) == [*saved[-2:], last], saved_steps(runs.latest(folder))


def stops_early(muster, folder):
    """Nothing is learnt, so nothing gets better; the first checkpoint stays the best, and is kept if it should."""
    job = runs.write_job(folder, "mlp", steps=400)
    for keep_best, wanted in (("true", [10, 40]), ("false", [40])):
        code, output = runs.finish(runs.start(muster, job, "--workers", "2", *runs.settings(
            "optimizer.learning_rate=1e-15", "optimizer.weight_decay=0", "evaluation.every=10 steps",
            "evaluation.early_stop_patience=3", "checkpoint.every=10 steps", "checkpoint.keep=1",
            f"evaluation.keep_best={keep_best}")))
        expect(code, 0, output, "stopped early")
        assert ("take the best, of step 10 " in output) == (keep_best == "true"), output
        run = runs.latest(folder)
        assert [step for step, *_ in runs.evaluations(run)] == [10, 20, 30, 40], output
        assert saved_steps(run) == wanted, (keep_best, saved_steps(run))
        output = runs.train(muster, job, "--workers", "1", "--resume", *runs.settings(
            "optimizer.learning_rate=1e-15", "optimizer.weight_decay=0", "evaluation.every=10 steps",
            "evaluation.early_stop_patience=3", "checkpoint.every=10 steps", "checkpoint.keep=1",
            f"evaluation.keep_best={keep_best}"))
        assert "stopped early" in output, output
        assert runs.last_step(run) == 40 and saved_steps(run) == wanted, "trained on after an early stop"


play([numbers_run_away, ruined_weights_are_put_away, the_last_update_counts, loss_runs_away, stops_early])
