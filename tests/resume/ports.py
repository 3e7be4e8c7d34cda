"""Ports for programs that have to be told theirs before they are started."""
import contextlib
import random
import socket


def free_ports(count):
    """Of those that the system gives to nobody by itself, as it might before they are used."""
    found = []
    for port in random.sample(range(61000, 65500), 4500):
        with socket.socket() as each, contextlib.suppress(OSError):
            each.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError(f"fewer than {count} free ports")
