"""docs/data.md"""
import pathlib
import re

import jobs
import runs
import source_code


def trained(page):
    """The parts of jobs, on data such as they name."""
    folder = page.place().folder
    runs.write_pictures(folder / "photos")
    runs.write_table(folder / "bars.csv")
    for beginning in ("model: {type: resnet", "model: {type: mlp"):
        jobs.trained_part(page, page.take(beginning),
                          {"training": {"max_steps": 2, "global_batch_size": 32, "virtual_workers": 8}})


def play(page):
    picture = page.take("Source ──► Sampler")
    headers = "".join(path.read_text() for path in (pathlib.Path(page.tools.root) / "muster/data").glob("*.h"))
    for name in re.findall(r"\b[A-Z]\w+", picture.text):
        assert re.search(rf"\b(class|struct) {name}\b", headers), f"{picture.place}: muster/data has no {name}"
    source_code.compiles(page, page.take("auto source ="), "data.cc", "muster_data_idx_test")
    trained(page)
