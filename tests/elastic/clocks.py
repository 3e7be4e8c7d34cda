"""A worker of a host whose clock is another: it comes by TLS all the same, a warning says by how much, once, and nothing else
changes."""
import os
import pathlib
import re
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs
from join import Host, check_end, start, wait_for_members


def an_hour(library, way, sign, told):
    def scenario(muster, folder):
        process, run, key = start(muster, folder, way)
        same = Host(muster, folder, key)
        wait_for_members(run, 2)
        other = Host(muster, folder, key, env=os.environ | {"LD_PRELOAD": library, "MUSTER_CLOCK_AHEAD": f"{sign}3600"})
        wait_for_members(run, 3)
        output = check_end(process, muster, folder, run)
        assert same.wait() == 0 and other.wait() == 0, same.output() + other.output()
        warnings = re.findall(r"\[cluster/clocks\] the clock of (\S+) is (?:1 h|59 min).*? (ahead of|behind) this host's: ", output)
        assert warnings == [(socket.gethostname(), told)], f"{warnings} in:\n{output}"
    scenario.__name__ = f"an_hour_{way}"
    return scenario


if __name__ == "__main__":
    arguments = runs.arguments("--other-clock")
    here = str(pathlib.Path(arguments.other_clock).resolve())
    runs.play((an_hour(here, "ahead", "", "ahead of"), an_hour(here, "behind", "-", "behind")), arguments.muster)
