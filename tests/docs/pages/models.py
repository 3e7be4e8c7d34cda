"""docs/models.md"""
import code


def play(page):
    code.compiles(page, page.take("auto model ="), "models.cc", "muster_models_test")
