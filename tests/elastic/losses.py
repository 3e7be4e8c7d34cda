"""What is told of a worker that was lost, in one line: who, on which host, by what, where, and what becomes of the job.
For the tests of this folder and of chaos."""
import re
import socket

HOST = re.escape(socket.gethostname())
IS_ONE = re.compile(r"(?:\[WARN\] )?worker (\d+)\b.* (?:is|are) left, ")
BY = {"SIGKILL": "killed by SIGKILL", "SIGSTOP": "was silent for too long"}
# Where one is that trains; what it waits in may follow.
TRAINS = r"at step \d+, (?:waiting for data|computing and reducing gradients|updating|evaluating|saving a checkpoint|" \
    r"finishing the checkpoint|comparing \w+|measuring what the model costs)(?:, in \S.*)?"
# The same of one that may have just come, or be on its way into the next generation.
ANYWHERE = r"(?:at step \d+(?:, \S.*)?|as it started)"


def lines_of(texts):
    return [text for text in texts if IS_ONE.match(text)]


def line_of(texts, worker, pid):
    """That of this process, if there is one."""
    mine = [text for text in lines_of(texts) if re.match(rf"(?:\[WARN\] )?worker {worker} \(pid {pid} on ", text)]
    assert len(mine) <= 1, mine
    return mine[0] if mine else None


def check(text, worker, pid, told, where, became, output="", host=HOST):
    """That `text` says so; `told`, `where`, `became` and `host` are patterns. The step that the worker was at; none: it had
    not begun. `output` is shown where it is otherwise."""
    expected = rf"(?:\[WARN\] )?worker {worker} \(pid {pid} on {host}\) {told} ({ANYWHERE}); {became}(?:; its log: .*)?"
    found = re.fullmatch(expected, text)
    assert found, f"{text!r} is not {expected!r}\n{output}"
    assert re.fullmatch(where, found[1]), f"{found[1]!r} is not {where!r}\n{output}"
    step = re.match(r"at step (\d+)", found[1])
    return int(step[1]) if step else None
