"""docs/start.md: the first run, the same from one worker, a resume, and pictures of one's own."""
import elsewhere
import place
import runs

SMALL = ("model.channels=[4]", *place.SHORT)
LONGER = ("model.channels=[4]", "training.max_steps=6", "evaluation.every=end")


def the_same_bits(page, block):
    # The path of what was built is the test's own.
    path, *trainings, sums = place.commands_of(block)
    assert path.startswith("PATH="), f"{block.place}: {path}"
    reader = page.place()
    for command in trainings:
        reader.run(reader.shortened(command, SMALL))
    told = reader.run(sums).split()[::2]
    assert len(told) == len(trainings) > 1 and len(set(told)) == 1, f"{block.place}: {told}"


def own_pictures(page, block):
    reader = page.place()
    runs.write_pictures(reader.folder / "photos")
    place.type_in(page, block)
    assert (reader.folder / "out/model.safetensors").exists(), f"{block.place}: nothing was exported"


def play(page):
    # It installs and builds: what it gives to muster, and what it says, is tried in tests/tools.
    elsewhere.run_by(page, "script/quickstart --quick", "tools.checks_can_fail")
    the_same_bits(page, page.take("PATH=$PWD/build/release/bin:$PATH"))
    told = place.type_in(page, page.take("muster train jobs/fashion.yaml --workers 2 --resume"), LONGER)
    assert "resumed after step 3" in told, told
    own_pictures(page, page.take("muster init photos"))
