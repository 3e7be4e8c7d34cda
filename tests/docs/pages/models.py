"""docs/models.md"""
import jobs
import source_code


def play(page):
    jobs.valid(page, page.take("model: {type: resnet}"))
    source_code.compiles(page, page.take("auto model ="), "models.cc", "muster_models_test")
