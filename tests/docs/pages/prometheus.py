"""docs/prometheus.md: scraped by the real Prometheus in seen.prometheus; here what the page has is held to both programs."""
import pathlib

import elsewhere
import jobs


def play(page):
    assert "seen.prometheus" in elsewhere.tests_of(page.tools.build)
    jobs.valid_part(page, page.take("prometheus: {listen: 9464}"))
    jobs.valid_part(page, page.take("prometheus:\n  listen: 0.0.0.0:9464"))
    reader = page.place()
    text = (pathlib.Path(page.tools.root) / "docs/monitoring/prometheus.yml").read_text()
    for name in ("muster.token", "muster.pem"):
        assert f"/etc/prometheus/{name}" in text
        text = text.replace(f"/etc/prometheus/{name}", str(reader.write(name, "x")))
    reader.write("prometheus.yml", text)
    reader.run("promtool check config --syntax-only prometheus.yml")
