"""One command trains on several hosts, by the real ssh: the bits of one host; hosts that cannot take part are named
before anything begins; what dies, or is cut off, is named with its host, and nobody is left anywhere."""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import network
import runs
import sshd
from join import wait_for_members

SKIPPED = 77  # what CTest takes for it
TCP = "communication.transport=tcp"  # these hosts are one machine, whose memory they do not share
SETTINGS = runs.settings(TCP, "training.lanes=1")


class Stage:
    def __init__(self, muster, folder, keys):
        self.muster, self.folder, self.keys = muster, folder, keys
        self.work = folder / "jobs/work"
        self.work.mkdir(parents=True)

    def start(self, name, hosts, *flags, steps=10**6, model="mlp"):
        """From a folder in which the data lie by a path that begins there."""
        job = runs.write_job(self.folder, model, steps=steps, runs=name)
        return runs.start(self.muster, job, "--hosts", hosts, *runs.settings("data.path=../.."), *SETTINGS, *flags,
                          cwd=self.work, env=self.keys.environment)

    def endless(self, name, hosts, *flags):
        process = self.start(name, hosts, *runs.settings(*runs.UNTIL_STOPPED), *flags)
        return process, runs.wait_for_step(process, self.folder, 1, name)

    def stop(self, process, run, hosts):
        output = runs.stop(self.muster, process, self.folder, run)
        nobody_is_left(hosts)
        return output


def nobody_is_left(hosts):
    for host in hosts:
        runs.wait_for(lambda: not host.of_jobs(), f"the end of all on {host.name}")


def same_bits(stage, one, two):
    process = stage.start("bits", "localhost,one:2,two", "-x", "SAID=hello", steps=60)
    code, output = runs.finish(process)
    assert code == 0, output
    assert "1 worker here, 2 on one, 1 on two" in output, output
    run = runs.latest(stage.folder, "bits")
    assert runs.weights(run, 60) == runs.undisturbed(stage.muster, stage.folder, "mlp", 60, runs="alone"), output
    for rank in range(4):
        log = (run / f"logs/rank-{rank}.log").read_text()
        assert re.search(rf" rank {rank} of 4 in generation 1: pid ", log), f"rank {rank} logs\n{log}"
    assert not (run / "join.key").exists()
    nobody_is_left((one, two))


def named_in_the_job(stage, one, two):
    """Hosts in the job file: the same training; a run goes on where it was, and --hosts counts more."""
    job = runs.write_job(stage.folder, "mlp", steps=60, runs="named")
    job.write_text(job.read_text() + "workers: {hosts: [localhost, one:2, two]}\n")
    places = {"cwd": stage.work, "env": stage.keys.environment}
    common = (*runs.settings("data.path=../.."), *SETTINGS)
    code, output = runs.finish(runs.start(stage.muster, job, *common, **places))
    assert code == 0 and "1 worker here, 2 on one, 1 on two" in output, output
    run = runs.latest(stage.folder, "named")
    assert runs.weights(run, 60) == runs.weights(runs.latest(stage.folder, "alone"), 60), output
    nobody_is_left((one, two))
    for more, flags, told in ((80, ("--workers", "2"), "1 worker here, 1 on one"),
                              (100, ("--hosts", "two:1"), "0 workers here, 1 on two")):
        done = subprocess.run([stage.muster, "resume", run, *flags, *runs.settings(f"training.max_steps={more}")],
                              capture_output=True, text=True, timeout=runs.DEADLINE, **places)
        output = done.stdout + done.stderr
        assert done.returncode == 0 and told in output and runs.weights(run, more), output
    nobody_is_left((one, two))


def carried(stage, one, two):
    """The working folder and chosen variables; the key is in no command line, and in nobody's environment who could
    have it from there. Ctrl-C reaches everybody."""
    os.environ["OF_THE_TEST"] = stage.keys.environment["OF_THE_TEST"] = "a 'b' $c\n"
    process, run = stage.endless("carried", "localhost,one,two", "-x", "OF_THE_TEST", "-x", "SAID=hello")
    for host in (one, two):
        [pid] = host.workers()
        assert pathlib.Path(os.readlink(f"/proc/{pid}/cwd")) == stage.work
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert b"OF_THE_TEST=a 'b' $c\n" in environment and b"SAID=hello" in environment, environment
        [key] = [each.split(b"=", 1)[1].decode() for each in environment if each.startswith(b"MUSTER_CREDENTIALS=")]
        for line in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                assert key not in line.read_text(errors="replace"), f"the key is in {line}"
            except OSError:
                continue
    output = stage.stop(process, run, (one, two))  # 130, a checkpoint with the bits of one worker
    assert "finishing the step" in output, output


