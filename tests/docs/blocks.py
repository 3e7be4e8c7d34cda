"""The code blocks of a page of Markdown: between fences, or indented by four columns beyond the text around them."""
import dataclasses
import re

FENCE = re.compile(r"^( *)(`{3,}|~{3,})\s*([\w+-]*)")
ITEM = re.compile(r"^( *(?:[-*+]|\d+[.)]) +)\S")


@dataclasses.dataclass
class Block:
    """Lines of a page that are code, or what a program prints; `line` is the number of the first of them."""
    page: str
    line: int
    language: str
    lines: list

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"

    @property
    def place(self):
        return f"{self.page}:{self.line}"


def fenced(page, lines, at):
    """The block whose opening fence is in line `at`, and the first line behind it."""
    indent, ticks, language = FENCE.match(lines[at]).groups()
    closing = re.compile(rf"^ *{ticks[0]}{{{len(ticks)},}} *$")
    end = next((i for i in range(at + 1, len(lines)) if closing.match(lines[i])), None)
    assert end is not None, f"{page}:{at + 1}: this block has no end"
    content = [line[len(indent):] if line.startswith(indent) else line for line in lines[at + 1:end]]
    return Block(page, at + 2, language, content), end + 1


def indented(page, lines, at, columns):
    """The block that begins with line `at`, and the first line behind it."""
    end = at
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" " * columns)):
        end += 1
    content = [line[columns:] for line in lines[at:end]]
    while not content[-1]:
        content.pop()
    return Block(page, at + 1, "", content), end


def blocks_of(page, text):
    """All of them, in the order of the page."""
    lines, found, at, text_at = text.split("\n"), [], 0, 0
    while at < len(lines):
        line = lines[at]
        if FENCE.match(line):
            block, at = fenced(page, lines, at)
            found.append(block)
            continue
        blank_before = at == 0 or not lines[at - 1].strip()
        if line.strip() and line.startswith(" " * (text_at + 4)) and blank_before:
            block, at = indented(page, lines, at, text_at + 4)
            found.append(block)
            continue
        if item := ITEM.match(line):
            text_at = len(item[1])
        elif line.strip() and not line.startswith(" "):
            text_at = 0
        at += 1
    return found
