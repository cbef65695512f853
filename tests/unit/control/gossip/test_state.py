"""The store: the highest version holds, in whatever order; digests; removals and their life."""

import itertools

import pytest

from shoal.control.gossip.messages import Entry, Fact, Version, Want
from shoal.control.gossip.state import BUCKETS, Store, Waves
from shoal.kernel.errors import LocalError
from shoal.kernel.keys import key_of_name

LIFE = 1_000
ROW = 100


def store(facts_max: int = 1_000) -> Store:
    return Store(facts_max=facts_max, removed_life_us=LIFE, row_us=ROW)


def fact(key: str, counter: int, body: bytes | None = b"x", *, age: int = 0, row: int = 0) -> Fact:
    return Fact("query", key, Version(counter, "p1", 1), body, age, row)


def filled(*facts: Fact) -> Store:
    full = store()
    for one in facts:
        full.take(one, 0)
    return full


def test_G3_the_highest_version_holds_in_every_order() -> None:
    """Every order of the same facts ends in the same store, digest included."""
    facts = [fact("q1", 1, b"a"), fact("q1", 3, None), fact("q1", 2, b"b"), fact("q2", 1)]
    ends = [filled(*order) for order in itertools.permutations(facts)]
    for end in ends:
        end.validate_all()
        assert end.version(("query", "q1")) == Version(3, "p1", 1)
        assert end.digest == ends[0].digest
        assert end.prints == ends[0].prints
        assert [one.key for one in end.of("query")] == ["q2"]


def test_take_says_whether_it_was_newer() -> None:
    held = store()
    assert held.take(fact("q1", 2), 0)
    assert not held.take(fact("q1", 2), 0)
    assert not held.take(fact("q1", 1), 0)
    assert held.take(fact("q1", 3, None), 0)
    assert held.counter == 3
    assert len(held) == 1


def test_facts_of_a_topic_by_key_without_removed_ones() -> None:
    held = filled(fact("b", 1), fact("a", 2), fact("c", 3, None))
    held.take(Fact("other", "a", Version(1, "p1", 1), b"x"), 0)
    assert [one.key for one in held.of("query")] == ["a", "b"]
    assert [one.key for one in held] == ["b", "a", "c", "a"]


