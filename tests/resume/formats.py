"""Pictures in folders and tables: `muster init` writes a job for them, the same bits come of it at any size and after
a resume, and pictures are what the same pixels are as IDX."""
import json
import subprocess

import runs

STEPS = 60
PLAN = runs.settings(f"training.max_steps={STEPS}", "training.global_batch_size=18", "evaluation.every=30 steps",
                     "checkpoint.every=20 steps", "name=tiny", "seed=5")
CONSTANT = runs.settings(*runs.UNTIL_STOPPED)


def job_for(muster, folder, data, told):
    job = folder / "made.yaml"
    job.unlink(missing_ok=True)
    made = subprocess.run([muster, "init", str(data), "-o", str(job)], capture_output=True, text=True, timeout=60)
    assert made.returncode == 0 and told in made.stdout, made
    return job


def found(folder):
    run = runs.latest(folder)
    return runs.weights(run, STEPS), runs.evaluations(run)


def same_at_any_size(muster, folder, job):
    """The weights and evaluations that all sizes come to."""
    place = runs.settings(f"run_folder={folder}/runs")
    expected = None
    for workers, lanes in ((1, 1), (3, 2), (2, 1)):
        runs.train(muster, job, "--workers", str(workers), *PLAN, *place, "--set", f"training.lanes={lanes}")
        expected = expected or found(folder)
        assert found(folder) == expected, f"{workers} workers, {lanes} lanes: {found(folder)} instead of {expected}"
    # In mid-epoch, at another size.
    runs.train(muster, job, "--workers", "2", *PLAN, *place, "--set", "training.max_steps=20", *CONSTANT)
    runs.train(muster, job, "--resume", "--workers", "3", *PLAN, *place, *CONSTANT)
    resumed, _ = found(folder)
    runs.train(muster, job, "--workers", "1", *PLAN, *place, *CONSTANT)
    assert found(folder)[0] == resumed, f"resumed: {resumed} instead of {found(folder)}"
    return expected


def pictures(muster, folder):
    runs.write_pictures(folder / "photos")
    job = job_for(muster, folder, folder / "photos", "300 + 77 images of 1 × 14 × 14 in 10 classes, gray")
    same_at_any_size(muster, folder, job)
    card = json.loads((runs.latest(folder) / "data.json").read_text())
    assert card["classes"] == [f"bar{i}" for i in range(10)] and "features" not in card, card


def as_idx(muster, folder):
    """The same pixels in the same order of samples come to the same weights, whichever file they are in."""
    count, salt = runs.PARTS["train"]
    images = runs.pixels(count, salt)
    order = sorted(range(count), key=lambda i: ((i * 7 + salt) % 10, i))
    sorted_pixels = b"".join(images[i * 196:(i + 1) * 196] for i in order)
    (folder / "train-images-idx3-ubyte.gz").unlink()
    runs.write_idx(folder / "train-images-idx3-ubyte", (count, 14, 14), sorted_pixels)
    runs.write_idx(folder / "train-labels-idx1-ubyte", (count,), bytes((i * 7 + salt) % 10 for i in order))
    runs.write_pictures(folder / "photos")
    idx = runs.write_job(folder, "resnet", steps=STEPS)
    runs.train(muster, idx, "--workers", "2")
    expected = runs.weights(runs.latest(folder), STEPS)
    text = idx.read_text().replace(f"type: idx\n  path: {folder}",
                                   f"type: images\n  path: {folder}/photos/train\n  "
                                   f"validation_path: {folder}/photos/val\n  image_size: 14\n  image_mode: gray")
    assert "type: images" in text, text
    idx.write_text(text)
    runs.train(muster, idx, "--workers", "3")
    assert runs.weights(runs.latest(folder), STEPS) == expected


