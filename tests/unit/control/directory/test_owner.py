"""The owner: published until it is stored, renewed in time, withdrawn for good."""

from itertools import pairwise
from typing import Any

import pytest

from shoal.control.directory.messages import (
    LIVE,
    WITHDRAWN,
    Publish,
    Published,
    Record,
    Store,
    Stored,
    Withdraw,
    Withdrawn,
    ident_of,
)
from shoal.control.directory.owner import Owner
from shoal.control.directory.state import Route
from shoal.kernel.errors import LocalError, RemoteError, UserError
from shoal.kernel.time import SECOND
from tests.unit.control.directory.pieces import (
    answers,
    contact,
    desk_of,
    item,
    news,
    notes,
    offer,
    sent,
    stream,
    taken,
)

KEEPER = contact("p1")
LOW = contact("p6").key
AES_OFFER = offer("p5")


class Owning:
    """p5, which knows that p1 keeps `aes`, and what it has asked for."""

    def __init__(self, **config: Any) -> None:
        self.desk = desk_of("p5", **config)
        self.know()
        self.owner = Owner(self.desk)
        self.effects: list[Any] = []

    def know(self) -> None:
        self.desk.routes.learn(Route(KEEPER, LOW, (contact("p2"), contact("p3"))))

    def publish(self, *records: Record, request: int = 1, now: int = 0) -> None:
        self.owner.publish(request, Publish(records), now)
        self.look()

    def withdraw(self, *records: Record, request: int = 2, now: int = 0) -> None:
        self.owner.withdraw(request, Withdraw(tuple(map(ident_of, records))), now)
        self.look()

    def stored(self, store: Store, *, now: int = 0, **fields: Any) -> None:
        reply = Stored(store.number, LOW, (contact("p2"), contact("p3")), 3, **fields)
        self.owner.stored(KEEPER, reply, now)
        self.look()

    def look(self) -> None:
        self.owner.validate()
        self.effects = taken(self.desk)

    def beat(self, now: int) -> None:
        self.owner.beat(now)
        self.look()

    @property
    def stores(self) -> list[Store]:
        return [message for _, message in sent(self.effects) if isinstance(message, Store)]

    @property
    def answer(self) -> Any:
        (one,) = answers(self.effects)
        return one


def test_published_is_answered_when_the_keeper_has_it_and_its_copies() -> None:
    own = Owning()
    own.publish(AES_OFFER)
    (store,) = own.stores
    assert store.items[0].record == AES_OFFER
    assert answers(own.effects) == []
    own.stored(store)
    assert own.answer == Published(1, 0, 3)


def test_one_store_for_all_that_a_keeper_keeps() -> None:
    own = Owning(items_max=2)
    own.publish(*(stream("p5", f"i{number}", name="aes") for number in range(3)))
    assert [len(store.items) for store in own.stores] == [2, 1]


def test_what_has_no_known_keeper_waits_for_the_ring() -> None:
    own = Owning()
    own.publish(stream("p5"))
    assert own.stores == []
    (need,) = news(own.effects)
    assert need.key == stream("p5").key


def test_published_twice_is_stored_once() -> None:
    own = Owning()
    own.publish(AES_OFFER)
    own.stored(own.stores[0])
    own.publish(AES_OFFER, request=3)
    assert own.answer == Published(1, 0, 3)
    assert own.stores == []


def test_a_change_on_its_way_is_followed_by_the_newer_one() -> None:
    own = Owning()
    own.publish(AES_OFFER)
    (first,) = own.stores
    own.publish(offer("p5", load=0.5), request=3)
    assert own.stores != []
    own.stored(first)
    assert answers(own.effects) == [], "the content that was asked for last is not stored yet"


@pytest.mark.parametrize(
    ("records", "config", "what"),
    [
        ([offer("p6")], {}, "cannot be published by"),
        ([offer("p5"), stream("p5")], {"records_own_max": 1}, "too many records"),
        ([offer("p5")], {"questions_max": 0}, "too many records"),
    ],
)
def test_what_cannot_be_published_is_answered_with_an_error(
    records: list[Record], config: dict[str, int], what: str
) -> None:
    own = Owning(**config)
    own.publish(*records)
    assert isinstance(own.answer, UserError)
    assert what in own.answer.what
    assert own.owner.mine == {}


def test_D1_withdrawn_is_answered_when_the_keeper_knows_and_repeated_for_a_lease() -> None:
    own = Owning()
    own.publish(AES_OFFER)
    own.stored(own.stores[0])
    own.withdraw(AES_OFFER, stream("p5"))
    (store,) = own.stores
    assert store.items[0].state == WITHDRAWN
    own.stored(store)
    assert own.answer == Withdrawn(1, 0, 1)
    config = own.desk.config
    for now in range(0, config.lease, config.renew_period):
        own.beat(now + config.renew_period)
        for again in own.stores:
            assert again.items[0].state == WITHDRAWN
            own.stored(again, now=now + config.renew_period)
    own.beat(config.lease + config.renew_period)
    assert own.owner.mine == {}


