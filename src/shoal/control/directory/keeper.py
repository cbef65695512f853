"""The keeper's part: holds what owners store, copies it to its replicas, lets it expire.

    Store ──▶ shelf ──Push──▶ backups ──Pushed──▶ Stored to the owner     new or changed
                 └──────────── lazily, each beat ─▶ backups               mere renewals

The keeper of a key is the first live peer at or behind it, clockwise. A record has `copies`
copies: at its keeper and at the keeper's next `copies - 1` successors, its backups. The keeper
knows of each item which backups have it, from what they say and never from what it sent; what a
backup is not known to have is pushed again whenever the owner sends it again. So an owner is told
of as many copies as there are, and what has all of them survives `copies - 1` crashes at once.

Promises   R1  with fewer than `copies` simultaneous losses of neighbours no record is lost.
           D1  an item that is withdrawn or has expired is remembered, so late copies of it are
               known for what they are; a lease is never prolonged but by the owner's next word.
           D2  at one keeper the version of a record never goes back. Once an end is forgotten,
               by the keeper's own clock, an older end may be learned, but no older life.
Not here   bringing keepers and replicas together after a change of the ring (sync.py).
"""

from dataclasses import dataclass, field
from enum import Enum

from shoal.control.directory.desk import Desk
from shoal.control.directory.messages import (
    EXPIRED,
    LIVE,
    Ident,
    Item,
    Push,
    Pushed,
    Remind,
    Store,
    Stored,
    ident_of,
)
from shoal.control.directory.policy import (
    check_item,
    check_key,
    chunks,
    in_range,
    replaces,
)
from shoal.control.directory.state import Entry, Shelf
from shoal.kernel.errors import LocalError, RemoteError
from shoal.kernel.keys import Contact
from shoal.kernel.time import Instant

__all__ = ["Keeper", "Outcome"]


class Outcome(Enum):
    """What taking an item in has changed."""

    CHANGED = "new, or other content than before"
    RENEWED = "a newer version of the same content"
    SAME = "that very version was here"
    OLDER = "something newer was here"
    FULL = "no room"


@dataclass(slots=True)
class _Receipt:
    """A Store that waits until backups have copied what they lacked of it."""

    owner: Contact
    number: int
    elsewhere: tuple[int, ...]
    refused: tuple[int, ...] = ()
    ahead: int = 0
    left: int = 0
    entries: list[Entry] = field(default_factory=list)


@dataclass(slots=True)
class _Pushing:
    to: Contact
    message: Push
    receipt: _Receipt | None
    attempts: int = 1


