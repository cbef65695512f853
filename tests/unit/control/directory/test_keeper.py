"""The keeper: the newest wins, copies come before acknowledgements, and leases end."""

import pytest

from shoal.control.directory.keeper import Keeper, Outcome
from shoal.control.directory.messages import (
    EXPIRED,
    LIVE,
    WITHDRAWN,
    Item,
    Push,
    Pushed,
    Remind,
    Store,
    Stored,
    ident_of,
)
from shoal.kernel.errors import LocalError, RemoteError
from shoal.kernel.time import SECOND
from tests.unit.control.directory.pieces import (
    AES,
    contact,
    desk_of,
    item,
    offer,
    sent,
    stream,
    taken,
)

OWNER = contact("p5")
LOW = contact("p6").key
UNTIL = 80 * SECOND


def keeper_of(name: str = "p1", **config: int) -> Keeper:
    return Keeper(desk_of(name, **config))


def said(keeper: Keeper) -> list[tuple[str, object]]:
    return sent(taken(keeper.desk))


def store(keeper: Keeper, *items: Item, number: int = 1, now: int = 0) -> list[tuple[str, object]]:
    """The owner stores; what the keeper says to that."""
    keeper.store(OWNER, Store(number, items), now)
    keeper.validate()
    return said(keeper)


def copied(keeper: Keeper, out: list[tuple[str, object]]) -> list[tuple[str, object]]:
    """Every backup has what it was sent."""
    for name, message in out:
        if isinstance(message, Push):
            keeper.pushed(contact(name), Pushed(message.number), 0)
    return said(keeper)


# --- what is let in -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "outcome", "state", "counter"),
    [
        (item(offer(), 1), item(offer(load=0.5), 2), Outcome.CHANGED, LIVE, 2),
        (item(offer(), 1), item(offer(), 2, 1), Outcome.RENEWED, LIVE, 2),
        (item(offer(), 2), item(offer(), 2), Outcome.SAME, LIVE, 2),
        (item(offer(), 2), item(offer(), 1), Outcome.OLDER, LIVE, 2),
        (item(offer(), 2), item(offer(), 3, state=WITHDRAWN), Outcome.CHANGED, WITHDRAWN, 3),
        (item(offer(), 3, state=WITHDRAWN), item(offer(), 2), Outcome.OLDER, WITHDRAWN, 3),
        (item(offer(), 3, state=WITHDRAWN), item(offer(), 4), Outcome.CHANGED, LIVE, 4),
        (item(offer(), 2), item(offer(), 2, state=EXPIRED), Outcome.CHANGED, EXPIRED, 2),
        (item(offer(), 9), item(offer(life=2), 1), Outcome.CHANGED, LIVE, 1),
        (item(offer(life=2), 1), item(offer(), 9), Outcome.OLDER, LIVE, 1),
    ],
)
def test_D2_the_newest_wins_in_whatever_order_they_come(
    first: Item, second: Item, outcome: Outcome, state: int, counter: int
) -> None:
    keeper = keeper_of()
    keeper.take(first, UNTIL)
    assert keeper.take(second, UNTIL) is outcome
    entry = keeper.shelf.entries[ident_of(first.record)]
    assert (entry.state, entry.version.counter) == (state, counter)
    keeper.shelf.audit()


def test_D1_an_expired_item_of_which_nothing_is_known_is_not_kept() -> None:
    keeper = keeper_of()
    assert keeper.take(item(offer(), 2, state=EXPIRED), UNTIL) is Outcome.SAME
    assert len(keeper.shelf) == 0


def test_D1_a_peer_that_has_started_again_runs_nothing_of_what_it_ran_before() -> None:
    keeper = keeper_of()
    keeper.take(item(offer(), 5), UNTIL)
    keeper.take(item(stream(), 6), UNTIL)
    keeper.take(item(offer(life=2), 1), UNTIL)
    states = {one.ident.thing: one.state for one in keeper.shelf.entries.values()}
    assert states == {"aes": LIVE, "ingest-1": EXPIRED}
    assert keeper.take(item(stream(), 7), UNTIL) is Outcome.OLDER


def test_there_is_room_for_so_many() -> None:
    keeper = keeper_of(entries_max=1)
    assert keeper.take(item(offer(), 1), UNTIL) is Outcome.CHANGED
    assert keeper.take(item(offer("p6"), 1), UNTIL) is Outcome.FULL
    assert keeper.take(item(offer(), 2), UNTIL) is Outcome.CHANGED


