"""The table of one peer."""

import pytest

from shoal.control.ring.messages import MESSAGES, QUESTIONS, Find
from shoal.control.ring.state import DECIDED, IGNORED, ILLEGAL, TABLE, State, Table
from shoal.kernel.errors import LocalError
from shoal.kernel.events import Started, Stopping, Unreachable
from shoal.kernel.keys import ahead
from tests.unit.control.ring.few import contact, contacts

RING = contacts(12)
ME = RING[0]


def table(successors_max: int = 4) -> Table:
    made = Table(ME, successors_max)
    made.set_predecessor(RING[-1])
    made.set_successors(RING[1:5])
    return made


def test_every_pair_of_state_and_input_has_its_place_once() -> None:
    timers = ("ring/round", "ring/wake", "ring/push")
    events = (Started, Stopping, Unreachable, Find)
    inputs = [*events, *timers, *MESSAGES.values(), *QUESTIONS]
    for state in State:
        for taken in inputs:
            places = [(state, taken) in where for where in (TABLE, IGNORED, ILLEGAL)]
            assert places.count(True) == 1, (state, taken)
    assert len(TABLE) + len(IGNORED) + len(ILLEGAL) == len(State) * len(inputs)
    assert DECIDED.keys() == {pair for pair, (after, _) in TABLE.items() if after is None}


def test_a_list_is_taken_as_far_as_it_runs_clockwise() -> None:
    made = table()
    assert made.set_successors([RING[2], RING[3], RING[0], RING[1]])
    assert made.successors == (RING[2], RING[3])
    assert made.set_successors(RING[1:])
    assert made.successors == tuple(RING[1:5])
    assert not made.set_successors(RING[1:5])


def test_versions_count_changes_of_neighbours_and_differ_between_incarnations() -> None:
    made = table()
    version, changes = made.version, made.changes
    made.set_finger(159, RING[8])
    assert (made.version, made.changes) == (version, changes + 1)
    made.set_predecessor(RING[-2])
    assert made.version == version + 1
    assert Table(contact(ME.name, 2), 4).version > made.version


def test_who_owns_what() -> None:
    made = table()
    assert made.owns(ME.key)
    assert not made.owns(RING[-1].key)
    assert made.owns(ahead(RING[-1].key, 0))
    assert not made.owns(ahead(ME.key, 0))


def test_who_knows_nobody_owns_everything_and_who_knows_no_predecessor_only_its_place() -> None:
    alone = Table(ME, 4)
    assert alone.owns(RING[5].key)
    alone.set_successors(RING[1:3])
    assert alone.owns(ME.key)
    assert not alone.owns(RING[5].key)


def test_closer_peers_are_the_last_before_a_key() -> None:
    made = table()
    made.set_finger(159, RING[8])
    assert made.closer(RING[3].key, 2) == [RING[2], RING[1]]
    assert made.closer(ahead(RING[3].key, 0), 2) == [RING[3], RING[2]]
    assert made.closer(RING[10].key, 2) == [RING[8], RING[4]]
    assert made.closer(ME.key, 1) == [RING[8]]
    assert made.closer(ahead(ME.key, 0), 3) == []


def test_dropping_a_peer_removes_it_everywhere() -> None:
    made = table()
    made.set_finger(159, RING[8])
    made.set_finger(158, RING[8])
    for name in (RING[-1].name, RING[2].name, RING[8].name):
        assert name in made
        made.drop(name)
        assert name not in made
    assert made.predecessor is None
    assert made.successors == (RING[1], RING[3], RING[4])
    assert made.fingers == {}


def test_fingers_that_a_longer_list_makes_needless_go() -> None:
    made = table()
    low = made.powers().start
    made.set_finger(low, RING[8])
    made.set_successors([RING[1], RING[2], RING[3], RING[11]])
    assert low not in made.powers()
    assert low not in made.fingers


def test_R2_lists_out_of_order_are_found() -> None:
    made = table()
    made.validate()
    made.successors = (RING[2], RING[1])
    with pytest.raises(LocalError, match="R2"):
        made.validate()
    made = table()
    made.set_predecessor(ME)
    with pytest.raises(LocalError, match="R2"):
        made.validate()
    made = table()
    made.predecessor = RING[7]
    with pytest.raises(LocalError, match="R2"):
        made.validate()
    made = table()
    made.fingers = {3: RING[8]}
    with pytest.raises(LocalError, match="R2"):
        made.validate()