def killed(stage, one, two):
    """Another one is started there."""
    process, run = stage.endless("killed", "localhost,one,two")
    [pid] = one.workers()
    runs.kill(pid)
    runs.wait_for(lambda: one.workers() not in ([], [pid]), "another worker on one")
    runs.wait_for_newcomer(run, 1)
    runs.goes_on(process, run)
    output = stage.stop(process, run, (one, two))
    assert re.search(rf"worker 1 \(pid {pid} on one\) killed by SIGKILL at step \d+, ({runs.DOING}); "
                     r"2 workers are left, going on", output), output
    assert "worker 1 is started anew" in output, output


def lost_session(stage, one, two):
    """What carries a worker ends, and it does so too; without restarts the others go on."""
    process, run = stage.endless("session", "localhost,one,two", *runs.settings("workers.max_restarts=0"))
    [session] = two.processes("sshd: trainer@notty")
    runs.kill(session)
    nobody_is_left((two,))
    runs.goes_on(process, run)
    output = stage.stop(process, run, (one, two))
    told = r"worker 2 \(pid \d+ on two\) lost its ssh session .*; 2 workers are left, going on"
    assert re.search(told, output), output


def cut_off(stage, one, two):
    """A host that nobody reaches any more: its workers end, though no word gets there."""
    process, run = stage.endless("cut", "localhost,one,two", *runs.settings(
        "workers.max_restarts=1", "workers.join_timeout=2 min", "communication.timeout=5 min"))  # so its silence is noticed first
    two.place.cut_off()
    nobody_is_left((two,))
    runs.goes_on(process, run)
    runs.wait_for(lambda: any("worker 2 on two lost its ssh session" in row["text"]
                              for row in runs.records(run, "notice")), "that it was tried to start it anew")
    two.place.bring_back()
    output = stage.stop(process, run, (one, two))
    assert re.search(r"worker 2 \(pid \d+ on two\) was silent for too long", output), output


def launcher_killed(stage, one, two):
    process, run = stage.endless("orphans", "localhost,one:2,two")
    process.kill()
    process.communicate(timeout=runs.DEADLINE)
    nobody_is_left((one, two))


def at_once(stage, one, two):
    """The second Ctrl-C does not wait for anybody."""
    process, run = stage.endless("twice", "localhost,one,two")
    [pid] = one.workers()
    os.kill(pid, signal.SIGSTOP)  # it will not come to the end of a step
    process.send_signal(signal.SIGINT)
    runs.wait_for(lambda: any("finishing the step" in row["text"] for row in runs.records(run, "notice")), "the first")
    time.sleep(0.3)  # a second one within 150 ms counts as the first
    process.send_signal(signal.SIGINT)
    code, output = runs.finish(process)
    assert code == 130, output
    nobody_is_left((one, two))


def at_the_start(stage, one, two):
    """While hosts are looked at, and while workers start."""
    process = stage.start("looking", "localhost,one,silent")
    runs.wait_for(lambda: children_of(process, "sleep"), "the look at the hosts")
    process.send_signal(signal.SIGINT)
    code, output = runs.finish(process)
    assert code == 130 and not (stage.folder / "looking").exists(), output
    process = stage.start("starting", "localhost,one:2,two")
    runs.wait_for(lambda: one.of_jobs() and two.of_jobs() and (stage.folder / "starting").exists(), "workers")
    process.send_signal(signal.SIGINT)
    code, output = runs.finish(process)
    assert code == 130, output
    nobody_is_left((one, two))


def children_of(process, name):
    found = []
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            head, rest = status.read_text().rsplit(")", 1)
            if int(rest.split()[1]) == process.pid and head.split("(", 1)[1] == name:
                found.append(int(status.parent.name))
    return found


def resumed(stage, one, two):
    """Where the run's folder is out of sight on the others, and on fewer hosts."""
    flags = runs.settings("schedule.type=constant", "schedule.warmup=0%")
    code, output = runs.finish(stage.start("again", "localhost,apart", *flags, steps=40))
    assert code == 0, output
    run = runs.latest(stage.folder, "again")
    code, output = runs.finish(stage.start("again", "localhost:2,one,apart", "--resume", *flags, steps=80))
    assert code == 0, output
    alone = runs.undisturbed(stage.muster, stage.folder, "mlp", 80, *flags, runs="whole")
    assert runs.weights(run, 80) == alone, output
    cut = runs.settings("strategy.type=sharded")
    code, output = runs.finish(stage.start("again", "localhost,apart", *cut, steps=40))
    assert code != 0 and "does not see the run's folder" in output and "shared file system" in output, output


