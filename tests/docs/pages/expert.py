"""docs/expert.md"""
import place


def play(page):
    place.type_in(page, page.take("muster train jobs/moe.yaml"))
