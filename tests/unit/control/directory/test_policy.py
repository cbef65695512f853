"""Decisions as functions: who wins, what is equal, which ranges are covered, what is refused."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.control.directory.messages import (
    EXPIRED,
    LIVE,
    WITHDRAWN,
    Item,
    OfferRecord,
    Record,
    StreamRecord,
    Version,
    ident_of,
)
from shoal.control.directory.policy import (
    BUCKETS,
    bucket_of,
    check_item,
    check_key,
    check_own,
    chunks,
    combined,
    covered,
    in_range,
    mark_of,
    print_of,
    replaces,
    unavailable,
)
from shoal.kernel.errors import RemoteError
from tests.unit.control.directory.pieces import AES, FLOW, contact, item, offer, stream

OLD, NEW, LATER_LIFE = Version(1, 4, 2), Version(1, 5, 2), Version(2, 1, 1)


@pytest.mark.parametrize(
    ("new", "new_state", "old", "old_state", "wins"),
    [
        (NEW, LIVE, OLD, LIVE, True),
        (NEW, LIVE, OLD, WITHDRAWN, True),
        (OLD, WITHDRAWN, NEW, LIVE, False),
        (LATER_LIFE, LIVE, NEW, WITHDRAWN, True),
        (OLD, WITHDRAWN, OLD, LIVE, True),
        (OLD, EXPIRED, OLD, LIVE, True),
        (OLD, LIVE, OLD, EXPIRED, False),
        (OLD, LIVE, OLD, LIVE, False),
    ],
)
def test_D2_the_newest_wins_and_at_equal_versions_the_dead(
    new: Version, new_state: int, old: Version, old_state: int, *, wins: bool
) -> None:
    assert replaces(new, new_state, old, old_state) is wins


def test_a_print_is_of_content_and_not_of_renewals() -> None:
    mark = mark_of(ident_of(offer()))
    assert mark != mark_of(ident_of(offer("p6")))
    assert print_of(mark, OLD, LIVE) == print_of(mark, NEW, LIVE)
    changed = (Version(1, 5, 5), LIVE), (OLD, WITHDRAWN), (Version(2, 4, 2), LIVE)
    prints = [print_of(mark, version, state) for version, state in changed]
    assert len(dict.fromkeys((*prints, print_of(mark, OLD, LIVE)))) == 4


def test_who_has_forgotten_the_expired_is_equal_to_who_has_not() -> None:
    mark = mark_of(ident_of(offer()))
    assert print_of(mark, OLD, EXPIRED) == 0
    assert combined([5, print_of(mark, OLD, EXPIRED)]) == combined([5])


@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=9), st.randoms())
def test_a_digest_does_not_depend_on_the_order(prints: list[int], random: object) -> None:
    shuffled = sorted(prints, key=lambda _: random.random())  # type: ignore[attr-defined]
    assert combined(prints) == combined(shuffled) < 1 << 64


def test_neighbouring_keys_are_in_different_buckets() -> None:
    keys = [bytes(19) + bytes([last]) for last in range(256)]
    assert len(dict.fromkeys(map(bucket_of, keys))) == BUCKETS


def _key(number: int) -> bytes:
    return bytes([number]) * 20


@pytest.mark.parametrize(
    ("low", "high", "parts", "whole"),
    [
        (10, 20, [(10, 20)], True),
        (10, 20, [(5, 30)], True),
        (10, 20, [(10, 15), (15, 20)], True),
        (10, 20, [(13, 25), (8, 14)], True),
        (10, 20, [(10, 15), (16, 20)], False),
        (10, 20, [(10, 19)], False),
        (10, 20, [], False),
        (200, 20, [(190, 10), (5, 30)], True),
        (200, 20, [(190, 250)], False),
        (10, 20, [(7, 7)], True),
        (10, 20, [(20, 10)], False),
    ],
)
def test_parts_cover_a_range_or_leave_a_gap(
    low: int, high: int, parts: Sequence[tuple[int, int]], *, whole: bool
) -> None:
    found = [(_key(one), _key(other)) for one, other in parts]
    assert covered(_key(low), _key(high), found) is whole


@given(
    st.integers(0, 15),
    st.integers(0, 15),
    st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), max_size=5),
)
def test_R1_what_is_covered_is_covered_key_by_key(
    low: int, high: int, parts: list[tuple[int, int]]
) -> None:
    """Against the twin that looks at every key; a part that goes once around covers everything."""
    found = [(_key(one), _key(other)) for one, other in parts]
    inside = [key for key in range(16) if in_range(_key(low), _key(key), _key(high))]
    twin = all(any(in_range(a, _key(key), b) for a, b in found) for key in inside)
    if covered(_key(low), _key(high), found):
        assert twin


def test_chunks_lose_nothing() -> None:
    assert [list(part) for part in chunks(list(range(7)), 3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(chunks([], 3)) == []


def test_a_key_has_twenty_bytes() -> None:
    check_key(AES)
    with pytest.raises(RemoteError, match="19 bytes"):
        check_key(AES[:-1])


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (offer("p6"), "cannot be published by"),
        (OfferRecord(FLOW, contact("p5"), "aes"), "not the operator's"),
        (OfferRecord(AES, contact("p5"), "aes", float("nan")), "load nan"),
        (OfferRecord(AES, contact("p5"), "aes", -1.0), "load -1"),
        (StreamRecord(FLOW, contact("p5"), ""), "without a name"),
        (StreamRecord(FLOW, contact("p5"), "x" * 201), "too long"),
        (StreamRecord(FLOW, contact("p5"), "ü" * 101), "too long"),
        (StreamRecord(FLOW, contact("p5"), "\ud800"), "no bytes"),
        (StreamRecord(FLOW[:-1], contact("p5"), "x"), "19 bytes"),
        (StreamRecord(FLOW, contact("p5"), "x", -1), "position -1"),
    ],
)
def test_only_what_is_ones_own_and_makes_sense_is_published(record: Record, what: str) -> None:
    wrong = check_own(record, contact("p5"), 200)
    assert wrong is not None
    assert what in wrong.what


def test_what_makes_sense_is_published() -> None:
    for record in (offer(), stream(), StreamRecord(FLOW, contact("p5"), "ü" * 100)):
        assert check_own(record, contact("p5"), 200) is None


@pytest.mark.parametrize(
    ("one", "what"),
    [
        (Item(offer(), Version(2, 1, 1)), "another incarnation"),
        (Item(offer(), Version(1, 1, 2)), "impossible counters"),
        (Item(offer(), Version(1, 1 << 62, 1)), "impossible counters"),
        (Item(offer(), Version(1, 1, -1)), "impossible counters"),
        (item(offer(), 1, state=3), "unknown state"),
        (item(offer(), 1, left=-1), "impossible lease"),
        (item(offer("p6"), 1), "does not own it"),
        (item(offer(life=2), 1), "does not own it"),
        (item(offer(), 1, state=EXPIRED), "does not expire"),
    ],
)
def test_an_owner_may_not_say_everything(one: Item, what: str) -> None:
    with pytest.raises(RemoteError, match=what):
        check_item(one, 200, contact("p5"))


def test_a_keeper_may_speak_for_owners() -> None:
    check_item(item(offer("p6"), 1, state=EXPIRED), 200, None)


def test_nobody_there_is_an_error_with_a_hint() -> None:
    assert "ask again" in unavailable("records could not be looked up").hint
