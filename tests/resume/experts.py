"""Experts that lie on several workers: the same weights and state as when every worker holds all of them, after a
death as well, and a checkpoint of the one goes on as the other."""
import runs

EXPERT = runs.settings("strategy.type=expert")
TWO = runs.settings("strategy.type=expert", "strategy.expert=2")
MOE = runs.settings("model.type=moe", "model.body=gpt", "model.num_experts=4")
PARTS = runs.settings("strategy.type=tensor", "strategy.tensor=2")
STAGES = runs.settings("strategy.mesh.pipeline=2", "strategy.mesh.expert=2")
DEALT_PARTS = runs.settings("strategy.mesh.tensor=2", "strategy.mesh.expert=2")
STEPS = 40

arguments = runs.arguments()
with runs.workplace() as folder:
    runs.write_data(folder)
    job = runs.write_job(folder, "gpt", steps=STEPS)

    def train(workers, *flags):
        runs.train(arguments.muster, job, "--workers", str(workers), *MOE, *flags)
        run = runs.latest(folder)
        return runs.weights(run, STEPS), runs.evaluations(run)

    def check_resumes(wanted, *pairs):
        for before, after in pairs:
            run = runs.killed_after(arguments.muster, job, folder, STEPS // 2, before[0], *MOE, *before[1])
            runs.train(arguments.muster, job, "--workers", str(after[0]), *MOE, *after[1], "--resume")
            assert runs.weights(run, STEPS) == wanted, f"{before}, then {after}: other weights"
            print(f"{before}, killed, then {after}: same", flush=True)

    expected = train(1)
    for workers, flags in ((2, EXPERT), (4, EXPERT), (4, TWO), (4, (*TWO, *runs.settings("training.recompute=[layer*]"))),
                           (4, STAGES), (4, (*STAGES, *runs.settings("strategy.schedule=zb_h1")))):
        assert train(workers, *flags) == expected, f"{workers} workers, {flags}: other weights"
        print(f"{workers} workers, {' '.join(flags)}: same", flush=True)
    assert train(2, *EXPERT, "--set", "seed=6") != expected, "the seed changes nothing"

    check_resumes(expected[0], ((2, EXPERT), (1, ())), ((1, ()), (4, TWO)), ((4, TWO), (2, EXPERT)),
                  ((4, STAGES), (2, EXPERT)), ((1, ()), (4, STAGES)))

    in_parts = train(2, *PARTS)
    assert train(4, *DEALT_PARTS) == in_parts, "experts in parts, dealt: other weights"
    check_resumes(in_parts[0], ((4, DEALT_PARTS), (4, DEALT_PARTS)), ((2, PARTS), (4, DEALT_PARTS)))
