"""docs/building.md: the package and the image, which other tests and script/bare-machine make."""
import pathlib
import re

import elsewhere
import place


def play(page):
    root = pathlib.Path(page.tools.root)
    package = elsewhere.run_by(page, "script/dependencies --for", "app.package")
    container = re.sub(r"\s*\\\n\s*", " ", (root / "Containerfile").read_text())
    for command in place.commands_of(package)[:3]:
        words = re.sub(r" -B \S+$", "", command)
        assert words in container, f"{package.place}: Containerfile does not run `{words}`"
    image = page.take("podman build")
    [command] = place.commands_of(image)
    assert command in (root / "Containerfile").read_text(), f"{image.place}: Containerfile says another command"
