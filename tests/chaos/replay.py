"""A scenario that fails is told with its seed and with what was done, and that seed does the same again, be it in
vain or not; a scenario to whose job nothing was done does not count."""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import types

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "resume"))
import chaos
import guests
import parts
import runs
import strikes

# A muster in whose ledgers something is always wrong.
FAULTY = """#!/bin/sh
if [ "$1" = data ]; then echo '{{"well": false, "steps": 0}}'; exit 1; fi
exec {muster} "$@"
"""


def play(program, muster, slow_disk, *flags):
    done = subprocess.run([sys.executable, program.__file__, "--muster", str(muster), "--slow-disk", slow_disk, *flags],
                          capture_output=True, text=True, timeout=runs.DEADLINE)
    return done.returncode, done.stdout


def acts_of(output):
    """To whom what was done, without the time."""
    return re.findall(r"(SIG\w+) (worker \d+) at", output)


def check_replay(program, scenario, muster, slow_disk, folder):
    faulty = folder / "muster"
    faulty.write_text(FAULTY.format(muster=pathlib.Path(muster).resolve()))
    faulty.chmod(0o755)
    code, output = play(program, faulty, slow_disk, "--seed", str(scenario.seed), "--count", "1")
    assert code == 1 and f"FAIL  {scenario}\n" in output, output
    assert "0 of 1 scenarios passed" in output and len(acts_of(output)) == 1, output
    again = re.search(rf"^again with (.*): {re.escape(str(scenario))}$", output, re.MULTILINE)
    assert again, output
    code, second = play(program, faulty, slow_disk, *again[1].split())
    assert code == 1 and f"FAIL  {scenario}\n" in second and acts_of(second) == acts_of(output), second
    code, well = play(program, muster, slow_disk, *again[1].split())
    assert code == 0 and "1 of 1 scenarios passed, 1 of them bit for bit: 1 × kill\n" in well, well
    assert acts_of(well) == acts_of(output), well


def some_kill(program, is_wanted):
    """The first scenario in which one dies, in ordered mode, and what else is wanted of it."""
    return next(one for one in map(program.Scenario, range(10**6))
                if one.kind == "kill" and one.mode == "ordered" and is_wanted(one))


def check_draws():
    """Nothing of a scenario but time depends on anything but its seed."""
    for seed in range(50 * len(chaos.ALL)):
        one = chaos.Scenario(seed)
        assert str(one) == str(chaos.Scenario(seed)), one
        assert one.kind not in strikes.OF_THREE or one.workers >= 3, one
    pairs = len(parts.WAYS) * len(parts.KINDS)
    drawn = list(map(parts.Scenario, range(2 * pairs)))
    assert [str(one) for one in drawn] == [str(parts.Scenario(one.seed)) for one in drawn]
    assert len({(one.way.name, one.kind) for one in drawn[:pairs]}) == pairs
    assert len({(one.way.name, one.kind, one.redundancy) for one in drawn}) == 2 * pairs - len(parts.KINDS)  # context has none


def check_sources():
    """Whatever is drawn has each way twice and each kind, and shows each source of a state; one that none of those came
    from who should have is missed."""
    arguments = types.SimpleNamespace(seed=None, kind=None, count=None, ordered=parts.ENOUGH)
    scenarios = parts.draw(arguments)
    assert {one.kind for one in scenarios} == set(parts.KINDS), scenarios
    assert min(collections.Counter(one.way.name for one in scenarios).values()) >= 2, scenarios
    assert sum(one.mode == "ordered" for one in scenarios) == parts.ENOUGH, scenarios
    for one in scenarios:
        one.sources = [one.source_due()]
    assert parts.has_all_sources(scenarios)
    for source in parts.SOURCES:
        for one in scenarios:
            one.sources = [due for due in [one.source_due()] if due != source]
        assert not parts.has_all_sources(scenarios), source


def check_modes():
    """Every kind that changes the members is in fast mode at times, any other always comes to the same bits, and whoever
    takes the place of one is in the same mode. One more without bits than may be is a failure."""
    fast = {one.kind for one in map(chaos.Scenario, range(chaos.ONE_FAST * len(chaos.ALL))) if one.mode == "fast"}
    assert fast == set(chaos.ALL) - set(chaos.STAY), fast
    for seed in range(2 * chaos.ONE_FAST):
        one, part = chaos.Scenario(seed), parts.Scenario(seed)
        assert one.drawn_again().mode == one.mode and part.drawn_again().mode == part.mode, f"{one}; {part}"
    played = [chaos.Scenario(seed) for seed in range(3)]
    played[0].compared = True
    assert chaos.compares_enough(played, 2) and not chaos.compares_enough(played, 1)
    ordered = [one for one in played if one.mode == "ordered"]
    assert not chaos.compares_as_told(played, played, []) and chaos.compares_as_told(played, [], ordered)
    for one in ordered:
        one.compared = True
    assert chaos.compares_as_told(played, played, [])


def check_risk():
    """A guest whose link was cut is excused until it has trained in a generation that began when the link was whole."""
    output = "rank 1 of 2 in generation 4: pid 7 on place1, lanes 1\nrank 1 of 3 in generation 6: pid 7 on place1, lanes 1\n"
    assert guests.goes_on_after(4, output, {4, 5, 6})
    assert not guests.goes_on_after(5, output, {4, 5, 6}), "6 may have been made up while the link was cut"
    assert not guests.goes_on_after(4, output, {4, 5}), "no step was committed in 6"
    assert not guests.goes_on_after(2, output, {5, 7}), "it was in neither"


def check_idle():
    """One kill is not two, and another seed of the same kind takes its place, a few times."""
    acts = strikes.Acts()
    acts.did("SIGKILL", "worker 1")
    acts.check("kill")
    for kind in ("kill two", "freeze", "cut links"):
        try:
            acts.check(kind)
        except strikes.Idle:
            continue
        raise AssertionError(f"{acts}: counts as {kind}")
    drawn = [chaos.Scenario(7)]
    while again := drawn[-1].drawn_again():
        drawn.append(again)
    assert len(drawn) == chaos.DRAWS and {one.kind for one in drawn} == {drawn[0].kind}, drawn


def main():
    arguments = runs.arguments("--slow-disk")
    check_draws()
    check_idle()
    check_modes()
    check_risk()
    check_sources()
    with tempfile.TemporaryDirectory(prefix="muster-test-") as folder:
        for program, scenario in (
                (chaos, some_kill(chaos, lambda one: one.model == "mlp" and one.workers == 3)),
                (parts, some_kill(parts, lambda one: one.way.name == "sharded"))):
            check_replay(program, scenario, arguments.muster, arguments.slow_disk, pathlib.Path(folder))


if __name__ == "__main__":
    main()
