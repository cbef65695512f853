"""Keepers and replicas come together: digests first, then what differs, then who can vouch."""

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.control.directory.desk import Desk
from shoal.control.directory.keeper import Keeper
from shoal.control.directory.messages import (
    EXPIRED,
    LIVE,
    WITHDRAWN,
    Compare,
    Differs,
    Give,
    Have,
    Item,
    Push,
    Pushed,
    Same,
    Want,
)
from shoal.control.directory.policy import BUCKETS
from shoal.control.directory.sync import Sync
from shoal.kernel.errors import RemoteError
from shoal.kernel.time import SECOND
from tests.unit.control.directory.pieces import (
    AES,
    FLOW,
    contact,
    desk_of,
    item,
    notes,
    offer,
    sent,
    stream,
    taken,
)

LOW = contact("p6").key
UNTIL = 90 * SECOND


@dataclass
class Side:
    """A peer's keeper and its comparisons."""

    name: str
    config: dict[str, Any] = field(default_factory=dict)
    desk: Desk = field(init=False)
    keeper: Keeper = field(init=False)
    sync: Sync = field(init=False)

    def __post_init__(self) -> None:
        self.desk = desk_of(self.name, **self.config)
        self.keeper = Keeper(self.desk)
        self.sync = Sync(self.desk, self.keeper)

    def take(self, *items: Item) -> "Side":
        for one in items:
            self.keeper.take(one, UNTIL)
        return self

    def hear(self, sender: str, message: Any, now: int = 0) -> None:
        who = contact(sender)
        match message:
            case Compare():
                self.sync.compare(who, message, now)
            case Same():
                self.sync.same(who, message, now)
            case Differs():
                self.sync.differs(who, message, now)
            case Want():
                self.sync.want(who, message, now)
            case Give():
                self.sync.give(who, message, now)
            case Push():
                self.keeper.hold(who, message, now)
            case Pushed():
                self.keeper.pushed(who, message, now)

    @property
    def has(self) -> dict[tuple[str, str], tuple[int, int]]:
        return {
            (one.ident.thing, one.ident.owner): (one.version.since, one.state)
            for one in self.keeper.shelf.entries.values()
            if one.state != EXPIRED
        }


def talk(*sides: Side, most: int = 200) -> list[str]:
    """Let them talk until all is said; the kinds of messages in their order."""
    by_name = {side.name: side for side in sides}
    said: list[str] = []
    waiting: deque[tuple[str, str, Any]] = deque()
    for _ in range(most):
        for side in sides:
            waiting.extend((side.name, to, message) for to, message in sent(taken(side.desk)))
        if not waiting:
            return said
        sender, to, message = waiting.popleft()
        said.append(type(message).__name__)
        if to in by_name:
            by_name[to].hear(sender, message)
    raise AssertionError(f"it does not come to an end: {said[:20]}")


def pair(**config: Any) -> tuple[Side, Side]:
    """p1 keeps `aes`, p2 is its first backup."""
    return Side("p1", config), Side("p2", config)


def test_equal_digests_are_enough() -> None:
    keeper, replica = pair()
    for side in (keeper, replica):
        side.take(item(offer(), 1), item(offer("p6"), 5))
    keeper.sync.compare_all(0)
    assert talk(keeper, replica) == ["Compare", "Compare", "Same"]


def test_R1_whoever_is_found_equal_is_known_to_hold_what_was_compared() -> None:
    keeper, replica = pair()
    keeper.take(item(offer(), 1), item(offer("p6"), 1))
    replica.take(item(offer(), 1), item(offer("p6"), 1))
    keeper.sync.compare_all(0)
    talk(keeper, replica)
    copies = [keeper.keeper.copies_of(one) for one in keeper.keeper.shelf.entries.values()]
    assert copies == [2, 2], "p3 has said nothing"


def test_R1_what_has_changed_since_the_comparison_is_not_known_to_be_there() -> None:
    keeper, replica = pair()
    keeper.take(item(offer(), 1))
    replica.take(item(offer(), 1))
    keeper.sync.compare_all(0)
    ((_, compare), _) = sent(taken(keeper.desk))
    replica.hear("p1", compare)
    keeper.take(item(offer(load=0.5), 2))
    ((_, same),) = sent(taken(replica.desk))
    keeper.hear("p2", same)
    (entry,) = keeper.keeper.shelf.entries.values()
    assert keeper.keeper.copies_of(entry) == 1


