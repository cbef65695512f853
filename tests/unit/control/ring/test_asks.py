"""Questions and their answers."""

import pytest

from shoal.control.ring.config import RingConfig
from shoal.control.ring.machine import RingMachine
from shoal.control.ring.messages import Find, Found, Leave, Located, Lookup
from shoal.kernel.effects import Answer, Send, Tell
from shoal.kernel.errors import LocalError, UserError
from shoal.kernel.events import Asked, Started
from shoal.kernel.rng import Rng
from tests.unit.control.ring.few import Few, contacts

RING = contacts(8)


def machine(**config: object) -> RingMachine:
    made = RingMachine(RING[0], RingConfig(**config), Rng(1))  # type: ignore[arg-type]
    made.handle(Started({}), 0)
    return made


def test_who_is_alone_owns_every_key() -> None:
    made = machine()
    key = RING[5].key
    assert made.handle(Asked(3, Lookup(key)), 1) == [Answer(3, Located(key, RING[0], 0))]
    assert made.handle(Find("t", key), 1) == [Tell(Found("t", key, RING[0], 0))]


def test_a_key_of_another_length_is_the_askers_mistake() -> None:
    made = machine()
    (answer,) = made.handle(Asked(3, Lookup(b"short")), 1)
    assert isinstance(answer, Answer)
    assert isinstance(answer.result, UserError)
    with pytest.raises(LocalError):
        made.handle(Find("t", b"short"), 1)


def test_a_joiner_looks_up_through_its_ways_in() -> None:
    made = machine(seeds=("x:1",))
    effects = made.handle(Asked(3, Lookup(RING[5].key)), 1)
    assert [effect.to.address for effect in effects if isinstance(effect, Send)] == ["x:1"]


def test_who_has_left_knows_no_owner() -> None:
    made = machine()
    made.handle(Asked(1, Leave()), 1)
    key = RING[5].key
    assert Answer(2, Located(key, None, 0)) in made.handle(Asked(2, Lookup(key)), 2)
    assert Tell(Found("t", key, None, 0)) in made.handle(Find("t", key), 2)


def test_more_look_ups_than_allowed_are_refused_at_once() -> None:
    made = machine(seeds=("x:1",), lookups_max=3)
    key = RING[5].key
    effects = [made.handle(Asked(number, Lookup(key)), 1) for number in range(5)]
    refused = [Answer(number, Located(key, None, 0)) in effects[number] for number in range(5)]
    # One of the three is the joiner's own.
    assert refused == [False, False, True, True, True]


def test_look_ups_of_a_whole_ring_are_right_from_everywhere() -> None:
    few = Few(20, successors_max=3)
    few.run(5)
    for node in few.ring:
        for key in (node.contact.key, RING[3].key, RING[6].key):
            found = few.look_up(few.ring[0], key)
            assert found.owner is not None
            assert found.owner.name == few.owner(key)
            assert found.hops <= 6
