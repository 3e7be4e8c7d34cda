"""docs/tensor.md"""
import place


def play(page):
    place.type_in(page, page.take("muster train jobs/gpt.yaml"))