def table(muster, folder):
    runs.write_table(folder / "bars.csv")
    job = job_for(muster, folder, folder / "bars.csv", "240 + 60 rows of 67 columns in 10 classes")
    text = job.read_text()
    assert 'target: "bar"' in text and '- "id"    # only counts the rows' in text, text
    _, evaluations = same_at_any_size(muster, folder, job)
    assert evaluations[-1][2] > 0.5, evaluations
    card = json.loads((runs.latest(folder) / "data.json").read_text())
    assert card["target"] == "bar" and len(card["features"]) == 67, card
    assert card["features"][-1] == {"column": "parity", "words": ["even, so", "odd"]}, card
    assert card["features"][0]["column"] == "p0" and 0 < card["features"][0]["std"] < 100, card


def changed(muster, folder):
    """A run does not go on with other rows: some would be measured on that it was trained on."""
    data = folder / "bars.csv"
    place = runs.settings(f"run_folder={folder}/runs")
    rows = data.read_text().splitlines(keepends=True)
    data.write_text("".join(rows[:-1]))
    code, output = runs.finish(runs.start(muster, folder / "made.yaml", "--resume", "--workers", "2", *PLAN, *place,
                                          *CONSTANT, "--set", f"training.max_steps={2 * STEPS}"))
    assert code == 2 and "is not what this run began with (240 samples to train on then, 239 now)" in output, output
    data.write_text("".join(rows))
    runs.train(muster, folder / "made.yaml", "--resume", "--workers", "2", *PLAN, *place, *CONSTANT,
               "--set", f"training.max_steps={2 * STEPS}")


def other_pixels(muster, folder):
    """As many samples of the same shape, and one of them another one."""
    count, salt = runs.PARTS["train"]
    images = bytearray(runs.pixels(count, salt))
    job = runs.write_job(folder, "mlp", steps=20)
    runs.train(muster, job, "--workers", "2", *CONSTANT)
    path = folder / "train-images-idx3-ubyte"
    (folder / "train-images-idx3-ubyte.gz").rename(folder / "kept.gz")
    images[len(images) // 2] ^= 1
    runs.write_idx(path, (count, 14, 14), bytes(images))
    again = ("--resume", "--workers", "2", *CONSTANT, "--set", "training.max_steps=40")
    code, output = runs.finish(runs.start(muster, job, *again))
    assert code == 2 and "is not what this run began with (other samples, though as many to train on)" in output, output
    path.unlink()
    (folder / "kept.gz").rename(folder / "train-images-idx3-ubyte.gz")
    runs.train(muster, job, *again)


def broken(muster, folder):
    """A picture that cannot be read ends the job with its name."""
    runs.write_pictures(folder / "photos")
    job = job_for(muster, folder, folder / "photos", "images")
    victim = folder / "photos/train/bar3/009.png"
    assert victim.exists()
    victim.write_bytes(victim.read_bytes()[:70])
    code, output = runs.finish(runs.start(muster, job, "--workers", "2", *PLAN,
                                          *runs.settings(f"run_folder={folder}/runs")))
    assert code != 0 and "bar3/009.png is a broken PNG" in output, output


def misplaced(muster, folder):
    """A folder where a table is wanted, and a file where pictures are."""
    job = folder / "bare.yaml"
    job.write_text("name: tiny\nmodel: {type: mlp}\ntraining: {epochs: 1}\n")
    (folder / "file").touch()
    for kind, path, told in (("csv", folder, "is a folder; data.type csv takes one file"),
                             ("images", folder / "file", "is a file; data.type images takes the folder that holds a "
                                                         "folder of pictures for each class")):
        code, output = runs.finish(runs.start(muster, job, "--dry-run", *runs.settings(
            f"data.type={kind}", f"data.path={path}", f"run_folder={folder}/runs")))
        assert code == 2 and f"error: data.path: {path} {told}" in output, output


if __name__ == "__main__":
    runs.play((pictures, other_pixels, as_idx, table, changed, broken, misplaced), runs.arguments().muster)
