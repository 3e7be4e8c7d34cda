"""docs/context.md: shared sequences, and the balance of the ring in a picture."""
import place

WORKERS = 3


def cell(queries, keys):
    return "■" if keys < queries else "◣" if keys == queries else "·"


def row(head, queries):
    return f"{head}  queries {queries}     " + "   ".join(cell(queries, keys) for keys in range(2 * WORKERS))


def picture():
    """Worker r has the runs r and 2N - 1 - r; what each of them meets of the keys before it."""
    yield f"            keys of run {'   '.join(map(str, range(2 * WORKERS)))}      pairs of runs"
    for worker in range(WORKERS):
        first, last = row(f"worker {worker}", worker), row(" " * 8, 2 * WORKERS - 1 - worker)
        whole, cut = (first + last).count("■"), (first + last).count("◣")
        yield first
        yield f"{last}      {whole} ■  and  {cut} ◣"


def play(page):
    place.type_in(page, page.take("muster train jobs/gpt.yaml"))
    block = page.take("keys of run")
    assert block.lines == list(picture()), f"{block.place}: it should be\n" + "\n".join(picture())
