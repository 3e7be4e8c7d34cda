"""docs/mlflow.md: the real server gets runs in seen.mlflow, which starts it as the page does; here its parts of job files."""
import pathlib
import shlex

import elsewhere
import jobs


def play(page):
    assert "seen.mlflow" in elsewhere.tests_of(page.tools.build)
    jobs.valid_part(page, page.take("mlflow: {tracking_uri"))
    jobs.valid_part(page, page.take("mlflow:\n  tracking_uri"))
    test = (pathlib.Path(page.tools.root) / "tests/seen/mlflow.py").read_text()
    command = shlex.split(page.take("pip install mlflow").lines[1])
    assert command[:2] == ["mlflow", "server"], command
    for option in command[2::2]:
        assert f'"{option}"' in test, f"{page.name}: seen.mlflow starts the server without {option}"
