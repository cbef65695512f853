"""The seeker's part: what is recorded under a key, asked of its keeper, or of its replicas.

    the keeper ──sure──▶ answer
        │ not sure: ask its backups too, and join what both say
        │ no answer: ask its backups
        │ not mine: ask the ring who it is
        └── question_timeout ──▶ answer with an error

Promises   D3  every Find is answered within question_timeout.
           R1  while a keeper is being replaced, its replicas answer.
"""

from dataclasses import dataclass, field

from shoal.control.directory.desk import Desk
from shoal.control.directory.keeper import Keeper
from shoal.control.directory.messages import (
    LIVE,
    Ask,
    Elsewhere,
    Find,
    Found,
    Ident,
    Item,
    Reply,
    ident_of,
)
from shoal.control.directory.policy import KEY_BYTES, check_item, check_key, replaces, unavailable
from shoal.control.directory.sync import Sync
from shoal.kernel.errors import RemoteError, UserError
from shoal.kernel.keys import Contact, Key, short
from shoal.kernel.time import Instant

__all__ = ["Seeker"]


@dataclass(slots=True)
class _Search:
    request: int
    key: Key
    #: Who is asked now, or None while the keeper is looked up.
    asked: Contact | None = None
    spare: bool = False
    #: Whom to ask next, should this one not do.
    backups: list[Contact] = field(default_factory=list)
    #: A keeper that was not sure has answered: any reply will do to end it.
    partly: bool = False
    after: Ident | None = None
    found: dict[Ident, Item] = field(default_factory=dict)
    turn: int = 0


