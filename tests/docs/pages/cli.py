"""docs/cli.md: what errors look like."""
import shapes

JOB = """# as in README.md
model: {type: mlp}
data:
  type: idx
  path: /usr/share/datasets/fashion-mnist
optimizer:
  learning_rat: 0.1
"""


def play(page):
    block = page.take("job.yaml:7:3:")
    page.place().write("job.yaml", JOB)
    shapes.compare(block.place, block.lines, page.place().run("muster validate job.yaml", code=2))
    block = page.take("training.max_steps: expected")
    page.place().write("job.yaml", JOB.replace("rat:", "rate:"))
    told = page.place().run("muster validate job.yaml --set training.max_steps=many", code=2)
    shapes.compare(block.place, block.lines, told)
