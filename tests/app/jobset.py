"""What muster submit k8s prints is a JobSet by the published schema, in every variation, with no field that it does not
know."""
import copy
import gzip
import json
import pathlib
import subprocess
import sys

import jsonschema
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

VARIATIONS = ((), ("--nodes", "1"), ("--nodes", "5", "--cpus-per-worker", "3"), ("--workers-per-node", "4"),
              ("--namespace", "research"), ("--claim", "disk"), ("--name", "night-run", "--set", "training.max_steps=2"))


def strict(schema):
    """Refuses fields that the cluster would drop without a word."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: strict(part) for key, part in schema.items()}
    if isinstance(parts.get("properties"), dict) and not parts.get("x-kubernetes-preserve-unknown-fields"):
        parts.setdefault("additionalProperties", False)
    return parts


def schema():
    published = json.loads(gzip.decompress((pathlib.Path(__file__).parent / "jobset.schema.json.gz").read_bytes()))
    # Of metadata it says only that it is an object.
    return {**strict(published), "required": ["apiVersion", "kind", "metadata", "spec"]}


def manifest(muster, job, *flags):
    printed = subprocess.run([muster, "submit", "k8s", job, "--image", "registry/muster:1", "--dry-run", *flags],
                             capture_output=True, text=True, timeout=60)
    assert printed.returncode == 0, (flags, printed.stderr)
    return list(yaml.safe_load_all(printed.stdout))


def check(validator, documents, flags):
    files, jobs = documents
    assert (files["apiVersion"], files["kind"]) == ("v1", "ConfigMap"), flags
    assert all(isinstance(text, str) for text in files["data"].values()), flags
    assert (jobs["apiVersion"], jobs["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet"), flags
    wrong = [f"{'/'.join(map(str, error.path))}: {error.message}" for error in validator.iter_errors(jobs)]
    assert not wrong, (flags, wrong)
    named = {volume["configMap"]["name"] for one in jobs["spec"]["replicatedJobs"]
             for volume in one["template"]["spec"]["template"]["spec"]["volumes"] if "configMap" in volume}
    assert named == {files["metadata"]["name"]}, (flags, named)


def check_that_it_can_fail(validator, jobs):
    misspelt, mistyped = copy.deepcopy(jobs), copy.deepcopy(jobs)
    pod = misspelt["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["restartpolicy"] = pod.pop("restartPolicy")
    mistyped["spec"]["replicatedJobs"][0]["replicas"] = "one"
    for broken in (misspelt, mistyped):
        assert list(validator.iter_errors(broken)), "the schema lets anything through"


def main():
    muster = str(pathlib.Path(runs.arguments().muster).resolve())
    validator = jsonschema.Draft4Validator(schema())
    with runs.workplace() as folder:
        runs.write_data(folder)
        job = runs.write_job(folder, "mlp")
        for flags in VARIATIONS:
            documents = manifest(muster, job, *flags)
            check(validator, documents, flags)
        check_that_it_can_fail(validator, documents[1])
    print(f"ok  {len(VARIATIONS)} variations")


if __name__ == "__main__":
    main()
