"""A standby takes the place of a worker that dies: the step goes on, the weights stay the same."""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs

STEPS = 300


def main():
    muster = runs.arguments().muster
    with runs.workplace() as folder:
        runs.write_data(folder)
        for model in ("resnet", "gpt"):
            expected = runs.undisturbed(muster, folder, model, STEPS)
            job = runs.write_job(folder, model, steps=STEPS)
            for victim in (0, 1):
                name = f"{model}-{victim}"
                process = runs.start(muster, job, "--workers", "2", "--set", "workers.standbys=1", "--set",
                                     "workers.max_restarts=0", "--set", f"run_folder={folder / name}")
                run = runs.wait_for_step(process, folder, 60, name)
                runs.kill(runs.workers_of(process)[victim])
                code, output = runs.finish(process)
                assert code == 0, f"exit code {code}:\n{output}"
                assert "2 workers × " in output and "1 standby" in output, output
                assert "generation 2 of 2 workers" in output, output
                assert runs.weights(run, STEPS) == expected, "other weights"
                audit = subprocess.run([muster, "data", "audit", "--json", str(run)], capture_output=True)
                assert json.loads(audit.stdout)["well"], audit.stdout


if __name__ == "__main__":
    main()
