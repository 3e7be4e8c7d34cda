"""Workers come and go as a file, the time of day or the throughput asks for, and leave when their host
is wanted back, all of them when it is the launcher's; the weights stay the same."""
import collections
import http.server
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import runs
from join import Host, check_end, members, wait_for_members

SCALING = ("workers.min_workers=1", "workers.max_workers=3", "autoscaling.every=200ms")


def start(muster, folder, name, workers, *settings, **options):
    process = runs.endless(muster, folder, name, "--workers", str(workers), *runs.settings(*settings), **options)
    return process, runs.wait_for_step(process, folder, 1, name)


def by_a_file(muster, folder):
    wanted, told = folder / "wanted", folder / "told"
    with open(told, "w") as printed:
        process, run = start(muster, folder, "probe", 1, *SCALING, "autoscaling.policy=probe",
                             f"autoscaling.file={wanted}", stdout=printed)
    for count in (3, 1, 2):
        wanted.write_text(f"{count}\n")
        wait_for_members(run, count)
    wanted.write_text("many\n")
    runs.wait_for(lambda: 'answers "many"; expected a number' in told.read_text(), "that this is no number")
    check_end(process, muster, folder, run)
    output = told.read_text()
    assert "from 1 to 3 workers" in output and "from 3 to 1 workers" in output, output


class Queue(http.server.BaseHTTPRequestHandler):
    """Says how many workers its length is worth."""
    workers = 3

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{self.workers}\n".encode())

    def log_message(self, *_):
        pass


def by_a_command(muster, folder):
    price = folder / "price"
    price.write_text("3")
    process, run = start(muster, folder, "command", 1, *SCALING, "autoscaling.policy=probe",
                         f"autoscaling.command=cat {price}")
    wait_for_members(run, 3)
    price.write_text("1")
    wait_for_members(run, 1)
    assert "from 3 to 1 workers" in check_end(process, muster, folder, run)


def by_an_address(muster, folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Queue)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    process, run = start(muster, folder, "address", 1, *SCALING, "autoscaling.policy=probe",
                         f"autoscaling.url=http://127.0.0.1:{server.server_address[1]}/queue")
    wait_for_members(run, 3)
    Queue.workers = 2
    wait_for_members(run, 2)
    assert "from 3 to 2 workers" in check_end(process, muster, folder, run)
    server.shutdown()


def by_the_time_of_day(muster, folder):
    process, run = start(muster, folder, "daily", 1, *SCALING, "autoscaling.policy=schedule",
                         "autoscaling.schedule=00:00=2")
    wait_for_members(run, 2)
    assert "as planned for" in check_end(process, muster, folder, run)


def by_throughput(muster, folder):
    """Whether more pay depends on the machine; that one more is tried does not."""
    process, run = start(muster, folder, "throughput", 1, *SCALING, "autoscaling.policy=throughput")
    runs.wait_for(lambda: 2 in members(run), "one more")  # it may soon be one less again, or two
    assert "steps a second; trying one more" in check_end(process, muster, folder, run)


def by_a_request(muster, folder):
    """A command is to have workers started that this launcher does not start itself; those that are too many leave."""
    wanted, calls = folder / "requested", folder / "calls"
    wanted.write_text("1\n")
    numbers = "$MUSTER_REQUEST_PRESENT $MUSTER_REQUEST_WANTED $MUSTER_REQUEST_MORE"
    request = f"echo {numbers} $MUSTER_JOIN_CREDENTIALS >>{calls}"
    process, run = start(muster, folder, "request", 1, *SCALING, "autoscaling.policy=probe",
                         f"autoscaling.file={wanted}", "workers.listen=127.0.0.1:0",
                         "autoscaling.request_every=1h", f"autoscaling.request={request}")
    wanted.write_text("2\n")
    runs.wait_for(lambda: calls.read_text().endswith("\n"), "the request")
    *numbers, key = calls.read_text().split()
    assert numbers == ["1", "2", "1"] and pathlib.Path(key).samefile(run / "join.key"), calls.read_text()
    guest = Host(muster, folder, key)
    wait_for_members(run, 2)
    wanted.write_text("1\n")
    wait_for_members(run, 1)
    assert guest.wait() == 0, guest.output()
    wanted.write_text("3\n")  # it was asked less than an hour ago
    runs.goes_on(process, run)
    output = check_end(process, muster, folder, run)
    assert len(calls.read_text().splitlines()) == 1, calls.read_text()
    assert "autoscaling.request for 2 workers: exit status 0; it wrote nothing" in output, output
    assert "from 1 to 2 workers, which autoscaling.request is to start: file" in output, output
    assert "worker 1 was told to go and leaves with the step" in output, output


