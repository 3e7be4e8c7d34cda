"""docs/performance.md: what is compared there is compared."""
import re

import place


def play(page):
    block = page.take("muster compare jobs/gpt.yaml")
    told = place.type_in(page, block)
    assert re.search(r"^workers .* same$", told, re.MULTILINE), f"{block.place}: {told}"