def test_R1_a_backup_that_has_started_again_is_compared_with_at_once() -> None:
    keeper, _ = pair()
    keeper.sync.sure = True
    place = keeper.desk.place
    low, backups = place.low, place.backups
    place.move(contact("p6"), (contact("p2", 2), contact("p3")), 3)
    keeper.sync.moved(low, backups, 0)
    out = sent(taken(keeper.desk))
    assert [(name, type(message)) for name, message in out] == [("p2", Compare)]


def test_R1_each_gets_what_is_newer_at_the_other() -> None:
    keeper, replica = pair()
    keeper.take(item(offer("p4"), 2), item(offer("p5"), 3), item(offer("p6"), 4, state=WITHDRAWN))
    replica.take(item(offer("p4"), 1), item(offer("p3"), 7), item(offer("p6"), 3))
    keeper.sync.compare_all(0)
    talk(keeper, replica)
    assert (
        keeper.has
        == replica.has
        == {
            ("aes", "p3"): (7, LIVE),
            ("aes", "p4"): (2, LIVE),
            ("aes", "p5"): (3, LIVE),
            ("aes", "p6"): (4, WITHDRAWN),
        }
    )


def test_D1_a_renewal_that_only_one_has_heard_of_is_no_difference() -> None:
    keeper, replica = pair()
    keeper.take(item(offer(), 1))
    replica.take(item(offer(), 9, 1))
    keeper.sync.compare_all(0)
    assert "Differs" not in talk(keeper, replica)


def test_D1_what_has_expired_here_and_is_unknown_there_is_no_difference() -> None:
    keeper, replica = pair()
    keeper.take(item(offer(), 1), item(offer(), 1, state=EXPIRED))
    keeper.sync.compare_all(0)
    assert "Differs" not in talk(keeper, replica)
    assert replica.has == {}


def test_what_is_not_in_the_keepers_range_is_not_compared() -> None:
    keeper, replica = pair()
    replica.take(item(stream(), 1))
    keeper.sync.compare_all(0)
    assert "Differs" not in talk(keeper, replica)


_items = st.builds(
    item,
    st.builds(offer, st.sampled_from(("p3", "p4", "p5", "p6"))),
    st.integers(1, 4),
    state=st.sampled_from((LIVE, WITHDRAWN)),
)


@given(st.lists(_items, max_size=8), st.lists(_items, max_size=8), st.sampled_from((1, 2, 500)))
def test_R1_D2_whatever_two_sides_have_both_end_with_the_newest(
    here: list[Item], there: list[Item], items_max: int
) -> None:
    """The twin is a dict of the greatest (counter, state) by owner."""
    twin: dict[tuple[str, str], tuple[int, int]] = {}
    for one in (*here, *there):
        name = ("aes", one.record.owner.name)
        twin[name] = max(twin.get(name, (0, 0)), (one.version.counter, one.state))
    keeper, replica = pair(items_max=items_max)
    keeper.take(*here)
    replica.take(*there)
    keeper.sync.compare_all(0)
    talk(keeper, replica)
    assert keeper.has == replica.has == twin


def test_news_from_one_replica_goes_to_the_others() -> None:
    keeper, replica = pair()
    third = Side("p3")
    replica.take(item(offer(), 1))
    keeper.sync.compare_all(0)
    talk(keeper, replica, third)
    assert third.has == {("aes", "p5"): (1, LIVE)}


# --- who can vouch ------------------------------------------------------------------------------


def test_R1_a_new_keeper_is_sure_when_one_that_can_vouch_has_told_it_all() -> None:
    """p1 has died; p2 keeps its range now, and p3 was a replica that p1 found equal."""
    second, third = Side("p2"), Side("p3")
    third.take(item(offer(), 1))
    third.sync._vouch(LOW, contact("p1").key, 0)
    third.sync._vouch(contact("p1").key, contact("p2").key, 0)
    old = second.desk.place.low, second.desk.place.backups
    second.desk.place.move(contact("p6"), (contact("p3"), contact("p4")), 3)
    second.sync.moved(*old, 0)
    assert not second.sync.sure
    assert not second.sync.vouches_for(AES, 0)
    talk(second, third)
    assert second.sync.sure
    assert second.has == {("aes", "p5"): (1, LIVE)}


