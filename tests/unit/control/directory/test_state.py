"""What a directory keeps in memory: indexes that agree, routes that fit, deadlines in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.control.directory.messages import EXPIRED, LIVE, WITHDRAWN, ident_of
from shoal.control.directory.state import (
    Deadlines,
    Entry,
    Outbox,
    Place,
    Route,
    Routes,
    Shelf,
)
from shoal.kernel.effects import Send
from shoal.kernel.errors import LocalError
from shoal.kernel.keys import Contact
from shoal.kernel.time import SECOND
from tests.still_ring import keeper_among, neighbours_among
from tests.unit.control.directory.pieces import (
    AES,
    FLOW,
    NAMES,
    contact,
    item,
    offer,
    stream,
)

ALL = [contact(name) for name in NAMES]


def entry_of(owner: str, *, until: int = 100 * SECOND, flow: bool = False) -> Entry:
    record = stream(owner) if flow else offer(owner)
    return Entry(ident_of(record), item(record, 1), until)


def put(shelf: Shelf, entry: Entry) -> None:
    """As the keeper does it."""
    shelf.put(entry)
    shelf.newest[entry.ident.owner] = entry.version.incarnation


# --- outbox and place ---------------------------------------------------------------------------


def test_what_a_peer_says_to_itself_stays_inside() -> None:
    box = Outbox(contact("p1"))
    box.send(contact("p1"), stream())
    box.send(contact("p2"), stream())
    assert list(box.inner) == [stream()]
    assert box.effects == [Send(contact("p2"), stream())]


def test_a_place_among_others() -> None:
    place = Place(contact("p1"))
    predecessor, successors = neighbours_among(ALL, contact("p1"))
    place.move(predecessor, successors, 3)
    assert place.low == contact("p6").key
    assert [one.name for one in place.backups] == ["p2", "p3"]
    assert place.owns(AES)
    assert not place.owns(FLOW)


def test_who_is_alone_keeps_everything_and_who_knows_no_place_cannot_tell() -> None:
    alone, unknown = Place(contact("p1")), Place(contact("p1"))
    alone.move(None, (), 3)
    assert alone.low == contact("p1").key
    assert alone.owns(FLOW)
    unknown.move(None, (contact("p2"),), 3)
    assert unknown.low == b""
    assert unknown.owns(FLOW)


def test_copies_decide_how_many_backups_there_are() -> None:
    for copies, count in ((1, 0), (2, 1), (5, 4)):
        place = Place(contact("p1"))
        place.move(*neighbours_among(ALL, contact("p1")), copies)
        assert len(place.backups) == count


def test_a_small_ring_goes_round_to_oneself() -> None:
    place = Place(contact("p1"))
    place.move(contact("p2"), (contact("p2"), contact("p1")), 3)
    assert [one.name for one in place.backups] == ["p2"]


# --- entries and the shelf ----------------------------------------------------------------------


def test_a_lease_that_is_over_says_so_when_it_travels() -> None:
    entry = entry_of("p5", until=10)
    assert (entry.item(4).state, entry.item(4).left) == (LIVE, 6)
    assert (entry.item(10).state, entry.item(10).left) == (EXPIRED, 0)


def test_a_shelf_finds_by_key_range_mark_and_owner() -> None:
    shelf = Shelf()
    entries = [entry_of("p5"), entry_of("p4"), entry_of("p5", flow=True)]
    for entry in entries:
        put(shelf, entry)
    shelf.audit()
    assert [entry.ident.owner for entry in shelf.live(AES, 0)] == ["p4", "p5"]
    assert shelf.live(AES, 100 * SECOND) == []
    assert list(shelf.within(contact("p2").key, contact("p3").key)) == [entries[2]]
    assert shelf.by_mark[entries[0].mark] is entries[0]
    shelf.drop(entries[1])
    shelf.audit()
    assert "p4" not in shelf.by_owner
    assert "p4" not in shelf.newest
    assert len(shelf) == 2


def test_what_is_dead_is_not_found() -> None:
    shelf = Shelf()
    entry = entry_of("p5")
    put(shelf, entry)
    entry.set(entry.record, entry.version, WITHDRAWN, entry.until)
    assert shelf.live(AES, 0) == []


@pytest.mark.parametrize("damage", ["by_key", "by_owner", "by_mark", "newest"])
def test_an_index_that_disagrees_is_found(damage: str) -> None:
    shelf = Shelf()
    put(shelf, entry_of("p5"))
    shelf.audit()
    if damage == "newest":
        shelf.newest["p5"] = 0
    else:
        getattr(shelf, damage).clear()
    with pytest.raises(LocalError, match="directory shelf"):
        shelf.audit()


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.booleans(), st.booleans()), max_size=30))
def test_a_shelf_is_like_a_dict(steps: list[tuple[str, bool, bool]]) -> None:
    shelf, twin = Shelf(), {}
    for owner, flow, there in steps:
        entry = entry_of(owner, flow=flow)
        if there and entry.ident not in twin:
            put(shelf, entry)
            twin[entry.ident] = entry
        elif not there and entry.ident in twin:
            shelf.drop(twin.pop(entry.ident))
        shelf.audit()
    assert shelf.entries == twin


# --- routes -------------------------------------------------------------------------------------


def route_of(name: str) -> Route:
    predecessor, successors = neighbours_among(ALL, contact(name))
    assert predecessor is not None
    return Route(contact(name), predecessor.key, successors[:2])


def test_routes_that_were_learned_are_found_and_others_are_not() -> None:
    routes = Routes(10)
    assert routes.find(AES) is None
    routes.learn(route_of("p1"))
    found = routes.find(AES)
    assert found is not None
    assert found.keeper.name == "p1"
    assert routes.find(FLOW) is None
    assert routes.forget(contact("p1"))
    assert not routes.forget(contact("p1"))
    assert routes.find(AES) is None


def test_too_many_routes_forget_the_oldest() -> None:
    routes = Routes(2)
    for name in ("p1", "p3", "p1", "p5"):
        routes.learn(route_of(name))
    assert len(routes) == 2
    assert routes.find(FLOW) is None
    assert routes.find(AES) is not None


def test_one_key_that_the_ring_has_told_of_clears_whoever_was_thought_to_stand_between() -> None:
    """p1 has gone; the ring says that p2 keeps aes now."""
    routes = Routes(10)
    for name in ("p1", "p2", "p3"):
        routes.learn(route_of(name))
    routes.learn_point(AES, contact("p2"))
    found = routes.find(AES)
    assert found is not None
    assert found.keeper.name == "p2"
    assert [one.name for one in found.backups] == ["p3", "p4"]
    kept = routes.find(FLOW)
    assert kept is not None
    assert kept.keeper.name == "p3"


def test_a_point_does_not_shrink_what_a_keeper_has_said() -> None:
    routes = Routes(10)
    routes.learn(route_of("p1"))
    routes.learn_point(AES, contact("p1"))
    assert routes.find(AES) == route_of("p1")


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from(NAMES), st.sampled_from(("aes", "flow", "q")))
    ),
)
def test_a_route_is_right_or_missing_while_the_ring_is_the_same(
    steps: list[tuple[bool, str, str]],
) -> None:
    routes = Routes(4)
    keys = {word: offer(operator=word).key for word in ("aes", "flow", "q")}
    for point, name, word in steps:
        if point:
            routes.learn_point(keys[word], keeper_among(ALL, keys[word]))
        else:
            routes.learn(route_of(name))
        for key in keys.values():
            found = routes.find(key)
            assert found is None or found.keeper == keeper_among(ALL, key)


def test_another_incarnation_at_a_place_replaces_the_first() -> None:
    routes = Routes(10)
    routes.learn(route_of("p1"))
    later: Contact = contact("p1", 2)
    routes.learn_point(AES, later)
    found = routes.find(AES)
    assert found is not None
    assert found.keeper == later


# --- deadlines ----------------------------------------------------------------------------------


def test_deadlines_come_in_order_and_once() -> None:
    deadlines = Deadlines()
    assert deadlines.next is None
    for at, what in ((30, "c"), (10, "a"), (10, "b")):
        deadlines.add(at, what, at)
    assert deadlines.next == 10
    assert list(deadlines.due(9)) == []
    assert list(deadlines.due(10)) == [("a", 10), ("b", 10)]
    assert list(deadlines.due(50)) == [("c", 30)]
    assert deadlines.next is None
