"""The seeker: asks the keeper, its backups where it is not sure, and answers in any case."""

from typing import Any

import pytest

from shoal.control.directory.keeper import Keeper
from shoal.control.directory.messages import (
    WITHDRAWN,
    Ask,
    Elsewhere,
    Find,
    Found,
    Item,
    OwnerFound,
    Reply,
    ident_of,
)
from shoal.control.directory.seeker import Seeker
from shoal.control.directory.state import Route
from shoal.control.directory.sync import Sync
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
BACKUPS = (contact("p2"), contact("p3"))


class Seeking:
    """A peer that looks for `aes`, of which it knows that p1 keeps it."""

    def __init__(self, name: str = "p5", **config: Any) -> None:
        self.desk = desk_of(name, **config)
        self.keeper = Keeper(self.desk)
        self.sync = Sync(self.desk, self.keeper)
        self.seeker = Seeker(self.desk, self.keeper, self.sync)
        if name != "p1":
            self.desk.routes.learn(Route(contact("p1"), LOW, BACKUPS))

    def find(self, key: bytes = AES, now: int = 0) -> list[tuple[str, Any]]:
        self.seeker.find(1, Find(key), now)
        return sent(taken(self.desk))

    def reply(
        self, sender: str, ask: Ask, *items: Item, sure: bool = True, more: bool = False
    ) -> list[Any]:
        told = Reply(ask.number, ask.key, items, more, sure, LOW, BACKUPS)
        self.seeker.reply(contact(sender), told, 0)
        return taken(self.desk)

    def elsewhere(self, sender: str, ask: Ask) -> list[tuple[str, Any]]:
        self.seeker.elsewhere(contact(sender), Elsewhere(ask.number, ask.key), 0)
        return sent(taken(self.desk))

    @property
    def at_rest(self) -> bool:
        return not (self.seeker.searches or self.seeker.asks or self.seeker.lost)


def test_a_keeper_that_is_sure_is_enough() -> None:
    one = Seeking()
    ((name, ask),) = one.find()
    assert (name, ask.key, ask.spare) == ("p1", AES, False)
    effects = one.reply("p1", ask, item(offer("p6"), 1), item(offer("p5"), 1))
    assert answers(effects) == [Found(AES, (offer("p5"), offer("p6")))]
    assert one.at_rest


def test_R1_a_keeper_that_is_not_sure_is_joined_with_its_replicas() -> None:
    """The newest of what they say holds, also where that is a withdrawal."""
    one = Seeking()
    ((_, ask),) = one.find()
    effects = one.reply("p1", ask, item(offer("p5"), 1), item(offer("p6"), 1), sure=False)
    ((name, again),) = sent(effects)
    assert (name, again.spare) == ("p2", True)
    gone = item(offer("p5"), 2, state=WITHDRAWN)
    effects = one.reply("p2", again, gone, item(offer("p4"), 1))
    assert answers(effects) == [Found(AES, (offer("p4"), offer("p6")))]


def test_R1_a_silent_keeper_has_replicas_that_answer() -> None:
    one = Seeking()
    ((_, ask),) = one.find()
    one.seeker.ask_timed_out(ask.number, SECOND)
    ((name, again),) = sent(taken(one.desk))
    assert (name, again.spare) == ("p2", True)
    assert one.desk.known(AES) is None
    ((name, third),) = one.elsewhere("p2", again)
    assert name == "p3"
    assert answers(one.reply("p3", third, item(offer(), 1))) == [Found(AES, (offer(),))]


def test_when_nobody_answers_the_ring_is_asked_again() -> None:
    one = Seeking()
    ((_, ask),) = one.find()
    for _ in range(3):
        one.seeker.ask_timed_out(ask.number, SECOND)
        out = sent(taken(one.desk))
        ask = out[0][1] if out else ask
    assert list(one.seeker.lost)
    later = SECOND + one.desk.config.retry_delay
    one.seeker.pump(later)
    (need,) = news(taken(one.desk))
    one.desk.found(OwnerFound(need.token, AES, contact("p2")), later)
    one.seeker.pump(later)
    ((name, ask),) = sent(taken(one.desk))
    assert (name, ask.spare) == ("p2", False)


def test_who_does_not_keep_the_key_is_not_asked_again() -> None:
    one = Seeking()
    ((_, ask),) = one.find()
    assert one.elsewhere("p2", ask) == [], "somebody else said so"
    assert one.elsewhere("p1", ask) == []
    assert one.desk.known(AES) is None
    assert list(one.seeker.lost)


def test_nobody_waits_for_a_peer_that_is_lost() -> None:
    one = Seeking()
    one.find()
    one.seeker.peer_lost(contact("p3"), 0)
    assert sent(taken(one.desk)) == []
    one.seeker.peer_lost(contact("p1"), 0)
    ((name, _),) = sent(taken(one.desk))
    assert name == "p2"


