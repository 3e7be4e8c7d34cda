"""docs/traces.md"""
import jobs
import place
import shapes


def play(page):
    command, shown = page.take("muster train jobs/gpt.yaml"), page.take("critical path")
    told = place.type_in(page, command)
    shares = {r"\d+ % evaluation on worker.*": r".*\d+ % .* on worker \d+.*"}
    shapes.compare(shown.place, shown.lines, told, shares)
    jobs.valid_part(page, page.take("trace:"))
