"""The jobs that muster init writes train as they are."""
import subprocess

import runs


def trains(muster, folder, data, told):
    job = folder / "first.yaml"
    made = subprocess.run([muster, "init", str(data), "-o", str(job)], capture_output=True, text=True, timeout=60)
    assert made.returncode == 0 and told in made.stdout, made
    output = runs.train(muster, job, "--workers", "2", *runs.settings("training.max_steps=3", "evaluation.every=end",
                                                                       f"run_folder={folder}/runs"))
    assert "\ndone after step 3 " in output, output
    job.unlink()


def images(muster, folder):
    trains(muster, folder, folder, "images of 1 × 14 × 14 in 10 classes")


def text(muster, folder):
    odd = folder / 'a: "book".txt'
    odd.write_bytes((folder / "text.txt").read_bytes() * 20)
    trains(muster, folder, odd, " of text\n")


def main():
    runs.play((images, text), runs.arguments().muster)


if __name__ == "__main__":
    main()
