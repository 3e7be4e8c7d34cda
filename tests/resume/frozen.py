"""A worker that hangs is missed: which one, what it was at when it froze, and what the others wait for is told."""
import re
import signal

import runs


def freeze(muster, folder):
    """Where it froze."""
    job = runs.write_job(folder, "gpt", steps=1_000_000)  # whose passes take most of a step
    process = runs.start(muster, job, "--workers", "3", "--set", "workers.min_workers=3",
                         "--set", "workers.max_restarts=0")
    run = runs.wait_for_step(process, folder, 30)
    workers = runs.workers_of(process)
    runs.kill(workers[1], signal.SIGSTOP)
    code, output = runs.finish(process)
    assert code == 1, f"exit code {code}:\n{output}"
    for fragment in ("worker 1", "silent", "--resume", "its process is stopped (SIGSTOP); it was at step "):
        assert fragment in output, f"no {fragment!r} in:\n{output}"
    waited = re.search(r"workers? [02, ]+ ha(s|ve) waited \S+ s in \S.*; worker 1 does not answer", output)
    assert waited, f"nobody says where the others wait for worker 1:\n{output}"
    runs.wait_for(lambda: not any(runs.alive(pid) for pid in workers.values()), "the end of every worker")
    runs.no_memory_stays(folder)
    return runs.place_of(output, 1, run)


def where_it_froze_is_told(muster, folder):
    """The moment may be one between two passes, but not again and again."""
    places = [freeze(muster, folder)]
    while places[-1] == runs.BETWEEN and len(places) < 6:
        places.append(freeze(muster, folder))
    assert runs.PLACE.fullmatch(places[-1]), places


runs.play([where_it_froze_is_told], runs.arguments().muster)