def sharded(stage, one, two):
    """Every rank keeps a part of the state, and one that dies is replaced on its host; nobody trains here."""
    code, output = runs.finish(stage.start("parts", "one,two", *runs.settings("strategy.type=sharded"), steps=60))
    assert code == 0 and "0 workers here, 1 on one, 1 on two" in output, output
    run = runs.latest(stage.folder, "parts")
    assert runs.weights(run, 60) == runs.undisturbed(stage.muster, stage.folder, "mlp", 60, runs="alone-parts"), output
    nobody_is_left((one, two))


def standby_wanted_back(stage, one, two):
    """A standby's host is wanted back: it goes at once, which is nobody's loss, and the others train on as they are."""
    notice = stage.folder / "two-goes"
    asked = f"test -e {notice} && grep -qwF {two.place.address} /proc/net/fib_trie"
    process, run = stage.endless("wanted-back", "localhost,one,two", *runs.settings(
        "strategy.type=sharded", "workers.standbys=1", "preemption.every=100ms", f"preemption.command={asked}"))
    runs.goes_on(process, run)
    assert two.workers(), "no standby"
    notice.touch()
    nobody_is_left((two,))
    runs.goes_on(process, run)
    output = stage.stop(process, run, (one, two))
    assert "worker 2 was told to go" in output, output
    assert "generation 2" not in output and "is started anew" not in output and "killed" not in output, output


def scaled(stage, one, two):
    """Places are filled in their order, and the last ones become free; a host that is away is left alone, tried again,
    and what it has missed is no worker of others."""
    wanted = stage.folder / "wanted"
    scaling = ("workers.count=1", "workers.min_workers=1", "autoscaling.every=200ms", "autoscaling.policy=probe",
               f"autoscaling.file={wanted}")
    process, run = stage.endless("scaled", "localhost,one:2,two", *runs.settings(*scaling, "workers.max_workers=4"))
    for count, on_one, on_two in ((4, 2, 1), (2, 1, 0), (3, 2, 0)):
        wanted.write_text(f"{count}\n")
        wait_for_members(run, count)
        runs.wait_for(lambda: (len(one.workers()), len(two.workers())) == (on_one, on_two),
                      f"{on_one} on one and {on_two} on two")
    two.place.cut_off()
    wanted.write_text("4\n")
    runs.wait_for(lambda: any("no worker has come up on two" in row["text"] for row in runs.records(run, "notice")),
                  "that two is left alone")
    runs.goes_on(process, run)
    two.place.bring_back()
    wait_for_members(run, 4)
    output = stage.stop(process, run, (one, two))
    assert "1 worker here; room for 1 worker here, 2 on one, 1 on two" in output, output
    assert output.count("worker 3 on two lost its ssh session") == 1, output
    assert "is started anew" not in output and output.count("leaves with the step") == 2, output
    wanted.write_text("3\n")
    process, run = stage.endless("scaled-away", "localhost,one,down", *runs.settings(*scaling, "workers.max_workers=3"))
    wait_for_members(run, 2)
    output = stage.stop(process, run, (one, two))
    assert re.search(r"1 of 2 other hosts cannot take part yet:\s+down: .*Connection refused", output), output
    code, output = runs.finish(stage.start("scaled-full", "localhost,one", *runs.settings(
        *scaling, "workers.max_workers=3")))
    assert code == 2 and "workers.hosts has room for 2 workers" in output, output


def refused(stage, one, two):
    """All that cannot take part, at once, and nothing is left of a run that never was."""
    code, output = runs.finish(stage.start(
        "refused", "localhost,one,stranger,liar,down,nobody,bare,old,elsewhere,locked",
        *runs.settings("training.virtual_workers=18")))
    assert code == 3, output
    for host, cause, cure in (("stranger", "Host key verification failed", "ssh stranger"),
                              ("liar", "Host key verification failed", "ssh-keygen -R liar"),
                              ("down", "Connection refused", "no sshd listens there"),
                              ("nobody", "No route to host|timed out", "switched on"),
                              ("bare", "there is no .*muster there", "install the same version"),
                              ("old", "`muster 0.0.1 .old.` there, `muster", "another version"),
                              ("elsewhere", f"no folder {stage.work} there", "shared file system"),
                              ("locked", "Permission denied", "ssh-copy-id locked")):
        found = re.search(rf"^  {host}: (.*(?:\n    .*)*)", output, re.MULTILINE)
        assert found and re.search(cause, found[1]) and cure in found[1], f"{host}:\n{output}"
    assert "8 of 9 other hosts cannot take part" in output and not re.search("^  one:", output, re.MULTILINE), output
    assert not (stage.folder / "refused").exists(), "a run's folder was made"
    nobody_is_left((one, two))