def test_a_replica_that_was_found_equal_takes_over_at_once() -> None:
    first, second = pair()
    for side in (first, second):
        side.take(item(offer(), 1))
        side.sync.sure = True
    first.sync.compare_all(0)
    talk(first, second)
    old = second.desk.place.low, second.desk.place.backups
    second.desk.place.move(contact("p6"), (contact("p3"), contact("p4")), 3)
    second.sync.moved(*old, 0)
    assert second.sync.sure
    assert "what it kept and copied covers it" in notes(taken(second.desk))


def test_who_keeps_less_than_before_is_still_sure() -> None:
    keeper = Side("p1")
    keeper.sync.sure = True
    old = keeper.desk.place.low, keeper.desk.place.backups
    keeper.desk.place.move(contact("p7"), keeper.desk.place.backups, 3)
    assert contact("p7").key != old[0]
    keeper.sync.moved(*old, 0)
    assert keeper.sync.sure == keeper.sync.vouches(keeper.desk.place.low, contact("p1").key, 0)


def test_only_new_backups_are_compared_with() -> None:
    keeper = Side("p1")
    keeper.sync.sure = True
    old = keeper.desk.place.low, keeper.desk.place.backups
    keeper.desk.place.move(contact("p6"), (contact("p3"), contact("p4")), 3)
    keeper.sync.moved(*old, 0)
    assert [name for name, _ in sent(taken(keeper.desk))] == ["p4"]


def test_to_vouch_ends_after_its_time() -> None:
    replica = Side("p2")
    replica.sync._vouch(LOW, contact("p1").key, 0)
    life = replica.desk.config.vouch_life
    assert replica.sync.vouches_for(AES, life - 1)
    assert not replica.sync.vouches_for(AES, life)
    assert not replica.sync.vouches_for(FLOW, 0)


def test_a_keeper_learns_by_time_if_nobody_can_vouch() -> None:
    keeper = Side("p1")
    keeper.sync.moved(b"", (), 0)
    taken(keeper.desk)
    limit = keeper.desk.config.learning_max
    keeper.sync.learned_by_time(limit - 1)
    assert not keeper.sync.sure
    keeper.sync.learned_by_time(limit)
    assert keeper.sync.sure
    assert "every owner has had time to renew" in notes(taken(keeper.desk))


def test_while_it_learns_it_asks_after_longer_and_longer() -> None:
    keeper = Side("p1")
    keeper.sync.moved(b"", (), 0)
    now, asked = 0, []
    for _ in range(6):
        for number in list(keeper.sync.comparisons):
            keeper.sync.unanswered(number, now)
        due = [at for at, _, what, _ in keeper.desk.deadlines._heap if what == "again" and at > now]
        asked.append(min(due) - now)
        now = min(due)
        keeper.sync.again(now)
    assert asked == sorted(asked)
    assert asked[0] == SECOND
    assert asked[-1] == keeper.desk.config.sync_period


def test_who_has_stood_still_is_not_sure_of_anything() -> None:
    keeper = Side("p1")
    keeper.sync.sure = True
    keeper.sync._vouch(contact("p5").key, LOW, 0)
    keeper.sync.paused(60 * SECOND)
    assert not keeper.sync.sure
    assert not keeper.sync.vouches(contact("p5").key, LOW, 60 * SECOND)
    assert [type(message) for _, message in sent(taken(keeper.desk))] == [Compare, Compare]


def test_replicas_are_compared_with_every_period() -> None:
    keeper = Side("p1")
    keeper.sync.sure = True
    config = keeper.desk.config
    times = []
    for now in range(0, 4 * config.sync_period, config.beat_period):
        keeper.sync.beat(now)
        if sent(taken(keeper.desk)):
            times.append(now)
    gaps = [later - one for one, later in pairwise(times)]
    assert times
    assert max(gaps) <= config.sync_period + 2 * config.beat_period


# --- bounds and wrong messages ------------------------------------------------------------------