def check_host_goes(process, run, who):
    """All stop with a checkpoint, since the launcher is on the host that is wanted back; `who` says so."""
    code, output = runs.finish(process)
    assert code == 143, f"exit code {code}:\n{output}"
    assert output.count(f"[WARN] pre-emption notice ({who}") == 1, output
    assert "muster train with it: all stop after the step, with a checkpoint" in output, output
    assert "was told to go" not in output, output
    saved = max(int(path.name[5:13]) for path in run.glob("checkpoints/step-*"))
    assert saved >= max(row["step"] for row in runs.rows(run)), f"saved {saved} is not the last step:\n{output}"


def of_the_launchers_host(muster, folder):
    """None of its workers leaves before the others; what was trained is there to go on from."""
    notice = folder / "launcher-goes"
    process, run = start(muster, folder, "notice", 3, "preemption.every=100ms", "checkpoint.every=never",
                         f"preemption.command=test -e {notice}")
    runs.goes_on(process, run)
    notice.touch()
    check_host_goes(process, run, "command): ")
    assert members(run) == [3], members(run)
    process = runs.endless(muster, folder, "notice", "--resume-from", str(run), "--workers", "2")
    runs.goes_on(process, run)
    runs.stop(muster, process, folder, run)


def with_guests(muster, folder):
    """They do not train on without their launcher. Each looks on its own host: here in the folder where it was started."""
    here, other = folder / "launcher's host", folder / "guest's host"
    here.mkdir()
    other.mkdir()
    muster = pathlib.Path(muster).resolve()
    process = runs.endless(muster, folder, "notice-guests", "--workers", "1", *runs.settings(
        "preemption.every=100ms", "preemption.file=wanted-back", "workers.max_workers=2",
        "workers.listen=127.0.0.1:0"), cwd=here)
    run = runs.wait_for_step(process, folder, 1, "notice-guests")
    guest = Host(muster, folder, run / "join.key", before=("env", "-C", str(other)))
    wait_for_members(run, 2)
    runs.goes_on(process, run)
    (here / "wanted-back").touch()
    check_host_goes(process, run, "file wanted-back): ")
    guest.wait()
    assert "pre-emption" not in guest.output(), guest.output()


def by_a_file_of_the_host(muster, folder):
    """Each worker looks on its own host: here in the folder in which it was started."""
    other = folder / "other host"
    other.mkdir()
    process, run = start(muster, folder, "notice-file", 1, "preemption.every=100ms", "preemption.file=wanted-back",
                         "workers.max_workers=2", "workers.listen=127.0.0.1:0")
    guest = Host(pathlib.Path(muster).resolve(), folder, run / "join.key", before=("env", "-C", str(other)))
    wait_for_members(run, 2)
    (other / "wanted-back").touch()
    assert guest.wait() == 0, guest.output()
    wait_for_members(run, 1)
    assert "pre-emption notice (file wanted-back): leaving with the step" in guest.output(), guest.output()
    assert "worker 1 was told to go and leaves with the step" in check_end(process, muster, folder, run)


class Metadata(http.server.BaseHTTPRequestHandler):
    """As Google's: TRUE, FALSE or NONE, for whoever sends the right header; how often each was answered."""
    answer = "FALSE"
    answers = collections.Counter()

    def do_GET(self):
        status = 200 if self.headers["Metadata-Flavor"] == "Google" else 403
        self.send_response(status)
        self.end_headers()
        with METADATA:
            Metadata.answers[self.answer] += 1
        self.wfile.write(self.answer.encode())

    def log_message(self, *_):
        pass


METADATA = threading.Lock()


def serve_metadata():
    """A server of it, and the settings of a job that asks there."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/computeMetadata/v1/instance/preempted"
    return server, ("preemption.every=100ms", f"preemption.url={url}")


def by_an_answer(muster, folder):
    """That there is nothing is no notice, however it is said; then there is one, and a checkpoint to go on from."""
    server, settings = serve_metadata()
    process, run = start(muster, folder, "all", 2, *settings)
    for nothing in ("FALSE", "NONE", "", '{"DocumentIncarnation":1,"Events":[]}'):
        Metadata.answer = nothing
        runs.wait_for(lambda: Metadata.answers[nothing] >= 2, f"two answers of `{nothing}`")
    runs.goes_on(process, run)
    Metadata.answer = "TRUE"
    check_host_goes(process, run, "http://127.0.0.1:")
    Metadata.answer = "FALSE"
    process = runs.endless(muster, folder, "all", "--resume-from", str(run), "--workers", "2", *runs.settings(*settings))
    runs.goes_on(process, run)
    runs.stop(muster, process, folder, run)
    server.shutdown()


if __name__ == "__main__":
    runs.play((by_a_file, by_a_command, by_an_address, by_the_time_of_day, by_throughput, by_a_request,
               of_the_launchers_host, with_guests, by_a_file_of_the_host, by_an_answer), runs.arguments().muster)