def behind_a_gateway(stage, one, two):
    """A host that sees this one under an address that is another's."""
    code, output = runs.finish(stage.start("gateway", "localhost,behind", steps=20))
    assert code == 3 and "see this one as 192.0.2.7" in output and "workers.listen" in output, output
    code, output = runs.finish(stage.start("gateway", "localhost,behind", *runs.settings(
        f"workers.listen={network.HUB}:0"), steps=20))
    assert code == 0, output
    code, output = runs.finish(stage.start("gateway", "localhost,one,behind", steps=20))
    assert code == 3 and "under several addresses" in output and "one sees it as" in output, output


def behind_a_firewall(stage, one, two):
    """It lets ssh through and nothing else, as most do: all hosts can take part, and none of their workers gets here. Where
    the others are enough they begin, and are told the same."""
    if not network.Firewall.is_allowed():
        return runs.leave_out("this system does not route by ports")
    told = re.compile(rf"{re.escape(network.HUB)}:\d+ did not answer in time; a firewall drops what is sent to that port")
    soon = runs.settings("workers.join_timeout=30s")  # before workers give up by themselves, after a minute
    with network.Firewall(sshd.PORT):
        process = stage.start("walled", "localhost,one,two", *soon, *runs.settings("workers.min_workers=3"), steps=20)
        code, output = runs.finish(process)
        assert code not in (0, 2) and "step 1/" not in output, output
        assert re.search(r"rank [12] on (one|two)\b.*: did not join in time", output) and told.search(output), output
        nobody_is_left((one, two))
        code, output = runs.finish(stage.start("walled", "localhost,one", *soon, steps=20))
        assert code == 0, output
        before = output.split("step 1/", 1)[0]
        assert re.search(r"worker 1 .*on one\b.* did not join in time", before) and told.search(before), output
        nobody_is_left((one, two))
    code, output = runs.finish(stage.start("open", "localhost,one", *soon, steps=20))
    assert code == 0 and "firewall" not in output, output
    return None


def no_ssh(stage, one, two):
    environment = {**stage.keys.environment, "PATH": str(stage.folder)}
    job = runs.write_job(stage.folder, "mlp", runs="none")
    code, output = runs.finish(runs.start(stage.muster, job, "--hosts", "localhost,one", env=environment))
    assert code == 3 and "has to be installed" in output, output


def more_hosts(keys, folder, muster, places):
    """Those that cannot take part in everything; `apart` does not see runs' folders."""
    programs = pathlib.Path(muster).parent
    fake = folder / "muster-of-old"
    fake.write_text("#!/bin/sh\necho 'muster 0.0.1 (old)'\n")
    fake.chmod(0o755)
    (folder / "again").mkdir()
    hosts = [sshd.Host(keys, "apart", places[2], hidden=(folder / "again",)),
             sshd.Host(keys, "stranger", places[3], known=False), sshd.Host(keys, "liar", places[4], known=False),
             sshd.Host(keys, "bare", places[5], hidden=(programs,)),
             sshd.Host(keys, "old", places[6], replaced=((muster, fake),)),
             sshd.Host(keys, "elsewhere", places[7], hidden=(folder / "jobs",)),
             sshd.Host(keys, "locked", places[8]),
             sshd.Host(keys, "behind", places[10], more="ForceCommand SSH_CONNECTION='192.0.2.7 1 10.0.0.1 22' sh -c "
                                                        "\"$SSH_ORIGINAL_COMMAND\"\n")]
    with keys.known.open("a") as file:
        file.write(f"liar {(keys.folder / 'one/host.pub').read_text()}")
    (keys.folder / "locked/authorized").write_text("")
    keys.call("down", places[9].address)
    keys.call("nobody", "10.77.0.200")
    return hosts


def main():
    muster = runs.arguments().muster
    if why := sshd.forbidden() or ("" if network.enter() else "this system does not allow network namespaces"):
        runs.leave_out(why)
        sys.exit(SKIPPED)
    with runs.workplace() as folder, sshd.places(11) as places:
        runs.write_data(folder)
        keys = sshd.Keys(folder / "ssh")
        one, two = sshd.Host(keys, "one", places[0]), sshd.Host(keys, "two", places[1])
        stage = Stage(muster, folder, keys)
        more_hosts(keys, folder, muster, places)
        for scenario in (same_bits, named_in_the_job, carried, killed, lost_session, cut_off, launcher_killed, at_once, at_the_start,
                         resumed, sharded, standby_wanted_back, scaled,
                         refused, behind_a_gateway, behind_a_firewall, no_ssh):
            scenario(stage, one, two)
            print(f"ok  {scenario.__name__}", flush=True)


if __name__ == "__main__":
    main()
