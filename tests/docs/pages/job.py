"""docs/job.md: the smallest job."""
import jobs


def play(page):
    jobs.valid(page, page.take("model:"))
