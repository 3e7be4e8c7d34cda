"""A job or data with which no training can be: the place that is wrong, with the right exit code."""
import pathlib
import re

import runs
from cases import expect, gone, play


def missing_instructions(muster, folder):
    """A worker would be killed by SIGILL."""
    if "avx512f" in pathlib.Path("/proc/cpuinfo").read_text():
        return print("left out: an instruction set that is missing, since this processor has all that a job can ask for")
    job = runs.write_job(folder, "mlp")
    code, output = runs.finish(runs.start(muster, job, "--set", "training.isa=avx512"))
    expect(code, 3, output, "training.isa: avx512", "muster doctor")


def missing_data(muster, folder):
    job = runs.write_job(folder, "mlp")
    code, output = runs.finish(runs.start(muster, job, "--set", f"data.path={folder}/nowhere"))
    expect(code, 3, output, "data.path", "nowhere")
    dry = runs.finish(runs.start(muster, job, "--dry-run", "--set", f"data.path={folder}/nowhere"))
    expect(dry[0], 3, dry[1], f"data.path: there is no {folder}/nowhere", f"      | --set data.path={folder}",
           "\n      |                 ^")
    elsewhere = runs.finish(runs.start(muster, job, "--set", "data.path=nowhere", cwd=folder))
    expect(elsewhere[0], 3, elsewhere[1], "there is no nowhere", "relative to the folder in which muster runs")
    assert not (folder / "runs").exists(), "a run was made that could never be"


def copy_of_data(folder, name):
    copy = folder / name
    copy.mkdir()
    for file in folder.glob("*-ubyte*"):
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


def wrong_labels(path):
    labels = bytearray(path.read_bytes())
    labels[8:] = bytes([200]) * (len(labels) - 8)
    with open(path, "r+b") as file:  # in place: a file that is mapped changes for its readers
        file.write(labels)


def wrong_label(muster, folder):
    job = runs.write_job(folder, "mlp")
    bad = copy_of_data(folder, "bad")
    wrong_labels(bad / "train-labels-idx1-ubyte")
    code, output = runs.finish(runs.start(muster, job, "--workers", "2", "--set", f"data.path={bad}"))
    expect(code, 2, output, "train-labels-idx1-ubyte", "label 200 at row 0, but model.classes is 10")


def torn_data(muster, folder):
    job = runs.write_job(folder, "mlp")
    bad = copy_of_data(folder, "torn")
    path = bad / "train-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-5])
    code, output = runs.finish(runs.start(muster, job, "--set", f"data.path={bad}"))
    expect(code, 3, output, "train-labels-idx1-ubyte")
    path.unlink()
    path.mkdir()
    code, output = runs.finish(runs.start(muster, job, "--set", f"data.path={bad}"))
    expect(code, 3, output, "data.train_labels", "train-labels-idx1-ubyte is a folder")


def other_images_for_evaluation(muster, folder):
    """Images of another size than the training's would be evaluated as something else, or fail in the middle."""
    job = runs.write_job(folder, "mlp", steps=400)
    runs.write_images(folder, "t10k", side=10)
    for flags in ((), ("--dry-run",)):
        code, output = runs.finish(runs.start(muster, job, "--workers", "2", *flags))
        expect(code, 2, output, "the samples for evaluation are image F32 [1, 10, 10]", "data.validation_path")


def dry_run_fails(muster, folder):
    """What keeps a job from training is said by a dry run as well, with the same exit code."""
    job = runs.write_job(folder, "mlp")
    faults = (("model.hidden_sizes=[1,10000000,10000000]", 3, "allocate 400000000000000 bytes"),
              ("model.hidden_sizes=[1,10000000,10000000]", 3, "need less memory"),
              ("model.classes=5", 2, "but model.classes is 5"),
              ("data.augment.crop_padding=1000", 2, "but data.augment.crop_padding is 1000"),
              ("model.classes=9223372036854775807", 3, "size calculation overflowed"),
              ("training.freeze=[layer9.*]", 2, "no parameter has a name like `layer9.*`; there are layer0."),
              ('training.freeze=["*"]', 2, "leaves nothing to train"),
              ("training.recompute=[layer7]", 2, "no block has a name like `layer7`; there are layer0, head"),
              ("optimizer.groups=[{match: bias}]", 2, "no parameter has a name like `bias`"))
    own = job.with_name("own.yaml")
    own.write_text(job.read_text() + "lora: {rank: 2, target_modules: [nowhere]}\n")
    line = len(own.read_text().splitlines())
    for flags in (["--dry-run"], []):
        code, output = runs.finish(runs.start(muster, own, *flags))
        expect(code, 2, output, f"{own}:{line}:33: lora.target_modules: no layer has a name like `nowhere`",
               "\n      |" + 33 * " " + "^")
    for setting, wanted, said in faults:
        for flags in (["--dry-run"], []):
            code, output = runs.finish(runs.start(muster, job, *flags, "--set", setting))
            expect(code, wanted, output, said)
            if wanted == 2:
                expect(code, 2, output, f"      | --set {setting}\n      |       {' ' * len(setting.split('=')[0])} ^")


def step_fails(muster, folder):
    """A worker that fails in the middle of a step: its data turns bad under it."""
    job = runs.write_job(folder, "mlp", steps=1_000_000)
    bad = copy_of_data(folder, "bad")
    process = runs.start(muster, job, "--workers", "2", "--set", f"data.path={bad}")
    run = runs.wait_for_step(process, folder, 30)
    workers = runs.workers_of(process)
    wrong_labels(bad / "train-labels-idx1-ubyte")
    code, output = runs.finish(process)
    expect(code, 1, output, "Target 200 is out of bounds", "--resume")
    rank = int(re.search(r"\[ERROR\] rank (\d)", output)[1])
    place = runs.place_of(output, rank, run)
    assert re.match(r"computing and reducing gradients, in forward of slice \d+\b", place), place
    gone(workers)


play([missing_instructions, missing_data, wrong_label, torn_data, other_images_for_evaluation, dry_run_fails,
      step_fails])