# --- from owners --------------------------------------------------------------------------------


def test_R1_what_is_new_is_acknowledged_when_every_backup_has_it() -> None:
    keeper = keeper_of()
    out = store(keeper, item(offer(), 1))
    assert [(name, type(message)) for name, message in out] == [("p2", Push), ("p3", Push)]
    first, second = (message for _, message in out)
    assert isinstance(first, Push)
    assert isinstance(second, Push)
    keeper.pushed(contact("p3"), Pushed(first.number), 0)
    assert said(keeper) == [], "a number that was not this peer's to acknowledge"
    keeper.pushed(contact("p2"), Pushed(first.number), 0)
    assert said(keeper) == []
    keeper.pushed(contact("p3"), Pushed(second.number), 0)
    ((name, stored),) = said(keeper)
    assert name == "p5"
    assert isinstance(stored, Stored)
    assert (stored.number, stored.copies, stored.low) == (1, 3, LOW)
    assert keeper.receipts == {}


def test_R1_a_store_that_comes_again_is_not_taken_for_copied() -> None:
    """The first Stored said 2 copies and was lost; the second must not say 3."""
    keeper = keeper_of()
    (_, first), (_, second) = store(keeper, item(offer(), 1))
    assert isinstance(first, Push)
    assert isinstance(second, Push)
    keeper.pushed(contact("p2"), Pushed(first.number), 0)
    for _ in range(keeper.desk.config.push_attempts):
        keeper.push_timed_out(second.number, 0)
    assert said(keeper)[-1][1] == Stored(1, LOW, keeper.desk.place.backups, 2)
    again = store(keeper, item(offer(), 1))
    assert [(name, type(message)) for name, message in again] == [("p3", Push)]
    assert copied(keeper, again) == [("p5", Stored(1, LOW, keeper.desk.place.backups, 3))]


def test_R1_a_renewal_waits_for_a_backup_that_never_heard_of_the_record() -> None:
    keeper = keeper_of()
    keeper.take(item(offer(), 1), UNTIL)
    out = store(keeper, item(offer(), 2, 1), number=2)
    assert [(name, type(message)) for name, message in out] == [("p2", Push), ("p3", Push)]
    ((_, stored),) = copied(keeper, out)
    assert isinstance(stored, Stored)
    assert stored.copies == 3


def test_R1_a_copy_of_what_has_changed_since_does_not_count() -> None:
    keeper = keeper_of()
    late = store(keeper, item(offer(), 1))
    store(keeper, item(offer(load=0.5), 2), number=2)
    stored = [message for _, message in copied(keeper, late) if isinstance(message, Stored)]
    assert [(one.number, one.copies) for one in stored] == [(1, 1)]
    (entry,) = keeper.shelf.entries.values()
    assert entry.copied == ()


def test_R1_copies_count_while_the_ring_stays_as_it_is() -> None:
    keeper, place = keeper_of(), contact("p6")
    copied(keeper, store(keeper, item(offer(), 1)))
    (entry,) = keeper.shelf.entries.values()
    assert keeper.copies_of(entry) == 3
    keeper.desk.place.move(place, (contact("p3"), contact("p4")), 3)
    keeper.moved(0)
    assert keeper.copies_of(entry) == 2, "p4 has not said anything"
    keeper.desk.place.move(place, (contact("p3", 2), contact("p4")), 3)
    keeper.moved(0)
    assert keeper.copies_of(entry) == 1, "p3 has started again, and holds nothing"


def test_R1_copies_of_a_range_that_another_kept_meanwhile_do_not_count() -> None:
    keeper = keeper_of()
    copied(keeper, store(keeper, item(offer(), 1)))
    (entry,) = keeper.shelf.entries.values()
    backups = keeper.desk.place.backups
    keeper.desk.place.move(keeper.desk.me, backups, 3)
    keeper.desk.place.low = entry.ident.key
    keeper.moved(0)
    keeper.desk.place.move(contact("p6"), backups, 3)
    keeper.moved(0)
    assert keeper.copies_of(entry) == 1


def test_R1_who_has_stood_still_knows_of_no_copies() -> None:
    keeper = keeper_of()
    copied(keeper, store(keeper, item(offer(), 1)))
    keeper.paused()
    (entry,) = keeper.shelf.entries.values()
    assert keeper.copies_of(entry) == 1


