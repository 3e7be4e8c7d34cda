"""docs/precision.md: 16 bits, and a loss scale that is too high."""
import shlex

import jobs
import place
import runs
import shapes


def play(page):
    for beginning in ("training: {precision: bf16}", "training: {precision: bf16, reduce_precision: bf16}"):
        jobs.trained_part(page, page.take(beginning))
    block = page.take("[WARN] step 3 overflows")
    flags = runs.settings("training.precision=fp16", "training.loss_scale.init_scale=1e30", *place.SHORT, "training.global_batch_size=8",
                          "data.context_length=8", "generate.length=1", "training.max_steps=1")
    told = page.place().run("muster train jobs/gpt.yaml " + shlex.join(flags))
    shapes.compare(block.place, block.lines, told, {r"layer2\.expand\.weight": r"[\w.]+"})
