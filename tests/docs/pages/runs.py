"""docs/runs.md: what the commands that look at runs show, of a job called tiny."""
import runs
import shapes
import stragglers
from training import Training

# How the page calls this host, what is up to the moment, and which of the workers is late.
WORDS = {r"(?<=on )here\b|^here(?= )": r"[\w.-]+", r"(?<=^late )nobody": ".*", r"(?<=: step 40[01], )\w+": ".*"}
LENGTH = ("training.max_steps=1000000", "schedule.type=constant", "schedule.warmup=0%", "training.lanes=1", "logging.logging_steps=5",
          "evaluation.every=20 steps", "checkpoint.every=never", "stragglers.compare_every=50ms", "stragglers.rebalance=false")


def job_file(page):
    runs.write_data(page.place().folder)
    return runs.write_job(page.place().folder, "resnet").name


def while_it_trains(page, command):
    status, top = page.take("tiny 3f09a1 in runs/"), page.take("tiny 3f09a1  running")
    with Training(page, command, base=LENGTH) as job:
        job.wait_for("^eval ")
        shapes.compare(status.place, status.lines, page.place().run("muster status tiny"), WORDS)
        runs.wait_for(lambda: "\nhost " in page.place().run("muster top tiny"), "what the workers' heartbeats tell")
        with stragglers.slowed(job.pid(1)):
            job.wait_for(" computes .* slower than the others")
            told = page.place().seen("muster top tiny", r"slow: .* slice, they .* m?s\b")
            shapes.compare(top.place, top.lines, told, WORDS)
        job.process.kill()  # so it has failed


def play(page):
    command = f"muster train {job_file(page)} --workers 2"
    listed = page.take("job   id ")
    page.place().run(f"{command} --set training.max_steps=5")
    while_it_trains(page, command)
    shapes.compare(listed.place, listed.lines, page.place().run("muster runs"), WORDS)
