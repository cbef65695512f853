"""Watches: a watcher hears of changes, of all it missed, and of a keeper that is no more."""

from collections import deque
from typing import Any

import pytest

from shoal.control.directory.keeper import Keeper
from shoal.control.directory.messages import (
    WITHDRAWN,
    Changed,
    Elsewhere,
    Follow,
    Item,
    Record,
    RecordsChanged,
    Unfollow,
    Unwatch,
    Unwatched,
    Watch,
    Watching,
)
from shoal.control.directory.state import Route
from shoal.control.directory.sync import Sync
from shoal.control.directory.watches import Followers, Watcher
from shoal.kernel.errors import RemoteError, UserError
from shoal.kernel.time import SECOND
from tests.unit.control.directory.pieces import (
    AES,
    FLOW,
    answers,
    contact,
    desk_of,
    item,
    news,
    offer,
    sent,
    stream,
    taken,
)

LOW = contact("p6").key
UNTIL = 300 * SECOND


class Pair:
    """p5 watches `aes`, which p1 keeps; messages between them go at once, unless they are lost."""

    def __init__(self, **config: Any) -> None:
        self.here = desk_of("p5", **config)
        self.here.routes.learn(Route(contact("p1"), LOW, (contact("p2"),)))
        self.watcher = Watcher(self.here)
        self.there = desk_of("p1", **config)
        self.keeper = Keeper(self.there)
        self.sync = Sync(self.there, self.keeper)
        self.sync.sure = True
        self.followers = Followers(self.there, self.keeper, self.sync)
        self.told: list[tuple[Record, ...]] = []
        self.answered: list[Any] = []

    def watch(self, now: int = 0) -> None:
        self.watcher.watch(1, Watch(AES), now)
        self.talk(now)

    def keep(self, *items: Item, now: int = 0) -> None:
        for one in items:
            self.keeper.take(one, UNTIL)
        self.followers.collect(now)

    def flush(self, now: int, *, lost: bool = False) -> None:
        self.followers.flush(now)
        if lost:
            taken(self.there)
        self.talk(now)

    def talk(self, now: int) -> None:
        waiting: deque[tuple[str, Any]] = deque()
        for _ in range(50):
            for desk in (self.here, self.there):
                effects = taken(desk)
                waiting.extend(sent(effects))
                self.answered += answers(effects)
                self.told += [n.records for n in news(effects) if isinstance(n, RecordsChanged)]
            if not waiting:
                return
            to, message = waiting.popleft()
            self.hear(to, message, now)
        raise AssertionError("it does not come to an end")

    def hear(self, to: str, message: Any, now: int) -> None:
        match message:
            case Follow() if to == "p1":
                self.followers.follow(contact("p5"), message, now)
            case Unfollow() if to == "p1":
                self.followers.unfollow(contact("p5"), message, now)
            case Changed() if to == "p5":
                self.watcher.changed(contact("p1"), message, now)
            case Elsewhere() if to == "p5":
                self.watcher.elsewhere(contact("p1"), message, now)


def test_what_is_there_is_the_first_news() -> None:
    pair = Pair()
    pair.keep(item(offer("p3"), 1))
    pair.watch()
    assert pair.answered == [Watching(AES)]
    assert pair.told == [(offer("p3"),)]


def test_an_empty_key_is_news_too() -> None:
    pair = Pair()
    pair.watch()
    assert pair.told == [()]


