"""The shipped jobs as they are, on 2 workers, learn what they promise: --goal quick (fashion), fashion or gpt. What is
demanded is the last evaluation that metrics.jsonl has, and that the end of the output says the same."""
import pathlib

import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMPT = "And it came to pass"  # of jobs/gpt.yaml
SAMPLE = "a sample of what the model writes:\n"


def learnt(folder, job, *flags):
    """What it printed, and its last evaluation."""
    output = runs.train(arguments.muster, ROOT / f"jobs/{job}.yaml", "--workers", "2", *flags,
                        *runs.settings("name=tiny", f"run_folder={folder}/runs"), cwd=ROOT)
    run = runs.latest(folder)
    last = [row for row in runs.rows(run) if "eval/loss" in row][-1]
    steps = max(row["step"] for row in runs.rows(run) if "train/loss" in row)
    assert last["step"] == steps, f"evaluated after step {last['step']} of {steps}\n{output}"
    return output, last


def accuracy(folder, least, *flags):
    output, last = learnt(folder, "fashion", *flags)
    found = last["eval/accuracy"]
    print(f"fashion {' '.join(flags)}: accuracy {found:.4f}", flush=True)
    assert found >= least, f"{found} instead of {least}\n{output}"
    ends_with(output, "validation accuracy", f"{100 * found:.2f} %")


def bits_per_byte(folder, most):
    output, last = learnt(folder, "gpt")
    found = last["eval/bits_per_byte"]
    print(f"gpt: {found:.4f} bits per byte", flush=True)
    assert found <= most, f"{found} instead of {most}\n{output}"
    ends_with(output, "validation bits per byte", f"{found:.4g}")
    assert SAMPLE in output, output
    sample = output.split(SAMPLE)[1]
    assert sample.startswith(PROMPT), sample
    written = sample[len(PROMPT):len(PROMPT) + 400]
    # Text, and not one letter again and again.
    assert len(set(written)) > 10 and len(written.split()) > 20, written


def ends_with(output, name, value):
    """One line of the end has both."""
    assert any(name in line and value in line for line in output.splitlines()[-30:]), f"no {name} {value} in:\n{output}"


GOALS = {"quick": lambda folder: accuracy(folder, 0.85, "--quick"),
         "fashion": lambda folder: accuracy(folder, 0.90),
         "gpt": lambda folder: bits_per_byte(folder, 2.3)}

arguments = runs.arguments("--goal")
# Bounds on a hang: whole jobs train for minutes on two cores.
runs.DEADLINE = 800 if arguments.goal == "quick" else 3400
with runs.workplace() as folder:
    GOALS[arguments.goal](folder)