def test_D3_what_takes_too_long_is_answered_with_what_is_done() -> None:
    own = Owning()
    own.publish(AES_OFFER, stream("p5"))
    own.stored(own.stores[0])
    assert answers(own.effects) == []
    own.owner.question_timed_out(next(iter(own.owner.open)))
    own.look()
    assert own.answer == Published(1, 1, 3)
    assert own.owner.mine[ident_of(stream("p5"))].state == LIVE
    own.owner.question_timed_out(99)
    own.look()
    assert own.effects == []


def test_a_record_is_renewed_before_its_lease_ends() -> None:
    own = Owning()
    own.publish(AES_OFFER)
    own.stored(own.stores[0])
    config = own.desk.config
    renewed = []
    for now in range(0, 10 * config.renew_period, config.beat_period):
        own.beat(now)
        for store in own.stores:
            renewed.append(now)
            assert store.items[0].version.since == 1
            own.stored(store, now=now)
    gaps = [later - one for one, later in pairwise(renewed)]
    assert max(gaps) <= config.renew_period
    assert min(gaps) >= config.renew_period // 2


def test_each_renewal_has_a_greater_counter() -> None:
    own = Owning()
    own.publish(AES_OFFER)
    counters = [own.stores[0].items[0].version.counter]
    own.stored(own.stores[0])
    for _ in range(3):
        own.owner.remind(KEEPER, 0)
        own.look()
        counters.append(own.stores[0].items[0].version.counter)
        own.stored(own.stores[0])
    assert counters == sorted(dict.fromkeys(counters))
    own.owner.remind(contact("p2"), 0)
    own.look()
    assert own.stores == []


def test_a_store_without_an_answer_is_repeated_and_then_the_ring_is_asked() -> None:
    own = Owning()
    own.publish(AES_OFFER)
    (store,) = own.stores
    for _ in range(own.desk.config.store_attempts - 1):
        own.owner.store_timed_out(store.number, SECOND)
        own.look()
        assert own.stores == [store]
    own.owner.store_timed_out(store.number, SECOND)
    own.look()
    assert own.owner.exchanges == {}
    assert own.desk.known(AES_OFFER.key) is None
    own.owner.pump(SECOND + own.desk.config.retry_delay)
    own.look()
    assert [need.key for need in news(own.effects)] == [AES_OFFER.key]


def test_what_travelled_to_a_lost_keeper_goes_to_the_next() -> None:
    own = Owning()
    own.publish(AES_OFFER)
    own.owner.lost(KEEPER, 0)
    own.desk.routes.learn(Route(contact("p2"), LOW, ()))
    own.owner.pump(SECOND)
    own.look()
    assert [name for name, _ in sent(own.effects)] == ["p2"]


def test_what_is_kept_elsewhere_is_asked_for_after_a_moment() -> None:
    own = Owning()
    own.publish(AES_OFFER)
    own.stored(own.stores[0], elsewhere=(0,))
    assert own.stores == []
    assert answers(own.effects) == []
    assert list(own.desk.resting) == [AES_OFFER.key]


def test_what_is_refused_is_tried_at_the_next_renewal() -> None:
    own = Owning()
    own.publish(AES_OFFER)
    own.stored(own.stores[0], refused=(0,))
    assert "1 records refused by p1" in notes(own.effects)
    own.beat(own.desk.config.renew_period)
    assert len(own.stores) == 1


def test_a_counter_that_somebody_has_seen_ahead_is_leapt_over() -> None:
    """This life began from an old disk and has said less than others have heard of it."""
    own = Owning()
    own.publish(AES_OFFER)
    own.stored(own.stores[0], ahead=900)
    assert "leaps" in notes(own.effects)
    (again,) = own.stores
    assert again.items[0].version.counter > 900
    own.stored(again)
    assert own.answer == Published(1, 0, 3)


@pytest.mark.parametrize(
    "fields", [{"elsewhere": (1,)}, {"refused": (-1,)}, {"ahead": 1 << 61}, {"ahead": -1}]
)
def test_an_answer_that_cannot_be_leaves_everything_as_it_was(fields: dict[str, Any]) -> None:
    own = Owning()
    own.publish(AES_OFFER)
    (store,) = own.stores
    with pytest.raises(RemoteError):
        own.stored(store, **fields)
    own.stored(store)
    assert own.answer == Published(1, 0, 3)


def test_an_answer_of_somebody_else_is_none() -> None:
    own = Owning()
    own.publish(AES_OFFER)
    own.owner.stored(contact("p2"), Stored(own.stores[0].number, LOW, (), 3), 0)
    own.look()
    assert own.effects == []


def test_at_the_end_everything_is_taken_back_without_waiting() -> None:
    own = Owning()
    own.publish(AES_OFFER, stream("p5"))
    own.owner.stop(SECOND)
    own.owner.answer_all()
    own.look()
    ((name, store),) = sent(own.effects)
    assert name == "p1"
    assert [one.state for one in store.items] == [WITHDRAWN]
    assert own.answer == Published(0, 2, 0)


def test_dirty_and_not_there_is_a_defect() -> None:
    own = Owning()
    own.owner.dirty[ident_of(item(AES_OFFER, 1).record)] = None
    with pytest.raises(LocalError, match="is dirty and not there"):
        own.owner.validate()
