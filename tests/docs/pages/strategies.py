"""docs/strategies.md: its parts of job files are valid, and one comparison is made."""
import place
import shapes

# The rate is that of the steps after the first ten.
SHORT = ("training.max_steps=14", "evaluation.every=end")


def play(page):
    command, shown = page.take("muster compare jobs/gpt.yaml"), page.take("loss  tokens/s")
    shapes.compare(shown.place, shown.lines, place.type_in(page, command, SHORT))
    (page.place().folder / "book.txt").symlink_to("data/kjv.txt")  # of a part that the page has of a job file
