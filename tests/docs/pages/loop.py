"""docs/loop.md: the five lines, and processes of this host and of two."""
import pathlib

import place
import source_code


def play(page):
    source_code.turns_into(page, page.take("@@", "diff"), "examples/plain/plain.cc", "examples/plain/parallel.cc")
    (page.place().folder / "parallel").symlink_to(pathlib.Path(page.tools.programs) / "parallel")
    launched, alone = place.commands_of(page.take("muster launch -n 2 ./parallel"))
    assert "a world of 2 processes" in page.place().run(launched)
    assert "a world of one process" in page.place().run(alone)
    place.on_two_hosts(page, place.commands_of(page.take("muster launch --nnodes 2")))
