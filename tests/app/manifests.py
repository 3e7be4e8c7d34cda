"""What muster submit k8s prints is a JobSet, or a TrainJob with its TrainingRuntime, by the published schemas, in every
variation, with no field that they do not know."""
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


class Kind:
    """One that the cluster has besides its own, by the published schema."""

    def __init__(self, kind, version):
        self.kind, self.version = kind, version
        path = pathlib.Path(__file__).parent / f"{kind.lower()}.schema.json.gz"
        published = strict(json.loads(gzip.decompress(path.read_bytes())))
        # Of metadata it says only that it is an object.
        self.validator = jsonschema.Draft4Validator({**published, "required": ["apiVersion", "kind", "metadata", "spec"]})

    def check(self, document, flags):
        assert (document["apiVersion"], document["kind"]) == (self.version, self.kind), flags
        wrong = [f"{'/'.join(map(str, error.path))}: {error.message}" for error in self.validator.iter_errors(document)]
        assert not wrong, (flags, wrong)

    def check_that_it_can_fail(self, document, *broken):
        for way in broken:
            wrong = copy.deepcopy(document)
            way(wrong)
            assert list(self.validator.iter_errors(wrong)), f"the schema of a {self.kind} lets anything through"


JOBSET = Kind("JobSet", "jobset.x-k8s.io/v1alpha2")
RUNTIME = Kind("TrainingRuntime", "trainer.kubeflow.org/v1alpha1")
TRAINJOB = Kind("TrainJob", "trainer.kubeflow.org/v1alpha1")


def manifest(muster, job, *flags):
    printed = subprocess.run([muster, "submit", "k8s", job, "--image", "registry/muster:1", "--dry-run", *flags],
                             capture_output=True, text=True, timeout=60)
    assert printed.returncode == 0, (flags, printed.stderr)
    return list(yaml.safe_load_all(printed.stdout))


def check_files(files, specification, flags):
    """The ConfigMap is the one that the pods of a JobSet mount."""
    assert (files["apiVersion"], files["kind"]) == ("v1", "ConfigMap"), flags
    assert all(isinstance(text, str) for text in files["data"].values()), flags
    named = {volume["configMap"]["name"] for one in specification["replicatedJobs"]
             for volume in one["template"]["spec"]["template"]["spec"]["volumes"] if "configMap" in volume}
    assert named == {files["metadata"]["name"]}, (flags, named)


def check_jobset(muster, job, flags):
    files, jobset = manifest(muster, job, *flags)
    JOBSET.check(jobset, flags)
    check_files(files, jobset["spec"], flags)
    return jobset


def check_train_job(muster, job, flags):
    """It refers to the runtime beside it, which is the JobSet that is made without."""
    files, runtime, train_job = manifest(muster, job, "--kind", "trainjob", *flags)
    RUNTIME.check(runtime, flags)
    TRAINJOB.check(train_job, flags)
    check_files(files, runtime["spec"]["template"]["spec"], flags)
    named = train_job["spec"]["runtimeRef"]
    assert (named["kind"], named["name"]) == (runtime["kind"], runtime["metadata"]["name"]), flags
    assert runtime["metadata"].get("namespace") == train_job["metadata"].get("namespace"), flags
    if "--name" in flags:  # else each has a number of its own
        assert runtime["spec"]["template"]["spec"] == manifest(muster, job, *flags)[1]["spec"], flags
    return runtime, train_job


def rename(place, old, new):
    place[new] = place.pop(old)


def pod_of(jobset):
    return jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]


def main():
    muster = str(pathlib.Path(runs.arguments().muster).resolve())
    with runs.workplace() as folder:
        runs.write_data(folder)
        job = runs.write_job(folder, "mlp")
        for flags in VARIATIONS:
            jobset = check_jobset(muster, job, flags)
            runtime, train_job = check_train_job(muster, job, flags)
    JOBSET.check_that_it_can_fail(jobset, lambda one: rename(pod_of(one), "restartPolicy", "restartpolicy"),
                                  lambda one: one["spec"]["replicatedJobs"][0].update(replicas="one"))
    RUNTIME.check_that_it_can_fail(runtime, lambda one: rename(pod_of(one["spec"]["template"]), "containers", "container"))
    TRAINJOB.check_that_it_can_fail(train_job, lambda one: rename(one["spec"]["runtimeRef"], "name", "names"))
    print(f"ok  {len(VARIATIONS)} variations of each")


if __name__ == "__main__":
    main()
