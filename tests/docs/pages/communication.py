"""docs/communication.md: the contract in C++, and what collectives take on this machine."""
import place
import source_code

LARGEST = "1KiB-64MiB"


def short(command):
    """For less time, and tensors that are less large."""
    sizes = "" if "--sizes" in command else " --sizes 1KiB-64KiB"
    return f"{command.replace(LARGEST, '1KiB-64KiB')} --time '1 ms'{sizes}"


def play(page):
    source_code.compiles(page, page.take("NativeOptions options;"), "communication.cc", "muster_comm_test")
    block = page.take("muster bench comm")
    for command in place.commands_of(block):
        if command.startswith("mpirun"):
            continue  # app.over_mpi runs it
        told = page.place().run(short(command))
        assert "all_reduce" in told and "GB/s" in told, f"{block.place}: `{command}` prints\n{told}"
    (command,) = place.commands_of(page.take("muster launch --nnodes 2"))
    assert command.count("--node-rank 0") == 1, command
    told = place.on_two_hosts(page, [short(command), short(command.replace("--node-rank 0", "--node-rank 1"))])
    assert "GB/s" in told[0], told