@pytest.mark.parametrize("one_key", [True, False])
def test_R1_what_does_not_fit_one_answer_comes_in_later_rounds(*, one_key: bool) -> None:
    """Also where one bucket alone is too much; and nothing is sure before all of it is there."""
    keeper, replica = pair(haves_max=3, items_max=2)
    names = [f"op{number}" for number in range(200)]
    inside = [offer("p5", name) for name in names if keeper.desk.place.owns(offer("p5", name).key)]
    many = [stream("p5", f"i{number}", name="aes") for number in range(9)]
    records = many if one_key else inside[:9]
    replica.take(*(item(record, 1) for record in records))
    replica.sync._vouch(LOW, contact("p1").key, 0)
    for _ in range(40):
        keeper.sync.compare_all(0)
        talk(keeper, replica)
        assert keeper.sync.sure <= (len(keeper.has) == 9)
    assert keeper.has == replica.has
    assert keeper.sync.sure


def _compare(keeper: Side) -> Compare:
    keeper.sync.compare_all(0)
    found = [message for name, message in sent(taken(keeper.desk)) if name == "p2"]
    (one,) = found
    assert isinstance(one, Compare)
    return one


@pytest.mark.parametrize(
    "wrong",
    [
        lambda n: Compare(n, LOW, (0,) * (BUCKETS - 1), sure=False),
        lambda n: Compare(n, LOW[:-1], (0,) * BUCKETS, sure=False),
        lambda n: Differs(n, (BUCKETS,), (), sure=False),
        lambda n: Differs(n, (0,), (Have(1, 1, 1, EXPIRED),), sure=False),
        lambda n: Differs(n, (0,), (Have(1, 1, 1, LIVE),) * 10_001, sure=False),
    ],
)
def test_what_cannot_be_said_is_refused(wrong: Any) -> None:
    keeper = Side("p1")
    number = _compare(keeper).number
    with pytest.raises(RemoteError):
        keeper.hear("p2", wrong(number))
    assert number in keeper.sync.comparisons


def test_who_wants_more_than_there_can_be_is_refused() -> None:
    keeper, replica = pair()
    keeper.take(item(offer(), 1))
    compare = _compare(keeper)
    replica.hear("p1", compare)
    with pytest.raises(RemoteError, match="wanted at once"):
        replica.hear("p1", Want(compare.number, (1,) * 10_001))


def test_a_want_that_refers_to_nothing_gets_nothing() -> None:
    replica = Side("p2").take(item(offer(), 1))
    replica.hear("p1", Want(5, (1,)))
    assert taken(replica.desk) == []


def test_only_items_of_the_range_are_given() -> None:
    keeper, replica = pair()
    replica.take(item(offer(), 1), item(stream(), 1))
    compare = _compare(keeper)
    replica.hear("p1", compare)
    taken(replica.desk)
    marks = tuple(replica.keeper.shelf.by_mark)
    replica.hear("p1", Want(compare.number, marks))
    ((_, give),) = sent(taken(replica.desk))
    assert [one.record for one in give.items] == [offer()]


def test_what_nobody_asked_for_is_not_taken() -> None:
    keeper = Side("p1")
    number = _compare(keeper).number
    for sender, message in (
        ("p2", Give(number, (item(offer(), 1),), 0, 1)),
        ("p3", Same(number, sure=True)),
        ("p2", Same(number + 99, sure=True)),
        ("p3", Differs(number, (0,), (), sure=True)),
    ):
        keeper.hear(sender, message)
    assert keeper.has == {}
    assert not keeper.sync.sure


def test_a_part_that_is_none_is_refused() -> None:
    keeper, replica = pair()
    replica.take(item(offer(), 1))
    keeper.sync.compare_all(0)
    out = [message for name, message in sent(taken(keeper.desk)) if name == "p2"]
    replica.hear("p1", out[0])
    ((_, differs),) = sent(taken(replica.desk))
    keeper.hear("p2", differs)
    taken(keeper.desk)
    with pytest.raises(RemoteError, match="part 2 of 2"):
        keeper.hear("p2", Give(differs.number, (), 2, 2))


def test_an_answer_about_a_range_that_is_over_changes_nothing() -> None:
    keeper, replica = pair()
    replica.take(item(offer(), 1))
    compare = _compare(keeper)
    replica.hear("p1", compare)
    ((_, differs),) = sent(taken(replica.desk))
    keeper.desk.place.move(contact("p5"), keeper.desk.place.backups, 3)
    keeper.hear("p2", differs)
    assert sent(taken(keeper.desk)) == []
    assert compare.number not in keeper.sync.comparisons
