"""docs/inside.md: its pictures are of classes and functions that there are, and its tree is the one of comm/sum_tree.h."""
import pathlib
import re


def sources(page, ending):
    return "".join(path.read_text() for path in sorted((pathlib.Path(page.tools.root) / "muster").rglob(f"*{ending}")))


def classes_are_there(page, block):
    headers = sources(page, ".h")
    for name in re.findall(r"\b[A-Z][a-z]\w+", block.text):
        assert re.search(rf"\b(class|struct) {name}\b", headers), f"{block.place}: no header has a class {name}"
    for name in re.findall(r"\b([a-z_]+)\(\)", block.text):
        assert re.search(rf"\b{name}\(", headers), f"{block.place}: no header has a function {name}()"


def methods_are_there(page):
    code, headers = sources(page, ".cc"), sources(page, ".h")
    for number, line in enumerate(page.text.splitlines(), 1):
        for owner, name in re.findall(r"\b([A-Z]\w+)::(\w+)", line):
            pure = re.search(rf"class {owner}\b.*?\bvirtual [^;]*\b{name}\(.*?\n}};", headers, re.DOTALL)
            assert f"{owner}::{name}(" in code or pure, f"{page.name}:{number}: there is no {owner}::{name}"


def even_share(total, parts):
    """Sizes differ by at most one, the larger first."""
    return [total // parts + (index < total % parts) for index in range(parts)]


def whole_subtrees(begin, end, own):
    """Of the tree over [begin, end), those whose leaves are all in `own`; it splits at the largest power of two."""
    if set(range(begin, end)) <= own:
        return [(begin, end)]
    if not own & set(range(begin, end)):
        return []
    middle = begin + (1 << (end - begin - 1).bit_length() - 1)
    return whole_subtrees(begin, middle, own) + whole_subtrees(middle, end, own)


def tree(page):
    picture, parts = page.take("slice    0"), page.take("worker 0:")
    slices, owners = ([int(word) for word in line.split()[1:]] for line in picture.lines[:2])
    workers = max(owners) + 1
    assert slices == list(range(len(slices))), f"{picture.place}: {slices}"
    assert [owners.count(worker) for worker in range(workers)] == even_share(len(slices), workers), \
        f"{picture.place}: slices are not dealt out so"
    wanted = []
    for worker in range(workers):
        found = whole_subtrees(0, len(slices), {leaf for leaf, owner in enumerate(owners) if owner == worker})
        wanted.append(f"worker {worker}: " + ", ".join(f"{a}-{b - 1}" if b - a > 1 else f"{a}" for a, b in found))
    assert parts.lines == wanted, f"{parts.place}: it should be\n" + "\n".join(wanted)


def play(page):
    for beginning in ("muster train ", "Member: join"):
        classes_are_there(page, page.take(beginning))
    methods_are_there(page)
    tree(page)
