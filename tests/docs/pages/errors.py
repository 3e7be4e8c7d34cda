"""docs/errors.md: an error as it looks; its table is held to the sources by tests/tools."""
import elsewhere
import shapes


def play(page):
    assert "tools.checks_can_fail" in elsewhere.tests_of(page.tools.build)
    block = page.take("error: [observe/run]")
    shapes.same(block.place, block.lines, page.place().run("muster train jobs/gpt.yaml --resume", code=3))