def test_many_records_come_in_parts() -> None:
    asker, keeper = Seeking(items_max=2), Seeking("p1", items_max=2)
    keeper.sync.sure = True
    owners = [f"p{number}" for number in range(10, 15)]
    for owner in owners:
        keeper.keeper.take(item(offer(owner), 1), 90 * SECOND)
    out = asker.find()
    for _ in range(10):
        ((_, ask),) = out
        keeper.seeker.asked(contact("p5"), ask, 0)
        ((_, reply),) = sent(taken(keeper.desk))
        asker.seeker.reply(contact("p1"), reply, 0)
        effects = taken(asker.desk)
        out = sent(effects)
        if not out:
            break
    assert answers(effects) == [Found(AES, tuple(map(offer, owners)))]


@pytest.mark.parametrize("known", [False, True])
def test_D3_what_takes_too_long_is_answered(*, known: bool) -> None:
    one = Seeking()
    ((_, ask),) = one.find()
    if known:
        one.reply("p1", ask, item(offer(), 1), sure=False)
    (number,) = one.seeker.searches
    one.seeker.timed_out(number)
    (answer,) = answers(taken(one.desk))
    if known:
        assert answer == Found(AES, (offer(),))
    else:
        assert isinstance(answer, UserError)
        assert "could not be looked up" in answer.what
    assert one.at_rest
    one.seeker.timed_out(number)
    assert taken(one.desk) == []


def test_D3_nobody_waits_for_a_peer_that_stops() -> None:
    one = Seeking()
    one.find()
    one.seeker.stop()
    assert len(answers(taken(one.desk))) == 1
    assert one.at_rest


@pytest.mark.parametrize(("key", "config"), [(AES[:-1], {}), (AES, {"questions_max": 0})])
def test_what_cannot_be_looked_up_is_said(key: bytes, config: dict[str, int]) -> None:
    one = Seeking(**config)
    one.seeker.find(1, Find(key), 0)
    (answer,) = answers(taken(one.desk))
    assert isinstance(answer, UserError)


@pytest.mark.parametrize(
    "changed",
    [
        {"items": (item(stream(), 1),)},
        {"items": (item(offer("p4"), 1),) * 501},
        {"low": LOW[:-1]},
        {"key": FLOW},
        {"more": True},
    ],
)
def test_a_reply_that_cannot_be_is_refused_and_the_right_one_still_counts(
    changed: dict[str, Any],
) -> None:
    one = Seeking()
    ((_, ask),) = one.find()
    fields = {
        "number": ask.number,
        "key": AES,
        "items": (),
        "more": False,
        "sure": True,
        "low": LOW,
        "backups": BACKUPS,
    }
    with pytest.raises(RemoteError):
        one.seeker.reply(contact("p1"), Reply(**{**fields, **changed}), 0)
    assert answers(one.reply("p1", ask, item(offer(), 1))) == [Found(AES, (offer(),))]


def test_a_reply_of_somebody_else_or_too_late_is_none() -> None:
    one = Seeking()
    ((_, ask),) = one.find()
    assert one.reply("p2", ask, item(offer(), 1)) == []
    one.seeker.ask_timed_out(ask.number, SECOND)
    taken(one.desk)
    assert one.reply("p1", ask, item(offer(), 1)) == []


# --- the keeper's side --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "spare", "sure", "kind"),
    [
        ("p1", False, True, Reply),
        ("p1", False, False, Reply),
        ("p2", False, True, Elsewhere),
        ("p2", True, False, Elsewhere),
        ("p2", True, True, Reply),
    ],
)
def test_a_keeper_answers_and_a_replica_only_where_it_can_vouch(
    name: str, kind: type, *, spare: bool, sure: bool
) -> None:
    one = Seeking(name)
    one.keeper.take(item(offer(), 1), 90 * SECOND)
    one.sync.sure = sure
    if name != "p1" and sure:
        one.sync._vouch(LOW, contact("p1").key, 0)
    one.seeker.asked(contact("p5"), Ask(4, AES, None, spare), 0)
    ((to, reply),) = sent(taken(one.desk))
    assert (to, type(reply)) == ("p5", kind)
    if isinstance(reply, Reply):
        assert reply.sure is sure
        assert [one.record for one in reply.items] == [offer()]


def test_what_is_asked_behind_an_identity_leaves_out_what_is_before() -> None:
    one = Seeking("p1")
    for owner in ("p4", "p5", "p6"):
        one.keeper.take(item(offer(owner), 1), 90 * SECOND)
    one.seeker.asked(contact("p5"), Ask(4, AES, ident_of(offer("p4"))), 0)
    ((_, reply),) = sent(taken(one.desk))
    assert [one.record.owner.name for one in reply.items] == ["p5", "p6"]


def test_a_key_that_is_none_is_refused() -> None:
    with pytest.raises(RemoteError, match="19 bytes"):
        Seeking("p1").seeker.asked(contact("p5"), Ask(4, AES[:-1]), 0)
