"""docs/models.md"""
import source_code


def play(page):
    source_code.compiles(page, page.take("auto model ="), "models.cc", "muster_models_test")