def test_R1_who_is_no_backup_is_not_counted() -> None:
    keeper = keeper_of()
    keeper.take(item(offer(), 1), UNTIL)
    (entry,) = keeper.shelf.entries.values()
    keeper.has(contact("p4"), entry)
    keeper.has(contact("p2", 2), entry)
    assert keeper.copies_of(entry) == 1
    keeper.has(contact("p2"), entry)
    keeper.has(contact("p2"), entry)
    assert keeper.copies_of(entry) == 2


def test_a_mere_renewal_is_acknowledged_at_once_and_copied_at_the_next_beat() -> None:
    keeper = keeper_of()
    copied(keeper, store(keeper, item(offer(), 1)))
    ((name, stored),) = store(keeper, item(offer(), 2, 1), number=2, now=5 * SECOND)
    assert (name, type(stored)) == ("p5", Stored)
    keeper.beat(6 * SECOND)
    out = said(keeper)
    assert [name for name, _ in out] == ["p2", "p3"]
    for _, message in out:
        assert isinstance(message, Push)
        assert message.number == 0
        assert message.items[0].left == UNTIL - SECOND
    keeper.beat(7 * SECOND)
    assert said(keeper) == []


def test_what_is_not_kept_here_is_said_to_be_elsewhere() -> None:
    keeper = keeper_of()
    out = copied(keeper, store(keeper, item(stream(), 1), item(offer(), 2)))
    ((_, stored),) = out
    assert isinstance(stored, Stored)
    assert stored.elsewhere == (0,)
    assert len(keeper.shelf) == 1


def test_an_owner_that_began_from_an_old_disk_hears_how_far_it_was() -> None:
    keeper = keeper_of()
    copied(keeper, store(keeper, item(offer(), 9)))
    ((_, stored),) = store(keeper, item(offer(), 3), number=2)
    assert isinstance(stored, Stored)
    assert (stored.ahead, stored.refused) == (9, ())


@pytest.mark.parametrize("why", ["full", "an earlier life"])
def test_what_cannot_be_taken_is_refused(why: str) -> None:
    keeper = keeper_of(entries_max=1)
    if why == "full":
        keeper.take(item(offer("p6"), 1), UNTIL)
    else:
        keeper.take(item(offer(life=2), 1), UNTIL)
    ((_, stored),) = store(keeper, item(offer(), 1))
    assert isinstance(stored, Stored)
    assert stored.refused == (0,)


def test_a_store_that_comes_twice_is_one() -> None:
    keeper = keeper_of()
    out = store(keeper, item(offer(), 1))
    assert store(keeper, item(offer(), 1)) == []
    assert len(copied(keeper, out)) == 1


def test_a_batch_too_long_and_a_record_of_another_are_the_senders_mistake() -> None:
    keeper = keeper_of(items_max=1)
    with pytest.raises(RemoteError, match="2 records at once"):
        store(keeper, item(offer(), 1), item(stream(), 2))
    with pytest.raises(RemoteError, match="does not own it"):
        store(keeper, item(offer("p6"), 1))
    assert len(keeper.shelf) == 0


def test_a_lease_is_what_the_keeper_gives_and_not_what_the_owner_says() -> None:
    keeper = keeper_of()
    store(keeper, item(offer(), 1, left=1_000 * SECOND))
    (entry,) = keeper.shelf.entries.values()
    assert entry.until == keeper.desk.config.lease


# --- between keeper and replica -----------------------------------------------------------------


def test_a_push_is_repeated_and_then_left_to_the_next_comparison() -> None:
    keeper = keeper_of()
    store(keeper, item(offer(), 1))
    numbers = list(keeper.pushes)
    for _ in range(keeper.desk.config.push_attempts - 1):
        for number in numbers:
            keeper.push_timed_out(number, 0)
        assert [name for name, _ in said(keeper)] == ["p2", "p3"]
    for number in numbers:
        keeper.push_timed_out(number, 0)
    ((_, stored),) = said(keeper)
    assert isinstance(stored, Stored)
    assert stored.copies == 1
    assert keeper.pushes == {}
    keeper.push_timed_out(numbers[0], 0)
    assert said(keeper) == []


