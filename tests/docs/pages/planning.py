"""docs/planning.md: which way is best depends on the machine; how that is told does not."""
import jobs
import place
import shapes
import source_code

# Why a way stands where it does, and which one to take, is up to the machine.
UP_TO_THE_MACHINE = {r"(?<=: )(the fastest that fits|as fast as|\d+\.\d+× the time).*": r"(the fastest|as fast as|[\d.]+× the time).*",
                     r"(?<=^train so: )--set .*": "--set .*", r"(?<=^with other bits, )\d.*": r"[\d.]+ times as fast: --set .*"}


def play(page):
    command, shown = page.take("muster plan jobs/gpt.yaml"), page.take("gpt on 2 workers")
    shapes.compare(shown.place, shown.lines, place.type_in(page, command), UP_TO_THE_MACHINE, ordered=False)
    words = jobs.valid_part(page, page.take("strategy: {type: auto}"))
    line = page.take("strategy.type auto:")
    told = page.place().run(f"muster train {words} --workers 2 --dry-run")
    shapes.compare(line.place, line.lines, told, {r"(?<=auto: )\w+; .*(?=; [\d.]+ ms)": ".*"})
    source_code.compiles(page, page.take("MUSTER_ASSIGN(const plan::ModelProfile"), "planning.cc", "muster_plan_test")
