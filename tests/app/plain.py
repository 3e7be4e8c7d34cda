"""A training loop of one's own (docs/loop.md). examples/plain: the loop and the same with muster differ in the five lines
that the docs show, and come to the same losses at any number of processes; where one of these dies, or has fewer batches
than the others, these are told which and where, and all end."""
import argparse
import array
import difflib
import hashlib
import pathlib
import re
import signal
import socket
import subprocess
import tempfile

parser = argparse.ArgumentParser()
for name in ("--muster", "--programs", "--loop", "--root"):
    parser.add_argument(name, required=True)
arguments = parser.parse_args()
PROGRAMS = pathlib.Path(arguments.programs)
ROOT = pathlib.Path(arguments.root)


def run(*words, code=0):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == code, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def launch(size, *words, code=0):
    return run(arguments.muster, "launch", "-n", size, *words, code=code)


def the_docs_show_the_five_lines():
    plain, parallel = [(ROOT / "examples/plain" / name).read_text().splitlines() for name in ("plain.cc", "parallel.cc")]
    lines = list(difflib.unified_diff(plain, parallel, n=1, lineterm=""))[2:]
    assert sum(line.startswith("+") for line in lines) <= 5, lines
    shown = re.search(r"```diff\n(.*?)```", (ROOT / "docs/loop.md").read_text(), re.DOTALL).group(1).splitlines()
    assert shown == ["@@" if line.startswith("@@") else line for line in lines], "\n".join(lines)


def losses(text):
    return [float(line.split()[1]) for line in text.splitlines()]


def the_same_losses():
    wanted = run(PROGRAMS / "plain").stdout
    assert len(losses(wanted)) == 60 and losses(wanted)[-1] < losses(wanted)[0] / 4, wanted
    alone = run(PROGRAMS / "parallel")
    assert alone.stdout == wanted, "a world of one is the plain loop"
    assert "a world of one process" in alone.stderr, alone.stderr
    for size in (1, 2, 3):
        done = launch(size, PROGRAMS / "parallel")
        processes = "one process" if size == 1 else f"{size} processes"
        assert f"started by muster launch: a world of {processes}" in done.stderr, done.stderr
        worst = max(abs(a - b) / b for a, b in zip(losses(done.stdout), losses(wanted), strict=True))
        assert worst < 1e-4, (size, worst)


def weights(size, *words):
    """Of all ranks, which have the same."""
    with tempfile.TemporaryDirectory() as folder:
        launch(size, arguments.loop, folder, *words)
        found = [path.read_bytes() for path in sorted(pathlib.Path(folder).iterdir())]
    assert len(found) == size and len(set(found)) == 1, f"{size} ranks have {len(set(found))} kinds of weights"
    return found[0]


def the_same_weights():
    alone = weights(1)
    for size in (2, 3):
        found = weights(size)
        assert weights(size) == found, "the same processes, other bits"
        assert weights(1, f"accumulate={size}") == found, "one process that accumulates the parts has other bits"
        pairs = zip(array.array("f", found), array.array("f", alone), strict=True)
        worst = max(abs(a - b) for a, b in pairs)
        assert worst < 1e-6, (size, worst)


def goes_on_from_checkpoints():
    with tempfile.TemporaryDirectory() as folder:
        ends = [launch(size, PROGRAMS / "resumable", f"{folder}/{size}").stdout for size in (1, 2, 3)]
        for path in pathlib.Path(folder).glob("2/step-00000040*"):
            (path / "manifest.json").unlink()  # as if the run had ended before
        ends.append(launch(3, PROGRAMS / "resumable", f"{folder}/2").stdout)
    ends = [re.fullmatch(r"step 40: loss (\S+)\n", end).group(1) for end in ends]
    assert max(map(float, ends)) - min(map(float, ends)) < 1e-6, ends


def checkpoints_of_another_model_are_left_alone():
    with tempfile.TemporaryDirectory() as folder:
        run(PROGRAMS / "resumable", folder)
        [newest] = pathlib.Path(folder).glob("step-00000040*/manifest.json")
        body = newest.read_text().split("\n", 1)[1].replace('"0.weight"', '"first.weight"')
        newest.write_text(f'{{"sha256": "{hashlib.sha256(body.encode()).hexdigest()}",\n{body}')
        before = sorted(path.name for path in pathlib.Path(folder).iterdir())
        told = run(PROGRAMS / "resumable", folder, code=-signal.SIGABRT).stderr
        assert "`first.weight` is in the checkpoint only" in told, told
        assert sorted(path.name for path in pathlib.Path(folder).iterdir()) == before, "it began anew"


def a_death_ends_all():
    with tempfile.TemporaryDirectory() as folder:
        told = launch(3, arguments.loop, folder, "kill=10", code=1).stderr
        assert not list(pathlib.Path(folder).iterdir()), "somebody went on"
    assert re.search(r"^error: rank 1 on .* \(pid \d+\): killed by SIGKILL$", told, re.MULTILINE), told
    for rank in (0, 2):
        pattern = rf"\[world\] rank {rank}, in backward\(\) 11, reducing gradients: .*"
        pattern += rf"the culprit is rank 1 \(pid \d+ on {re.escape(socket.gethostname())}\)"
        assert re.search(pattern, told), (rank, told)


def fewer_batches_are_told():
    with tempfile.TemporaryDirectory() as folder:
        told = launch(2, arguments.loop, folder, "steps1=12", code=1).stderr
    assert "[world] rank 0, in backward() 13, reducing gradients" in told, told
    assert "has come to its end after 12 backward() with synchronisation" in told, told
    assert "the same number of batches" in told, told


for scenario in (the_docs_show_the_five_lines, the_same_losses, the_same_weights, goes_on_from_checkpoints,
                 checkpoints_of_another_model_are_left_alone, a_death_ends_all, fewer_batches_are_told):
    scenario()
    print(f"ok  {scenario.__name__}", flush=True)
