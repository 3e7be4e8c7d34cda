"""docs/pipeline.md: simulated pipelines, which are the same everywhere."""
import place
import shapes
import source_code


def play(page):
    command, shown = page.take("muster plan pipeline --stages 4"), page.take("schedule ")
    shapes.same(shown.place, shown.lines, place.type_in(page, command))
    place.type_in(page, page.take("muster plan pipeline --stages 3"))
    source_code.compiles(page, page.take("MUSTER_ASSIGN(auto schedule"), "pipeline.cc", "muster_plan_test")