def test_changes_are_told_together_a_moment_later() -> None:
    pair = Pair()
    pair.watch()
    pair.keep(item(offer("p3"), 1))
    pair.keep(item(offer("p4"), 1), now=SECOND // 100)
    assert pair.there.deadlines.next == pair.there.config.watch_delay
    assert sent(taken(pair.there)) == []
    pair.flush(pair.there.config.watch_delay)
    assert pair.told == [(), (offer("p3"), offer("p4"))]


def test_a_withdrawal_and_a_renewal() -> None:
    pair = Pair()
    pair.keep(item(offer("p3"), 1))
    pair.watch()
    pair.keep(item(offer("p3"), 2, 1))
    pair.flush(SECOND)
    assert len(pair.told) == 1, "a renewal is no news"
    pair.keep(item(offer("p3"), 3, state=WITHDRAWN))
    pair.flush(2 * SECOND)
    assert pair.told[1:] == [()]


def test_what_got_lost_is_found_by_the_next_follow() -> None:
    pair = Pair()
    pair.watch()
    pair.keep(item(offer("p3"), 1))
    pair.flush(SECOND, lost=True)
    assert pair.told == [()]
    pair.watcher.pump(pair.here.config.watch_period)
    pair.talk(pair.here.config.watch_period)
    assert pair.told == [(), (offer("p3"),)]


def test_an_older_version_that_comes_late_changes_nothing() -> None:
    pair = Pair()
    pair.keep(item(offer("p3", load=0.5), 2))
    pair.watch()
    late = Changed(0, AES, (item(offer("p3"), 1),), False, 0, 1, False, LOW, ())
    pair.watcher.changed(contact("p1"), late, SECOND)
    pair.talk(SECOND)
    assert pair.told == [(offer("p3", load=0.5),)]


def test_many_records_come_in_pages() -> None:
    pair = Pair(items_max=2)
    owners = [f"p{number}" for number in range(10, 15)]
    pair.keep(*(item(offer(owner), 1) for owner in owners))
    pair.watch()
    assert pair.told == [tuple(offer(owner) for owner in owners)]


def test_a_keeper_that_is_not_sure_is_asked_again_soon_and_takes_nothing_away() -> None:
    pair = Pair()
    pair.keep(item(offer("p3"), 1))
    pair.watch()
    pair.sync.sure = False
    pair.keeper.shelf.drop(next(iter(pair.keeper.shelf.entries.values())))
    pair.watcher.pump(pair.here.config.watch_period)
    pair.talk(pair.here.config.watch_period)
    assert pair.told == [(offer("p3"),)]
    (one,) = pair.watcher.watches.values()
    assert one.due == pair.here.config.watch_period + SECOND


def test_when_the_key_moves_the_watcher_is_told_and_asks_the_ring() -> None:
    pair = Pair()
    pair.watch()
    pair.there.place.move(contact("p7"), pair.there.place.backups, 3)
    pair.there.place.low = AES
    pair.followers.moved()
    pair.talk(SECOND)
    assert pair.followers.total == 0
    assert pair.here.known(AES) is None
    (one,) = pair.watcher.watches.values()
    assert (one.number, one.due) == (0, SECOND + pair.here.config.retry_delay)


def test_who_does_not_keep_the_key_says_so() -> None:
    pair = Pair()
    pair.followers.follow(contact("p5"), Follow(3, FLOW, 0), 0)
    assert sent(taken(pair.there)) == [("p5", Elsewhere(3, FLOW))]


@pytest.mark.parametrize("how", ["silent", "lost"])
def test_a_keeper_that_is_gone_is_looked_up_anew(how: str) -> None:
    pair = Pair()
    pair.watch()
    if how == "lost":
        pair.watcher.lost(contact("p1"), SECOND)
    else:
        for now in (20 * SECOND, 30 * SECOND):
            pair.watcher.pump(now)
            taken(pair.here)
            (number,) = pair.watcher._follows
            pair.watcher.timed_out(number, now)
        assert pair.here.known(AES) is None
    (one,) = pair.watcher.watches.values()
    assert one.number == 0
    assert one.due > SECOND


def test_D1_what_no_keeper_confirms_for_a_lease_is_not_known_any_more() -> None:
    pair = Pair()
    pair.keep(item(offer("p3"), 1))
    pair.watch()
    pair.watcher.beat(pair.here.config.lease)
    pair.watcher.beat(pair.here.config.lease + 1)
    told = [n for n in news(taken(pair.here)) if isinstance(n, RecordsChanged)]
    assert [one.records for one in told] == [()]


def test_unwatched_is_told_nothing() -> None:
    pair = Pair()
    pair.watch()
    pair.watcher.unwatch(2, Unwatch(AES), SECOND)
    pair.talk(SECOND)
    assert pair.answered[-1] == Unwatched(AES)
    assert pair.followers.total == 0
    assert pair.watcher.watches == {}
    pair.watcher.unwatch(3, Unwatch(FLOW), SECOND)
    assert answers(taken(pair.here)) == [Unwatched(FLOW)]


def test_watched_again_is_told_again() -> None:
    pair = Pair()
    pair.keep(item(offer("p3"), 1))
    pair.watch()
    pair.watcher.watch(2, Watch(AES), SECOND)
    pair.talk(SECOND)
    pair.watcher.pump(pair.here.config.watch_period)
    pair.talk(pair.here.config.watch_period)
    assert pair.told == [(offer("p3"),)] * 2


@pytest.mark.parametrize(("key", "config"), [(AES[:-1], {}), (AES, {"watches_max": 0})])
def test_what_cannot_be_watched_is_said(key: bytes, config: dict[str, int]) -> None:
    pair = Pair(**config)
    pair.watcher.watch(1, Watch(key), 0)
    (answer,) = answers(taken(pair.here))
    assert isinstance(answer, UserError)


def test_followers_are_bounded_and_forgotten() -> None:
    pair = Pair(followers_max=1)
    pair.watch()
    pair.followers.follow(contact("p4"), Follow(3, AES, 0), 0)
    assert sent(taken(pair.there)) == [("p4", Elsewhere(3, AES))]
    pair.followers.beat(pair.there.config.watch_lease - 1)
    assert pair.followers.total == 1
    pair.followers.beat(pair.there.config.watch_lease)
    assert (pair.followers.total, pair.followers.by_key) == (0, {})
    pair.followers.unfollow(contact("p5"), Unfollow(AES), 0)
    assert pair.followers.total == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"key": AES[:-1]},
        {"items": (item(stream(), 1),)},
        {"items": (item(offer(), 1),) * 501},
        {"page": 1},
        {"pages": 1_001},
        {"low": LOW[:-1]},
    ],
)
def test_news_that_cannot_be_are_refused(changed: dict[str, Any]) -> None:
    pair = Pair()
    pair.watch()
    fields = {
        "number": 0,
        "key": AES,
        "items": (),
        "whole": False,
        "page": 0,
        "pages": 1,
        "sure": False,
        "low": LOW,
        "backups": (),
    }
    with pytest.raises(RemoteError):
        pair.watcher.changed(contact("p1"), Changed(**{**fields, **changed}), 0)


def test_news_of_somebody_else_are_none() -> None:
    pair = Pair()
    pair.watch()
    told = Changed(0, AES, (item(offer(), 1),), False, 0, 1, False, LOW, ())
    pair.watcher.changed(contact("p2"), told, 0)
    pair.watcher.changed(contact("p1"), Changed(99, AES, (), True, 0, 1, True, LOW, ()), 0)
    pair.watcher.elsewhere(contact("p2"), Elsewhere(0, AES), 0)
    assert sent(taken(pair.here)) == []
    assert pair.told == [()]
