"""The owner's part: what this peer publishes, kept alive at its keepers.

    published ──▶ dirty ──Store──▶ sent ──Stored──▶ settled ──renew_period──▶ dirty (a renewal)
                   ▲                 │ refused, timed out, keeper lost
                   └─────────────────┘

Records go to their keepers in batches, one Store for all that a keeper keeps. A withdrawal is
sent the same way, and repeated for as long as a copy of the record may have a lease: so it
reaches whoever keeps the key by then, also after a partition.

Promises   D1  what is withdrawn is gone at its keeper when the answer says so, and stays gone.
           D3  every Publish and Withdraw is answered within question_timeout.
"""

from dataclasses import dataclass, field

from shoal.control.directory.desk import Desk
from shoal.control.directory.messages import (
    LIVE,
    WITHDRAWN,
    Ident,
    Item,
    Publish,
    Published,
    Record,
    Store,
    Stored,
    Version,
    Withdraw,
    Withdrawn,
    ident_of,
)
from shoal.control.directory.policy import INCARNATION_MAX, check_own, chunks
from shoal.control.directory.state import Route
from shoal.kernel.errors import LocalError, RemoteError, UserError
from shoal.kernel.keys import Contact
from shoal.kernel.time import Instant

__all__ = ["Own", "Owner"]

#: A counter never leaps further than this at the word of a keeper.
_LEAP_MAX = 1 << 40


@dataclass(slots=True)
class Own:
    """One record of this peer, or its withdrawal."""

    ident: Ident
    record: Record
    version: Version
    state: int
    #: When to send it next, if it is settled.
    due: Instant = 0
    #: The number of the Store it travels in, or 0.
    exchange: int = 0
    #: Who holds it, and in how many copies; 0 until its newest content is stored.
    keeper: str = ""
    copies: int = 0
    #: A withdrawal: repeated until then.
    until: Instant = 0


@dataclass(slots=True)
class _Exchange:
    keeper: Contact
    message: Store
    owns: list[Own]
    attempts: int = 1


@dataclass(slots=True)
class _Open:
    """A question that waits; `left` says which change of which record is still on its way."""

    request: int
    withdraws: bool
    total: int
    unknown: int = 0
    copies: int = 0
    left: dict[Ident, int] = field(default_factory=dict)