class Seeker:
    """Finds records."""

    def __init__(self, desk: Desk, keeper: Keeper, sync: Sync) -> None:
        self.desk = desk
        self.keeper = keeper
        self.sync = sync
        self.searches: dict[int, _Search] = {}
        #: Searches whose keeper is not known yet.
        self.lost: dict[int, None] = {}
        #: What was sent last, by the number of its Ask.
        self.asks: dict[int, int] = {}

    def find(self, request: int, question: Find, now: Instant) -> None:
        """A question of this host."""
        if len(question.key) != KEY_BYTES or len(self.searches) >= self.desk.config.questions_max:
            error = UserError(
                f"key of {len(question.key)} bytes cannot be looked up",
                detail=f"a key has {KEY_BYTES} bytes; {len(self.searches)} searches are under way",
            )
            self.desk.box.answer(request, error)
            return
        number = self.desk.number()
        self.searches[number] = _Search(request, question.key)
        self.desk.deadlines.add(now + self.desk.config.question_timeout, "find", number)
        self._begin(number, now)

    def pump(self, now: Instant) -> None:
        """Go on where a keeper has become known."""
        for number in tuple(self.lost):
            self._begin(number, now)

    def _begin(self, number: int, now: Instant) -> None:
        one = self.searches[number]
        route = self.desk.keeper_of(one.key, now)
        if route is None:
            self.lost[number] = None
            return
        self.lost.pop(number, None)
        one.backups = list(route.backups)
        one.after = None
        self._ask(number, one, route.keeper, spare=False, now=now)

    def _ask(self, number: int, one: _Search, to: Contact, *, spare: bool, now: Instant) -> None:
        one.asked, one.spare = to, spare
        one.turn = self.desk.number()
        self.asks[one.turn] = number
        self.desk.deadlines.add(now + self.desk.config.ask_timeout, "ask", one.turn)
        self.desk.box.send(to, Ask(one.turn, one.key, one.after, spare))

    def ask_timed_out(self, turn: int, now: Instant) -> None:
        """Nobody answered: try a replica, then the ring."""
        number = self.asks.pop(turn, None)
        one = self.searches.get(number) if number is not None else None
        if number is None or one is None or one.turn != turn:
            return
        if not one.spare and one.asked is not None:
            self.desk.routes.forget(one.asked)
        self._next(number, one, now)

    def _next(self, number: int, one: _Search, now: Instant) -> None:
        """Ask a backup that was not asked yet; otherwise end, or look the keeper up again."""
        one.after = None
        if one.backups:
            self._ask(number, one, one.backups.pop(0), spare=True, now=now)
        elif one.partly:
            self._end(number)
        else:
            one.asked = None
            self.desk.rest(one.key, now)
            self.lost[number] = None

    def elsewhere(self, sender: Contact, message: Elsewhere, now: Instant) -> None:
        """It does not keep the key, or cannot vouch for it."""
        number = self.asks.get(message.number)
        one = self.searches.get(number) if number is not None else None
        if number is None or one is None or not _asked(one, sender, message.number):
            return
        del self.asks[message.number]
        if not one.spare:
            self.desk.refused(sender, one.key, b"", now)
            one.backups.clear()
        self._next(number, one, now)

    def reply(self, sender: Contact, message: Reply, now: Instant) -> None:
        """What somebody has under the key."""
        config = self.desk.config
        self.desk.check_route(message.low, message.backups)
        if len(message.items) > config.items_max:
            raise RemoteError(f"{len(message.items)} items at once")
        for item in message.items:
            check_item(item, config.name_bytes_max, None)
            if item.record.key != message.key:
                raise RemoteError("a record of another key than was asked for")
        number = self.asks.get(message.number)
        one = self.searches.get(number) if number is not None else None
        if number is None or one is None or not _asked(one, sender, message.number):
            return
        if one.key != message.key or (message.more and not message.items):
            raise RemoteError("a reply to another question")
        del self.asks[message.number]
        for item in message.items:
            _join(one.found, item)
        if message.more:
            one.after = ident_of(message.items[-1].record)
            self._ask(number, one, sender, spare=one.spare, now=now)
            return
        if not one.spare:
            self.desk.learn(sender, message.low, message.backups)
        if message.sure or one.spare:
            self._end(number)
        else:
            one.partly = True
            one.backups = list(message.backups)
            self._next(number, one, now)

    def _end(self, number: int) -> None:
        one = self.searches.pop(number)
        self.lost.pop(number, None)
        self.asks.pop(one.turn, None)
        items = sorted(one.found.items())
        records = tuple(item.record for _, item in items if item.state == LIVE)
        self.desk.box.answer(one.request, Found(one.key, records))

    def timed_out(self, number: int) -> None:
        """Say what is known, or that nobody could be reached (D3)."""
        one = self.searches.get(number)
        if one is None:
            return
        if one.partly:
            self._end(number)
            return
        del self.searches[number]
        self.lost.pop(number, None)
        self.asks.pop(one.turn, None)
        error = unavailable(f"records under {short(one.key)} could not be looked up")
        self.desk.box.answer(one.request, error)

    def stop(self) -> None:
        """Nobody waits for a peer that is gone."""
        for number in tuple(self.searches):
            self.timed_out(number)

    def peer_lost(self, peer: Contact, now: Instant) -> None:
        """Do not wait for whoever is gone."""
        for number, one in tuple(self.searches.items()):
            if one.asked is not None and one.asked.name == peer.name:
                self.asks.pop(one.turn, None)
                self._next(number, one, now)

    # The keeper's side

    def asked(self, sender: Contact, message: Ask, now: Instant) -> None:
        """Tell what is under the key: as its keeper, or as a replica that can vouch for it."""
        check_key(message.key)
        place, size_max = self.desk.place, self.desk.config.items_max
        sure = self.sync.vouches_for(message.key, now)
        if not (sure if message.spare else place.owns(message.key)):
            self.desk.box.send(sender, Elsewhere(message.number, message.key))
            return
        entries = self.keeper.shelf.live(message.key, now)
        if message.after is not None:
            entries = [entry for entry in entries if entry.ident > message.after]
        items = tuple(entry.item(now) for entry in entries[:size_max])
        more = len(entries) > size_max
        low = b"" if message.spare else place.low
        reply = Reply(message.number, message.key, items, more, sure, low, place.backups)
        self.desk.box.send(sender, reply)


def _asked(one: _Search, sender: Contact, turn: int) -> bool:
    return one.turn == turn and one.asked is not None and one.asked.name == sender.name


def _join(found: dict[Ident, Item], item: Item) -> None:
    ident = ident_of(item.record)
    known = found.get(ident)
    if known is None or replaces(item.version, item.state, known.version, known.state):
        found[ident] = item
