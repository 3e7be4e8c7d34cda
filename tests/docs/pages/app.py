"""docs/app.md: a program of one's own, which is examples/tides, and parts of others."""
import pathlib
import shutil

import elsewhere
import jobs
import place
import source_code


def the_commands(page):
    """The first two install and build, as app.installed does; the last runs here what the build made of the example."""
    block = page.take("cmake --install build/release")
    assert "app.installed" in elsewhere.tests_of(page.tools.build)
    *built, trained = place.commands_of(block)
    assert len(built) == 2 and all(line.startswith("cmake ") for line in built), f"{block.place}: nothing runs {built}"
    reader = page.place()
    shutil.copytree(pathlib.Path(page.tools.root) / "examples", reader.folder / "examples")
    (reader.folder / "build/tides").mkdir(parents=True)
    (reader.folder / "build/tides/tides").symlink_to(page.tools.tides)
    told = reader.run(reader.shortened(trained))
    assert "miss cm" in told, told


def play(page):
    source_code.copied_from(page, page.take("int main("), "examples/tides/main.cc")
    part = page.take("model: {type: tide_net}")
    the_commands(page)
    (page.place().folder / "bin/tides").symlink_to(page.tools.tides)
    shutil.copy(page.place().folder / "examples/tides/levels.txt", page.place().folder)
    jobs.valid(page, part, program="tides")
    source_code.compiles(page, page.take("app.add_model(\"deep\""), "app.cc", "muster_own")
    # app.installed configures and builds both examples against what was installed.
    for target, example, words in (("app)", "tides", (("my_trainer", "tides"),)),
                                   ("comm_native", "layers", (("my_tool", "layers"), ("comm_native", "comm_loopback")))):
        block = page.take(f"find_package(muster REQUIRED COMPONENTS {target}", "cmake")
        source_code.lines_of(page, block, f"examples/{example}/CMakeLists.txt", words)