def test_who_is_no_backup_any_longer_owes_no_copy() -> None:
    keeper = keeper_of()
    store(keeper, item(offer(), 1))
    keeper.desk.place.move(contact("p6"), (contact("p3"), contact("p4")), 3)
    keeper.moved(0)
    assert [one.to.name for one in keeper.pushes.values()] == ["p3"]


def test_a_replica_holds_what_the_keeper_of_the_range_sends() -> None:
    replica = keeper_of("p2")
    replica.hold(contact("p1"), Push(7, LOW, (item(offer(), 1, left=9 * SECOND),)), 0)
    assert said(replica) == [("p1", Pushed(7))]
    (entry,) = replica.shelf.entries.values()
    assert entry.until == 9 * SECOND
    replica.hold(contact("p1"), Push(0, LOW, (item(offer(), 2, 1),)), 0)
    assert said(replica) == []


def test_R1_a_replica_without_room_does_not_say_that_it_holds() -> None:
    replica = keeper_of("p2", entries_max=1)
    both = (item(offer(), 1), item(offer("p6"), 1))
    replica.hold(contact("p1"), Push(7, LOW, both), 0)
    assert said(replica) == []
    assert len(replica.shelf) == 1


def test_D1_a_copy_never_outlives_an_original() -> None:
    replica = keeper_of("p2")
    replica.hold(contact("p1"), Push(0, LOW, (item(offer(), 1, left=1 << 60),)), 0)
    (entry,) = replica.shelf.entries.values()
    assert entry.until == replica.desk.config.lease


def test_a_keeper_of_something_else_is_not_believed() -> None:
    replica = keeper_of("p2")
    with pytest.raises(RemoteError, match="does not keep"):
        replica.hold(contact("p1"), Push(1, LOW, (item(stream(), 1),)), 0)
    with pytest.raises(RemoteError, match="19 bytes"):
        replica.hold(contact("p1"), Push(1, LOW[:-1], ()), 0)
    assert len(replica.shelf) == 0


def test_news_that_replicas_give_are_counted() -> None:
    keeper = keeper_of()
    keeper.take(item(offer(), 1), UNTIL)
    given = (item(offer(), 2, 1), item(offer("p6"), 1))
    assert keeper.receive(given, contact("p1"), LOW, 0) == 1


# --- upkeep -------------------------------------------------------------------------------------


def test_D1_a_lease_that_ends_is_remembered_for_its_time_and_then_forgotten() -> None:
    keeper = keeper_of()
    keeper.take(item(offer(), 1), UNTIL)
    keeper.beat(UNTIL - 1)
    assert len(keeper.shelf.live(AES, UNTIL - 1)) == 1
    keeper.beat(UNTIL)
    (entry,) = keeper.shelf.entries.values()
    assert entry.state == EXPIRED
    assert keeper.take(item(offer(), 1), UNTIL + SECOND) is Outcome.SAME
    over = UNTIL + keeper.desk.config.tombstone_life
    keeper.beat(over - 1)
    assert len(keeper.shelf) == 1
    keeper.beat(over)
    assert len(keeper.shelf) == 0


def test_an_owner_that_is_said_to_be_lost_is_asked_and_its_leases_shrink() -> None:
    keeper = keeper_of()
    keeper.take(item(offer(), 1), UNTIL)
    keeper.lost(OWNER, 0)
    assert said(keeper) == [("p5", Remind())]
    (entry,) = keeper.shelf.entries.values()
    assert entry.until == keeper.desk.config.suspect_lease
    keeper.lost(contact("p6"), 0)
    assert said(keeper) == []


def test_a_later_life_is_not_lost_with_the_earlier() -> None:
    keeper = keeper_of()
    keeper.take(item(offer(life=2), 1), UNTIL)
    keeper.lost(OWNER, 0)
    assert said(keeper) == []


def test_nothing_that_was_renewed_is_left_uncopied_at_the_end() -> None:
    keeper = keeper_of()
    copied(keeper, store(keeper, item(offer(), 1)))
    store(keeper, item(offer(), 2, 1), number=2)
    keeper.stop(SECOND)
    assert [name for name, _ in said(keeper)] == ["p2", "p3"]


def test_a_push_for_a_receipt_that_is_answered_is_a_defect() -> None:
    keeper = keeper_of()
    store(keeper, item(offer(), 1))
    next(iter(keeper.receipts.values())).left = 0
    with pytest.raises(LocalError, match="a push for a receipt"):
        keeper.validate()
