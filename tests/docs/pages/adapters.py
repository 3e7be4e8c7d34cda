"""docs/adapters.md: adapters on the weights of a run."""
import jobs


def play(page):
    block = page.take("model:\n  type: gpt")
    gpt = {**jobs.TEXT, "run_folder": "runs", "name": "gpt"}
    page.place().write("gpt.yaml", jobs.yaml.safe_dump(gpt))
    page.place().run("muster train gpt.yaml")
    jobs.trained_part(page, block)
