#!/usr/bin/env python3
"""An editor that has the JSON Schema of `muster help job --schema` takes and refuses what muster does:
schema.py MUSTER SOURCES"""
import copy
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import jsonschema
import yaml


class Yaml12(yaml.SafeLoader):
    """5e-4 is a number, as for muster and editors; PyYAML by itself goes by YAML 1.1, where it is a text."""


Yaml12.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"),
                             list("-+.0123456789"))

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
MLP = {"model": {"type": "mlp"}, "data": {"type": "idx", "path": "/data"}}
GPT = {"model": {"type": "gpt"}, "data": {"type": "text", "path": "/data/a.txt"}}
TAKEN = (
    MLP, GPT,
    {**MLP, "model": {"type": "mlp", "hidden_sizes": []}},
    {**MLP, "model": {"type": "resnet", "channels": [8], "norm": "none"}},
    {**MLP, "model": {"type": "mlp", "dropout": "5%"}},
    {**MLP, "name": 7, "training": {"max_steps": 7, "epochs": "none"}},
    {**MLP, "workers": {"count": 4}, "strategy": {"mesh": {"replicate": -1, "shard": 2}}},
    {**MLP, "workers": {"count": 2}, "strategy": {"type": "sharded", "zero_stage": 2}},
    {**MLP, "workers": {"hosts": "localhost:2,node7"}}, {**MLP, "workers": {"hosts": ["localhost:2", "node7:4"]}},
    {**MLP, "workers": {"listen": "10.0.0.5:29400", "max_workers": 4}},
    {**MLP, "optimizer": {"groups": [{"match": "*.bias", "weight_decay": 0}]}},
    {**MLP, "checkpoint": {"every": "5 min"}, "evaluation": {"every": "0.5 epochs"}},
    {**MLP, "communication": {"timeout": "1.5 min", "bucket_size": "4 MiB"}},
    {**MLP, "preemption": {"url": "http://169.254.169.254/x"}, "quick": {"training.epochs": 1}},
    {**GPT, "generate": {"length": 10, "prompt": "In"}},
)
REFUSED = (
    {"model": {"type": "mlp"}}, {**MLP, "data": {"type": "idx"}}, {**MLP, "data": {"type": "idx", "path": ""}},
    {**MLP, "training": None},
    {**MLP, "model": {"type": "resnet", "channels": []}},
    {**MLP, "model": {"type": "mlp", "hidden_sizes": 128}},
    {**MLP, "model": {"type": "mlp", "hidden_sizes": [0]}},
    {**MLP, "model": {"type": "mlp", "dropout": "100%"}},
    {**MLP, "evaluation": {"metrics": ["mine"]}}, {**MLP, "data": {**MLP["data"], "transforms": "mine"}},
    {**MLP, "training": {"epochs": 0}}, {**MLP, "training": {"epochs": "auto"}}, {**MLP, "training": {"mode": "quick"}},
    {**MLP, "strategy": {"mesh": {"shard": 0}}},
    {**MLP, "workers": {"hosts": ["-x"]}},
    {**MLP, "optimizer": {"groups": [{"match": []}]}}, {**MLP, "optimizer": {"groups": [{"weight_decay": 0}]}},
    {**MLP, "lora": {"rank": 2, "target_modules": []}},
    {**MLP, "checkpoint": {"every": "5 parsec"}}, {**MLP, "checkpoint": {"every": "0 steps"}}, {**MLP, "checkpoint": {"every": 5}},
    {**MLP, "communication": {"timeout": 30}}, {**MLP, "communication": {"bucket_size": "4 stone"}},
    {**MLP, "preemption": {"url": "https://a.example"}}, {**MLP, "mlflow": {"tracking_uri": "ftp://a.example"}},
    {**MLP, "quick": {"training.epoch": 1}}, {**MLP, "quick": {"training": {"epochs": 1}}},
)


class Both:
    def __init__(self, muster, folder):
        self.muster, self.folder = muster, folder
        self.schema = json.loads(subprocess.run([muster, "help", "job", "--schema"], capture_output=True, check=True,
                                                env=ENVIRONMENT, timeout=60).stdout)
        jsonschema.Draft202012Validator.check_schema(self.schema)
        self.validator = jsonschema.Draft202012Validator(self.schema)

    def complaint(self, job):
        """Of the schema; none: it takes the job."""
        return next((f"{list(error.path)}: {error.message}" for error in self.validator.iter_errors(job)), None)

    def agree(self, job, taken):
        path = self.folder / "job.yaml"
        path.write_text(json.dumps(job))  # which is YAML
        done = subprocess.run([self.muster, "validate", path], capture_output=True, text=True, env=ENVIRONMENT, timeout=60, check=False)
        assert (done.returncode == 0) == taken, f"muster validate of {job}: {done.returncode}\n{done.stdout}{done.stderr}"
        complaint = self.complaint(job)
        assert (complaint is None) == taken, f"the schema of {job}: {complaint or 'takes it'}"


def leaves(schema, way=()):
    """The ways to what is forbidden, or said, in nested properties."""
    for key, value in schema["properties"].items() if isinstance(schema, dict) and "properties" in schema else ():
        if isinstance(value, dict) and "properties" in value:
            yield from leaves(value, (*way, key))
        else:
            yield (*way, key), value


def at(schema, way):
    for key in way:
        schema = schema["properties"][key]
    return schema


def put(job, way, value):
    for key in way[:-1]:
        job = job.setdefault(key, {})
    job[way[-1]] = value


def sample(field):
    """A value that the field's own schema takes."""
    if field.get("default") not in (None, "", []):
        return field["default"]
    field = field.get("anyOf", [field])[0]
    if "enum" in field:
        return field["enum"][0]
    if "pattern" in field:
        return next(text for text in ("x", "http://host", "30s", "5%", "1 MiB", "1 epoch") if re.search(field["pattern"], text))
    kind = field["type"][0] if isinstance(field["type"], list) else field["type"]
    return {"boolean": True, "integer": int(field.get("minimum", 1)), "number": 0.5, "array": [1], "string": "x"}[kind]


def conditions_of(schema):
    """Of each field that is for some types only: which other fields have to have one of which values."""
    found = {}
    for condition in schema["allOf"]:
        (other, wanted), = leaves(condition["if"])
        for way, allowed in leaves(condition["else"]):
            assert allowed is False, condition
            found.setdefault(way, []).append((other, wanted["enum"]))
    return found


def for_another_type(both):
    """Such a field is refused in a job of each other type, and by no condition where all of them hold."""
    found = conditions_of(both.schema)
    assert len(found) >= 40, found
    for way, conditions in found.items():
        job = copy.deepcopy(MLP)
        for other, wanted in conditions:
            put(job, other, wanted[0])
        put(job, way, sample(at(both.schema, way)))
        refused = [error.message for error in both.validator.iter_errors(job) if tuple(error.path) == way]
        assert not refused, f"{way}: {refused} in {job}"
        for other, wanted in conditions:
            another = next(value for value in at(both.schema, other)["enum"] if value not in wanted)
            changed = copy.deepcopy(job)
            put(changed, other, another)
            both.agree(changed, False)


def main():
    muster, sources = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        both = Both(muster, Path(folder))
        for job in TAKEN:
            both.agree(job, True)
        for job in REFUSED:
            both.agree(job, False)
        for path in sorted((sources / "jobs").glob("*.yaml")):
            complaint = both.complaint(yaml.load(path.read_text(), Loader=Yaml12))
            assert complaint is None, f"{path}: {complaint}"
        for_another_type(both)
    print("ok")


main()