class Owner:
    """Publishes, renews and withdraws."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.mine: dict[Ident, Own] = {}
        self.dirty: dict[Ident, None] = {}
        self.exchanges: dict[int, _Exchange] = {}
        self.open: dict[int, _Open] = {}
        self._awaited: dict[Ident, list[int]] = {}
        self.counter = 0

    # Questions

    def publish(self, request: int, question: Publish, now: Instant) -> None:
        """Take records over, and send what is new."""
        config = self.desk.config
        records = {ident_of(record): record for record in question.records}
        wrong = self._refusal(records)
        if wrong is not None:
            self.desk.box.answer(request, wrong)
            return
        one = _Open(request, withdraws=False, total=len(records), copies=config.copies)
        for ident, record in records.items():
            own = self.mine.get(ident)
            if own is None or own.state != LIVE or own.record != record:
                own = self._change(ident, record, LIVE, own)
            if own.copies == 0:
                one.left[ident] = own.version.since
            else:
                one.copies = min(one.copies, own.copies)
        self._ask(one, now)

    def withdraw(self, request: int, question: Withdraw, now: Instant) -> None:
        """Take records back."""
        idents = dict.fromkeys(question.idents)
        one = _Open(request, withdraws=True, total=0)
        for ident in idents:
            own = self.mine.get(ident)
            if own is None:
                one.unknown += 1
                continue
            one.total += 1
            if own.state == LIVE:
                own = self._change(ident, own.record, WITHDRAWN, own)
                own.until = now + self.desk.config.lease + self.desk.config.renew_period
            if own.copies == 0:
                one.left[ident] = own.version.since
        self._ask(one, now)

    def _refusal(self, records: dict[Ident, Record]) -> UserError | None:
        config = self.desk.config
        for record in records.values():
            wrong = check_own(record, self.desk.me, config.name_bytes_max)
            if wrong is not None:
                return wrong
        total = len(self.mine) + sum(ident not in self.mine for ident in records)
        if total > config.records_own_max or len(self.open) >= config.questions_max:
            return UserError(
                "too many records of one peer",
                detail=f"{total} of at most {config.records_own_max}",
                hint="publish one record per instance, never one per query",
            )
        return None

    def _change(self, ident: Ident, record: Record, state: int, own: Own | None) -> Own:
        self.counter += 1
        version = Version(self.desk.me.incarnation, self.counter, self.counter)
        if own is None:
            own = self.mine[ident] = Own(ident, record, version, state)
        else:
            own.record, own.version, own.state = record, version, state
            own.due = own.copies = 0
        self.dirty[ident] = None
        return own

    def _ask(self, one: _Open, now: Instant) -> None:
        if not one.left:
            self._answer(one)
            return
        number = self.desk.number()
        self.open[number] = one
        for ident in one.left:
            self._awaited.setdefault(ident, []).append(number)
        self.desk.deadlines.add(now + self.desk.config.question_timeout, "publish", number)
        self.pump(now)

    def _answer(self, one: _Open) -> None:
        waiting = len(one.left)
        done = one.total - waiting
        if one.withdraws:
            self.desk.box.answer(one.request, Withdrawn(done, waiting, one.unknown))
        else:
            self.desk.box.answer(one.request, Published(done, waiting, one.copies if done else 0))

    def question_timed_out(self, number: int) -> None:
        """Answer with what is done by now; the rest goes on."""
        one = self.open.pop(number, None)
        if one is None:
            return
        for ident in one.left:
            self._no_longer(ident, number)
        self._answer(one)

    def _no_longer(self, ident: Ident, number: int) -> None:
        waiting = self._awaited[ident]
        waiting.remove(number)
        if not waiting:
            del self._awaited[ident]

    # Sending

    def pump(self, now: Instant) -> None:
        """Send what is dirty and whose keeper is known, one Store per keeper."""
        if not self.dirty:
            return
        groups: dict[str, tuple[Route, list[Own]]] = {}
        for ident in self.dirty:
            route = self.desk.keeper_of(ident.key, now)
            if route is not None:
                group = groups.setdefault(route.keeper.name, (route, []))
                group[1].append(self.mine[ident])
        for route, owns in groups.values():
            for part in chunks(owns, self.desk.config.items_max):
                self._send(route.keeper, list(part), now)

    def _send(self, keeper: Contact, owns: list[Own], now: Instant) -> None:
        number = self.desk.number()
        for own in owns:
            # Sent again, it is another renewal: a keeper that had the last one begins a new lease.
            self.counter += 1
            own.version = Version(own.version.incarnation, self.counter, own.version.since)
        items = tuple(Item(own.record, own.version, own.state) for own in owns)
        message = Store(number, items)
        for own in owns:
            own.exchange = number
            del self.dirty[own.ident]
        self.exchanges[number] = _Exchange(keeper, message, owns)
        self.desk.deadlines.add(now + self.desk.config.store_timeout, "store", number)
        self.desk.box.send(keeper, message)

    def stored(self, sender: Contact, message: Stored, now: Instant) -> None:
        """A keeper has taken a batch, or parts of it."""
        exchange = self.exchanges.get(message.number)
        if exchange is None or exchange.keeper.name != sender.name:
            return
        self._check(message, len(exchange.owns))
        del self.exchanges[message.number]
        self.desk.learn(sender, message.low, message.backups)
        if message.ahead > self.counter:
            self._leap(exchange.owns, message.ahead)
        config = self.desk.config
        elsewhere = dict.fromkeys(message.elsewhere)
        refused = dict.fromkeys(message.refused)
        due = now + config.renew_period - self.desk.rng.below(config.renew_period // 4)
        for at, (own, item) in enumerate(zip(exchange.owns, exchange.message.items, strict=True)):
            if own.exchange != message.number:
                continue
            own.exchange = 0
            if at in elsewhere:
                self._again(own)
                self.desk.refused(sender, own.ident.key, message.low, now)
            elif at in refused:
                own.due = now + config.renew_period
            elif item.version.since != own.version.since:
                self._again(own)
            else:
                self._settled(own, sender, message.copies, due)
        if refused:
            self.desk.box.note(f"{len(refused)} records refused by {sender.name}")
        self.pump(now)

    def _check(self, message: Stored, size: int) -> None:
        self.desk.check_route(message.low, message.backups)
        if any(not 0 <= at < size for at in message.elsewhere + message.refused):
            raise RemoteError("a keeper refuses what it was not sent")
        if not 0 <= message.ahead < min(self.counter + _LEAP_MAX, INCARNATION_MAX):
            raise RemoteError("a keeper has seen an impossible counter")

    def _again(self, own: Own) -> None:
        if self.mine.get(own.ident) is own:
            self.dirty[own.ident] = None

    def _leap(self, owns: list[Own], ahead: int) -> None:
        """Somebody has seen newer versions of this incarnation: it began from an old disk."""
        self.desk.box.note(f"counter leaps from {self.counter} to {ahead}")
        self.counter = ahead
        for own in owns:
            if self.mine.get(own.ident) is own:
                self._change(own.ident, own.record, own.state, own)
                for number in self._awaited.get(own.ident, ()):
                    self.open[number].left[own.ident] = own.version.since

    def _settled(self, own: Own, keeper: Contact, copies: int, due: Instant) -> None:
        own.due, own.keeper, own.copies = due, keeper.name, copies
        for number in self._awaited.pop(own.ident, ()):
            one = self.open[number]
            del one.left[own.ident]
            one.copies = min(one.copies, copies)
            if not one.left:
                del self.open[number]
                self._answer(one)

    def store_timed_out(self, number: int, now: Instant) -> None:
        """Some times to the same keeper, then to whoever the ring says it is."""
        exchange = self.exchanges.get(number)
        if exchange is None:
            return
        if exchange.attempts < self.desk.config.store_attempts:
            exchange.attempts += 1
            self.desk.deadlines.add(now + self.desk.config.store_timeout, "store", number)
            self.desk.box.send(exchange.keeper, exchange.message)
            return
        self._give_up(number, now)
        self.pump(now)

    def _give_up(self, number: int, now: Instant) -> None:
        exchange = self.exchanges.pop(number)
        self.desk.routes.forget(exchange.keeper)
        for own in exchange.owns:
            if own.exchange == number:
                own.exchange = 0
                self._again(own)
                self.desk.rest(own.ident.key, now)

    # Upkeep

    def beat(self, now: Instant) -> None:
        """Renew what is due before the next beat."""
        horizon = now + self.desk.config.beat_period
        ended = []
        for ident, own in self.mine.items():
            if own.exchange:
                continue
            if own.state == WITHDRAWN and own.until <= now:
                ended.append(ident)
            elif 0 < own.due <= horizon:
                self.dirty[own.ident] = None
        for ident in ended:
            del self.mine[ident]
            self.dirty.pop(ident, None)
        self.pump(now)

    def remind(self, sender: Contact, now: Instant) -> None:
        """A keeper was told that this peer is lost: say that it is not."""
        for own in self.mine.values():
            if own.keeper == sender.name and not own.exchange:
                self.dirty[own.ident] = None
        self.pump(now)

    def lost(self, peer: Contact, now: Instant) -> None:
        """What travelled to this peer goes to whoever keeps it now."""
        numbers = [n for n, one in self.exchanges.items() if one.keeper.name == peer.name]
        for number in numbers:
            self._give_up(number, now)

    def answer_all(self) -> None:
        """Nobody waits for a peer that is gone."""
        for number in tuple(self.open):
            self.question_timed_out(number)

    def stop(self, now: Instant) -> None:
        """Take everything back, without waiting for an answer."""
        del now
        groups: dict[str, tuple[Contact, list[Own]]] = {}
        for own in self.mine.values():
            route = None if own.state != LIVE else self.desk.known(own.ident.key)
            if route is None:
                continue
            groups.setdefault(route.keeper.name, (route.keeper, []))[1].append(own)
            self._change(own.ident, own.record, WITHDRAWN, own)
        for keeper, owns in groups.values():
            for part in chunks(owns, self.desk.config.items_max):
                items = tuple(Item(own.record, own.version, WITHDRAWN) for own in part)
                self.desk.box.send(keeper, Store(self.desk.number(), items))

    def validate(self) -> None:
        """What is dirty or awaited is there, and waits for a reason."""
        for ident in self.dirty:
            if ident not in self.mine:
                raise LocalError(f"directory owner: {ident} is dirty and not there")
        if len(self._awaited) > len(self.mine) or len(self.dirty) > len(self.mine):
            raise LocalError("directory owner: more is awaited than there is")
