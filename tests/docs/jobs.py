"""Blocks of YAML that are job files, or parts of one: what muster says of them."""
import shlex

import yaml

import place
import runs

# A small job, of which a part says something else or more.
TEXT = {"model": {"type": "gpt", "n_layer": 4, "n_head": 4, "n_embd": 32},
        "data": {"type": "text", "path": "data/kjv.txt", "context_length": 32},
        "training": {"max_steps": 2, "global_batch_size": 32, "virtual_workers": 8},
        "evaluation": {"every": "end"}}


def rest_of(base, part):
    """What the base has and the part does not: groups, as text of a job file, and fields of the part's groups, as flags."""
    groups = {name: fields for name, fields in base.items() if name not in part}
    fields = [f"{group}.{name}={value}" for group in base if group in part for name, value in base[group].items()
              if name not in part[group]]
    return yaml.safe_dump(groups) if groups else "", runs.settings(*fields)


def at(block, work):
    try:
        return work()
    except AssertionError as problem:
        raise AssertionError(f"{block.place}: {problem}") from None


def read(block):
    try:
        return yaml.safe_load(block.text)
    except yaml.YAMLError as problem:
        raise AssertionError(f"{block.place}: {problem}") from None


def valid(page, block, program="muster"):
    """A whole job file, as it is; the name of the file."""
    page.place().write("job.yaml", block.text)
    at(block, lambda: page.place().run(f"{program} validate job.yaml"))
    return "job.yaml"


def valid_part(page, block, base=None):
    """As it is, with what a job needs besides; what follows `muster train` or another command for that job."""
    groups, flags = rest_of(base or TEXT, read(block))
    page.place().write("part.yaml", block.text + groups)
    words = shlex.join(["part.yaml", *flags])
    at(block, lambda: page.place().run(f"muster validate {words}"))
    return words


def trained_part(page, block, base=None):
    """A few steps of it; what is printed."""
    words = valid_part(page, block, base)
    return at(block, lambda: page.place().run(f"muster train {words} {shlex.join(runs.settings(*place.SHORT))}"))