class Keeper:
    """Holds the items of a range, and copies of the ranges before it."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.shelf = Shelf()
        self.receipts: dict[tuple[str, int], _Receipt] = {}
        self.pushes: dict[int, _Pushing] = {}
        #: Renewed since the last beat, and not yet told to the backups.
        self.renewed: dict[Ident, None] = {}
        #: Changed since it was last collected: for watchers (watches.py).
        self.changed: dict[Ident, None] = {}

    # Taking in

    def take(self, item: Item, until: Instant) -> Outcome:
        """Let an item in if it is newer than what is here (D2)."""
        record, version, state = item.record, item.version, item.state
        shelf = self.shelf
        ident = ident_of(record)
        entry = shelf.entries.get(ident)
        if version.incarnation < shelf.newest.get(ident.owner, 0) and state == LIVE:
            return Outcome.OLDER
        if entry is None:
            if state == EXPIRED:
                return Outcome.SAME
            if len(shelf) >= self.desk.config.entries_max:
                return Outcome.FULL
            shelf.put(Entry(ident, item, until))
        elif not replaces(version, state, entry.version, entry.state):
            return Outcome.SAME if version == entry.version else Outcome.OLDER
        elif (
            state == entry.state == LIVE
            and version.since == entry.version.since
            and version.incarnation == entry.version.incarnation
        ):
            entry.version, entry.until = version, until
            return Outcome.RENEWED
        else:
            entry.set(record, version, state, until)
        self.changed[ident] = None
        if version.incarnation > shelf.newest.get(ident.owner, -1):
            self._end_former(ident.owner, version.incarnation, until)
        return Outcome.CHANGED

    def _end_former(self, owner: str, incarnation: int, until: Instant) -> None:
        """A peer that has started again runs nothing of what it ran before."""
        shelf = self.shelf
        shelf.newest[owner] = incarnation
        for entry in shelf.by_owner[owner].values():
            if entry.state == LIVE and entry.version.incarnation < incarnation:
                self._expire(entry, until)

    def _expire(self, entry: Entry, until: Instant) -> None:
        entry.set(entry.record, entry.version, EXPIRED, until)
        self.changed[entry.ident] = None

    def life_of(self, item: Item) -> int:
        """How long an item that its owner sends is kept."""
        config = self.desk.config
        return config.lease if item.state == LIVE else config.tombstone_life

    # From owners

    def store(self, sender: Contact, message: Store, now: Instant) -> None:
        """An owner's batch; it is answered when all that it holds has its copies (R1)."""
        config, place = self.desk.config, self.desk.place
        if (sender.name, message.number) in self.receipts:
            return
        if len(message.items) > config.items_max:
            raise RemoteError(f"{len(message.items)} records at once")
        for item in message.items:
            check_item(item, config.name_bytes_max, sender)
        elsewhere = tuple(
            at for at, item in enumerate(message.items) if not place.owns(item.record.key)
        )
        receipt = _Receipt(sender, message.number, elsewhere)
        refused: list[int] = []
        for at, item in enumerate(message.items):
            if at not in elsewhere and not self._take_own(item, receipt, now):
                refused.append(at)
        receipt.refused = tuple(refused)
        self._copy(receipt, now)

    def _take_own(self, item: Item, receipt: _Receipt, now: Instant) -> bool:
        """Take what an owner sends; False if it is refused."""
        ident = ident_of(item.record)
        outcome = self.take(item, now + self.life_of(item))
        known = self.shelf.entries.get(ident)
        if outcome is Outcome.FULL or known is None:
            return False
        if outcome is Outcome.RENEWED:
            self.renewed[ident] = None
        elif outcome is Outcome.OLDER:
            if known.version.incarnation != item.version.incarnation:
                return False
            receipt.ahead = max(receipt.ahead, known.version.counter)
        receipt.entries.append(known)
        return True

    def _copy(self, receipt: _Receipt, now: Instant) -> None:
        """Push to every backup what it is not known to have; if that is nothing, answer at once."""
        place = self.desk.place
        for backup in place.backups if place.low else ():
            lacking = [entry for entry in receipt.entries if backup not in entry.copied]
            receipt.left += self.push(backup, lacking, receipt, now)
        self._answer(receipt)

    def copies_of(self, entry: Entry) -> int:
        """In how many copies an item is known to be here and at the present backups (R1)."""
        return 1 + sum(backup in entry.copied for backup in self.desk.place.backups)

    def has(self, replica: Contact, entry: Entry) -> None:
        """A backup has said that it holds the present content of an entry."""
        if replica not in entry.copied and replica in self.desk.place.backups:
            entry.copied = (*entry.copied, replica)

    def push(
        self, to: Contact, entries: list[Entry], receipt: _Receipt | None, now: Instant
    ) -> int:
        """Send entries of this keeper's range to a replica, until it has them; how many parts."""
        parts = 0
        for part in chunks(entries, self.desk.config.items_max):
            number = self.desk.number()
            items = tuple(entry.item(now) for entry in part)
            message = Push(number, self.desk.place.low, items)
            self.pushes[number] = _Pushing(to, message, receipt)
            self.desk.deadlines.add(now + self.desk.config.push_timeout, "push", number)
            self.desk.box.send(to, message)
            parts += 1
        return parts

    def _answer(self, receipt: _Receipt) -> None:
        place = self.desk.place
        name = (receipt.owner.name, receipt.number)
        if receipt.left:
            self.receipts[name] = receipt
            return
        self.receipts.pop(name, None)
        self.desk.box.send(
            receipt.owner,
            Stored(
                receipt.number,
                place.low,
                place.backups,
                min(map(self.copies_of, receipt.entries), default=1),
                receipt.elsewhere,
                receipt.refused,
                receipt.ahead,
            ),
        )

    # Between keeper and replica

    def pushed(self, sender: Contact, message: Pushed, now: Instant) -> None:
        """A replica has what it was sent."""
        del now
        pushing = self.pushes.get(message.number)
        if pushing is None or pushing.to.name != sender.name:
            return
        for item in pushing.message.items:
            entry = self.shelf.entries.get(ident_of(item.record))
            if entry is not None and _same_content(entry, item):
                self.has(sender, entry)
        self._pushing_ends(message.number)

    def _pushing_ends(self, number: int) -> None:
        receipt = self.pushes.pop(number).receipt
        if receipt is not None:
            receipt.left -= 1
            self._answer(receipt)

    def push_timed_out(self, number: int, now: Instant) -> None:
        """Send it again, or leave it to the next comparison."""
        pushing = self.pushes.get(number)
        if pushing is None:
            return
        if pushing.attempts >= self.desk.config.push_attempts:
            self._pushing_ends(number)
            return
        pushing.attempts += 1
        self.desk.deadlines.add(now + self.desk.config.push_timeout, "push", number)
        self.desk.box.send(pushing.to, pushing.message)

    def hold(self, sender: Contact, message: Push, now: Instant) -> None:
        """As a replica: hold what the keeper of (low, sender] sends."""
        check_key(message.low)
        self._check_items(message.items, message.low, sender)
        outcomes = [self.take(item, now + self.cut(item)) for item in message.items]
        if message.number and Outcome.FULL not in outcomes:
            self.desk.box.send(sender, Pushed(message.number))

    def _check_items(self, items: tuple[Item, ...], low: bytes, keeper: Contact) -> None:
        config = self.desk.config
        if len(items) > config.items_max:
            raise RemoteError(f"{len(items)} items at once")
        for item in items:
            check_item(item, config.name_bytes_max, None)
            if not in_range(low, item.record.key, keeper.key):
                raise RemoteError(f"{keeper.name!r} sends a record of a key it does not keep")

    def receive(self, items: tuple[Item, ...], keeper: Contact, low: bytes, now: Instant) -> int:
        """As a keeper that catches up: take what a replica gives; how many were news."""
        self._check_items(items, low, keeper)
        outcomes = [self.take(item, now + self.cut(item)) for item in items]
        return sum(outcome is Outcome.CHANGED for outcome in outcomes)

    def cut(self, item: Item) -> int:
        """How long a copy may live: what the giver says, and never more than an original."""
        if item.state == EXPIRED:
            return self.desk.config.tombstone_life
        return min(item.left, self.life_of(item))

    # Upkeep

    def beat(self, now: Instant) -> None:
        """Let leases end, forget what need not be remembered, copy renewals."""
        dropped = []
        for entry in self.shelf.entries.values():
            if entry.until > now:
                continue
            if entry.state == LIVE:
                self._expire(entry, now + self.desk.config.tombstone_life)
            else:
                dropped.append(entry)
        for entry in dropped:
            self.shelf.drop(entry)
        self.copy_renewals(now)

    def copy_renewals(self, now: Instant) -> None:
        """Tell the backups of renewals, without waiting: the next ones say it again."""
        place, shelf = self.desk.place, self.shelf
        if self.renewed and place.low and place.backups:
            found = [shelf.entries[i] for i in self.renewed if i in shelf.entries]
            mine = [entry for entry in found if place.owns(entry.ident.key)]
            for part in chunks(mine, self.desk.config.items_max):
                message = Push(0, place.low, tuple(entry.item(now) for entry in part))
                for backup in place.backups:
                    self.desk.box.send(backup, message)
        self.renewed.clear()

    def lost(self, peer: Contact, now: Instant) -> None:
        """A hint that an owner is gone: its leases shrink to where it would have renewed twice.

        Whether it is really gone it can say itself.
        """
        until = now + self.desk.config.suspect_lease
        held = False
        for entry in self.shelf.by_owner.get(peer.name, {}).values():
            if entry.state == LIVE and entry.version.incarnation <= peer.incarnation:
                held = True
                entry.until = min(entry.until, until)
        if held:
            self.desk.box.send(peer, Remind())

    def moved(self, now: Instant) -> None:
        """The ring has changed: who is no backup any longer owes no copy, and counts for none."""
        del now
        place = self.desk.place
        for entry in self.shelf.entries.values():
            if entry.copied:
                mine = place.backups if place.owns(entry.ident.key) else ()
                entry.copied = tuple(one for one in entry.copied if one in mine)
        names = [backup.name for backup in place.backups]
        gone = [n for n, pushing in self.pushes.items() if pushing.to.name not in names]
        for number in gone:
            self._pushing_ends(number)

    def paused(self) -> None:
        """This peer has stood still: leases may have ended elsewhere, so nothing is known."""
        for entry in self.shelf.entries.values():
            entry.copied = ()

    def stop(self, now: Instant) -> None:
        """Nothing that was renewed is left uncopied."""
        self.copy_renewals(now)

    def validate(self) -> None:
        """Cheap enough for every event."""
        self.shelf.validate()
        for pushing in self.pushes.values():
            if pushing.receipt is not None and pushing.receipt.left <= 0:
                raise LocalError("directory keeper: a push for a receipt that is answered")


def _same_content(entry: Entry, item: Item) -> bool:
    """Whether an item that was sent is still what the entry says; renewals do not matter."""
    here, sent = entry.version, item.version
    same = here.incarnation == sent.incarnation and here.since == sent.since
    return same and entry.state == item.state