def test_G4_a_removal_is_remembered_for_its_life_and_not_longer() -> None:
    held = filled(fact("q1", 2, None, age=LIFE // 2))
    held.lapse(LIFE // 2 - 1)
    assert held.version(("query", "q1")) is not None
    assert not held.take(fact("q1", 1), LIFE // 2 - 1), "an older version came back"
    held.lapse(LIFE // 2)
    assert held.version(("query", "q1")) is None
    held.validate_all()


def test_G4_nobody_starts_the_life_of_a_removal_anew() -> None:
    """Handed on, it is as old as it was here; at the end of its life nobody takes it."""
    held = filled(fact("q1", 2, None))
    told = held.told(("query", "q1"), 600)
    assert told is not None
    assert told.age == 600
    other = store()
    assert other.take(told, 0)
    other.lapse(LIFE - 600)
    assert len(other) == 0
    assert not other.take(fact("q1", 2, None, age=LIFE), 0)


def test_G4_a_removal_whose_life_is_over_still_ends_what_it_removed() -> None:
    """Whoever tells it has not forgotten it yet, and so does not ask for the fact to be dropped."""
    held = filled(fact("q1", 1))
    assert held.take(fact("q1", 2, None, age=LIFE), 5)
    assert held.of("query") == []
    held.validate_all()
    held.lapse(5)
    assert len(held) == 0


def test_a_body_after_a_removal_is_not_forgotten_with_it() -> None:
    held = filled(fact("q1", 2, None), fact("q1", 3))
    held.lapse(10 * LIFE)
    assert held.version(("query", "q1")) == Version(3, "p1", 1)


def test_a_row_counts_only_while_it_is_new() -> None:
    held = filled(fact("q1", 1, row=4))
    name = ("query", "q1")
    assert held.told(name, ROW - 1) == fact("q1", 1, row=4)
    assert held.told(name, ROW) == fact("q1", 1)
    assert held.broadcast([name, ("query", "unknown")], 0) == [fact("q1", 1)]
    assert held.told(("query", "unknown"), 0) is None


def test_no_room_for_a_new_name_but_for_new_versions() -> None:
    held = store(facts_max=1)
    assert held.take(fact("q1", 1), 0)
    assert held.full
    assert not held.take(fact("q2", 2), 0)
    assert held.refused == 1
    assert held.take(fact("q1", 3), 0)
    held.validate_all()


def test_dropped_facts_leave_nothing_behind() -> None:
    held = filled(fact("q1", 1), fact("q2", 2, None))
    held.drop(("query", "q1"))
    held.drop(("query", "q2"))
    held.validate_all()
    assert held.digest == 0
    assert len(held) == 0


def test_the_digest_tells_versions_apart() -> None:
    assert filled(fact("q1", 1)).digest != filled(fact("q1", 2)).digest
    assert filled(fact("q1", 1)).digest != filled(fact("q2", 1)).digest
    assert store().digest == 0


def test_differing_buckets_are_those_of_what_differs() -> None:
    both = [fact(f"q{number}", 1) for number in range(50)]
    mine, theirs = filled(*both), filled(*both, fact("more", 1))
    (bucket,) = mine.differing(theirs.prints)
    assert [entry.key for entry in theirs.entries(bucket) if entry.key == "more"] == ["more"]
    assert filled(*both).differing(mine.prints) == []


def test_comparing_finds_what_each_lacks() -> None:
    mine = filled(fact("same", 1), fact("newer here", 2), fact("only here", 1), fact("older", 1))
    theirs = [
        Entry("query", "same", Version(1, "p1", 1)),
        Entry("query", "newer here", Version(1, "p1", 1)),
        Entry("query", "older", Version(5, "p1", 1)),
        Entry("query", "only there", Version(1, "p1", 1)),
    ]
    give, wants = mine.compare(range(BUCKETS), theirs)
    assert sorted(key for _, key in give) == ["newer here", "only here"]
    assert wants == [Want("query", "older", True), Want("query", "only there", False)]


def test_comparing_looks_at_the_buckets_it_was_asked_about() -> None:
    mine = filled(*(fact(f"q{number}", 1) for number in range(200)))
    give, wants = mine.compare((3, 3), ())
    assert len(give) == len(dict.fromkeys(give)) == len(mine.entries(3))
    assert wants == []


def test_validate_finds_a_store_that_does_not_agree_with_itself() -> None:
    broken = filled(fact("q1", 1))
    broken.digest ^= 1
    with pytest.raises(LocalError, match="digest"):
        broken.validate()
    broken = filled(fact("q1", 1))
    broken._held["query", "q1"].fact = fact("q1", 9)
    with pytest.raises(LocalError, match="bucket"):
        broken.validate_all()


def test_a_wave_is_covered_once_and_then_only_farther() -> None:
    me, near, far = sorted(key_of_name(name) for name in ("a", "b", "c"))
    waves = Waves(me, size_max=10)
    wave = ("p1", 1)
    assert waves.cover(wave, near) == me
    assert waves.cover(wave, near) is None
    assert waves.cover(wave, far) == near
    assert waves.cover(wave, near) is None
    assert waves.cover(wave, me) == far, "the whole ring"
    assert waves.cover(wave, far) is None
    assert waves.cover(("p1", 2), near) == me


def test_a_repair_is_done_once() -> None:
    low, high = key_of_name("a"), key_of_name("b")
    waves = Waves(key_of_name("c"), size_max=10)
    assert waves.repair(("p1", 1), low, high)
    assert not waves.repair(("p1", 1), low, high)
    assert waves.repair(("p1", 1), high, low)


def test_the_memory_of_waves_is_bounded() -> None:
    me, high = key_of_name("a"), key_of_name("b")
    waves = Waves(me, size_max=3)
    for number in range(10):
        assert waves.cover(("p1", number), high) == me
        assert waves.repair(("p1", number), me, high)
    assert len(waves) == 3
    assert waves.cover(("p1", 9), high) is None
    assert waves.cover(("p1", 0), high) == me, "forgotten, so it is spread once more"
