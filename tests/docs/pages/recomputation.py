"""docs/recomputation.md"""
import re

import jobs
import place
import shapes


def play(page):
    jobs.trained_part(page, page.take("training: "))
    block = page.take("$ muster train jobs/gpt.yaml --dry-run")
    (command,) = place.commands_of(block)
    shapes.same(block.place, place.printed_in(block), page.place().run(command))
    without = page.place().run("muster train jobs/gpt.yaml --dry-run")
    said = re.search(r"Without it they are ([\d.]+ MiB)", page.text)[1]
    assert f"activations {said} kept" in " ".join(without.split()), without
