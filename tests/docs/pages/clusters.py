"""docs/clusters.md: jobs for Slurm and Kubernetes, whose programs are stand-ins here; tests/app has the real Slurm."""
import gzip
import json
import pathlib
import signal

import jsonschema
import yaml

import elsewhere
import place
import runs
import shapes

SBATCH = """#!/bin/bash
echo Submitted batch job 1207
"""
KUBECTL = """#!/bin/bash
cp "${@: -1}" manifest.yaml  # kubectl apply -f FILE
/usr/bin/python3 -c 'import yaml
for one in yaml.safe_load_all(open("manifest.yaml")):
    group = "." + one["apiVersion"].split("/")[0] if "/" in one["apiVersion"] else ""
    print(one["kind"].lower() + group + "/" + one["metadata"]["name"], "created")'
"""


def program(page, name, text):
    path = page.place().write(f"bin/{name}", text)
    path.chmod(0o755)


def by_ssh(page):
    """elastic.ssh has hosts that are reached by the real ssh; what is typed once is ssh's own."""
    elsewhere.run_by(page, "$ muster train jobs/fashion.yaml --hosts", "elastic.ssh")
    elsewhere.run_by(page, "$ ssh node7", "elastic.ssh")
    refused = elsewhere.run_by(page, "error: [train] 2 of 3 other hosts", "elastic.ssh")
    told = [line for line in refused.lines if "ssh says" not in line]
    elsewhere.said_by_the_product(page, told, refused.place, names=[r"error: ", r"\[train\]", "`[^`]*`", "(?<=host)s", ": (?=it)"])


def started_with_others(page):
    elsewhere.run_by(page, "$ srun --nodes 4 --ntasks-per-node 2", "app.train_started")


def by_slurm(page):
    block = page.take("$ muster submit slurm jobs/gpt.yaml")
    submit, top = place.commands_of(block)
    program(page, "sbatch", SBATCH)
    told = page.place().run(submit)
    shapes.compare(block.place, place.printed_in(block), told)
    # What Slurm would run of it, as far as it is of this host.
    page.place().run(page.place().shortened("muster train jobs/gpt.yaml --set name=gpt-1207"))
    assert "gpt-1207" in page.place().run(top)


def by_kubernetes(page):
    block = page.take("$ muster submit k8s jobs/gpt.yaml")
    submit, logs = place.commands_of(block)
    program(page, "kubectl", KUBECTL)
    shapes.compare(block.place, place.printed_in(block), page.place().run(submit))
    *_, jobset = yaml.safe_load_all((page.place().folder / "manifest.yaml").read_text())
    # The labels by which the controller of JobSet marks its pods: their names are those of the manifest.
    labels = dict(word.split("=") for word in logs.split()[-1].split(","))
    assert labels["jobset.sigs.k8s.io/replicatedjob-name"] in [one["name"] for one in jobset["spec"]["replicatedJobs"]]
    assert shapes.fits(labels["jobset.sigs.k8s.io/jobset-name"], jobset["metadata"]["name"], {}), block.place


def the_claim(page):
    """The volume that the manifest of the page's own command asks for, by its name and its modes."""
    block = page.take("apiVersion: v1\nkind: PersistentVolumeClaim")
    claim = yaml.safe_load(block.text)
    *_, jobset = yaml.safe_load_all((page.place().folder / "manifest.yaml").read_text())
    volumes = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["volumes"]
    assert claim["metadata"]["name"] in [one["persistentVolumeClaim"]["claimName"] for one in volumes
                                         if "persistentVolumeClaim" in one], block.place
    published = json.loads(gzip.decompress(
        (pathlib.Path(page.tools.root) / "tests/app/jobset.schema.json.gz").read_bytes()))
    jsonschema.Draft4Validator(claim_schema(published)).validate(claim["spec"])


def claim_schema(schema):
    """That of a claim's spec, which stands within that of a pod's volumes."""
    if isinstance(schema, dict):
        if "volumeClaimTemplate" in schema:
            return schema["volumeClaimTemplate"]["properties"]["spec"] | {"additionalProperties": False}
        schema = list(schema.values())
    found = (claim_schema(part) for part in schema) if isinstance(schema, list) else ()
    return next(filter(None, found), None)


def by_hand(page):
    """Both on this host: the address is the loopback's, the port any."""
    first, second = page.take("muster train jobs/gpt.yaml --workers 2 --set workers.listen"), page.take("muster worker")
    (launch,), (join,) = place.commands_of(first), place.commands_of(second)
    assert launch.count("10.0.0.5:29400") == 1, first.place
    reader = page.place()
    local = launch.replace("10.0.0.5:29400", "127.0.0.1:0")
    launcher = reader.start("exec " + reader.shortened(local, ("training.max_steps=1000000", "evaluation.every=end")))
    key = reader.folder / "runs/gpt/latest/join.key"
    runs.wait_for(key.exists, "the key")
    worker = reader.start(f"exec {join}")
    runs.wait_for_newcomer(key.parent, 2)
    launcher.send_signal(signal.SIGTERM)
    for process, code in ((launcher, 143), (worker, 0)):
        output, _ = process.communicate(timeout=runs.DEADLINE)
        assert process.returncode == code, output


def play(page):
    by_ssh(page)
    started_with_others(page)
    by_slurm(page)
    by_kubernetes(page)
    the_claim(page)
    by_hand(page)
    assert {"app.submit", "app.submit_k8s", "app.manifests"} <= elsewhere.tests_of(page.tools.build)
