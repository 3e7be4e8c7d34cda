"""docs/data.md"""
import pathlib
import re

import source_code


def play(page):
    picture = page.take("Source ──► Sampler")
    headers = "".join(path.read_text() for path in (pathlib.Path(page.tools.root) / "muster/data").glob("*.h"))
    for name in re.findall(r"\b[A-Z]\w+", picture.text):
        assert re.search(rf"\b(class|struct) {name}\b", headers), f"{picture.place}: muster/data has no {name}"
    source_code.compiles(page, page.take("auto source ="), "data.cc", "muster_data_idx_test")
