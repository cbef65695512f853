"""Traces: one line an event, aligned; the digest tells runs apart and nothing else does."""

from shoal.kernel.time import SECOND
from shoal.sim.network import Weather
from shoal.sim.trace import Digest, Several, TextTrace
from shoal.sim.world import World
from tests.unit.sim.test_world import Asker
from tests.unit.sim.toy import Count, toy_peer


def played(seed: int, *watchers: object, span: int = 3 * SECOND) -> World:
    world = World(
        seed,
        toy_peer,
        weather=Weather(heavy=0.0),
        watcher=Several(watchers),  # type: ignore[arg-type]
    )
    for index in range(3):
        world.start(world.add_host(), ["host0:1", "host1:1"] if index else [])
    world.ask(world.nodes[1], Count(), Asker())
    world.run_for(span)
    world.crash(world.nodes[2])
    world.start(world.nodes[2], [])
    return world


def digest(seed: int, span: int = 3 * SECOND) -> str:
    found = Digest()
    played(seed, found, span=span)
    return found.hexdigest()


def test_equal_runs_have_equal_digests_and_others_do_not() -> None:
    assert digest(1) == digest(1)
    assert digest(1) != digest(2)
    assert digest(1, 2 * SECOND) != digest(1)


def test_asking_for_the_digest_does_not_change_it() -> None:
    found = Digest()
    played(1, found)
    assert found.hexdigest() == found.hexdigest() == digest(1)


def test_a_text_beside_it_does_not_change_the_digest() -> None:
    found = Digest()
    played(1, TextTrace(lambda line: None), found)
    assert found.hexdigest() == digest(1)


def test_each_event_is_one_line_and_columns_stand_below_each_other() -> None:
    lines: list[str] = []
    world = played(1, TextTrace(lines.append))
    assert lines[0].split() == ["at", "peer", "event", "because", "what"]
    column = lines[0].index("what")
    events = [line for line in lines[1:] if "#" in line[22:30]]
    assert len(events) == world.events
    for line in events:
        assert line[column - 1] == " "
        assert line[column] != " "
        assert 0.0 <= float(line[:13]) <= 3.0
    assert sum("Ping(number=" in line for line in events) > 3
    assert any("asked Count()" in line and "persist toy/count" in line for line in events)
    assert any("toy/ping in 1.000 s" in line for line in events)
    assert any(line.endswith("crash p2") for line in lines)
    assert any("start p2 incarnation 2" in line for line in lines)


def test_a_cause_names_the_event_that_sent_it() -> None:
    """Whoever gets a Ping because of p1#4 finds, at p1's fourth event, that it sent one."""
    lines: list[str] = []
    played(1, TextTrace(lines.append))
    causes = 0
    for line in lines:
        words = line.split()
        if "Ping(number=" in line and "from" in line:
            name, _, number = words[3].partition("#")
            origin = [one.split() for one in lines]
            assert any(
                one[1:3] == [name, f"#{number}"] and "Ping" in one for one in origin if len(one) > 3
            )
            causes += 1
    assert causes > 3


def test_only_some_peers() -> None:
    lines: list[str] = []
    played(1, TextTrace(lines.append, only=["p1"]))
    assert {line.split()[1] for line in lines[1:]} == {"p1"}
