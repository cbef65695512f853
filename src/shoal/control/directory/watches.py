"""Watches: a peer is told whenever what is recorded under a key changes.

    watcher                              keeper
    Follow(key, digest of what it has) ─▶   every watch_period, and at once after Elsewhere
                                       ◀─  Changed(all there is), or nothing new
                                       ◀─  Changed(what has changed), collected for watch_delay
                                       ◀─  Elsewhere(0, key): another peer keeps it now

What gets lost on the way is found by the next Follow, whose digest then differs. A watch lives at
its keeper as long as it is renewed; a watcher that hears from no keeper for a lease says that
nothing is known any more. The keeper of a key may watch it too, without a message on the wire.
"""

from dataclasses import dataclass, field

from shoal.control.directory.desk import Desk
from shoal.control.directory.keeper import Keeper
from shoal.control.directory.messages import (
    LIVE,
    Changed,
    Elsewhere,
    Follow,
    Ident,
    Item,
    Record,
    RecordsChanged,
    Unfollow,
    Unwatch,
    Unwatched,
    Watch,
    Watching,
    ident_of,
)
from shoal.control.directory.policy import (
    KEY_BYTES,
    check_item,
    check_key,
    chunks,
    combined,
    mark_of,
    print_of,
    replaces,
)
from shoal.control.directory.sync import Sync
from shoal.kernel.errors import RemoteError, UserError
from shoal.kernel.keys import Contact, Key
from shoal.kernel.time import SECOND, Instant

__all__ = ["Followers", "Watcher"]

_PAGES_MAX = 1_000
#: After a reply that was not sure; a guess.
_AGAIN = 1 * SECOND


@dataclass(slots=True)
class _Watch:
    key: Key
    has: dict[Ident, Item] = field(default_factory=dict)
    #: The Follow under way, to whom, and the parts of its reply so far.
    number: int = 0
    keeper: Contact | None = None
    pages: dict[int, tuple[Item, ...]] = field(default_factory=dict)
    misses: int = 0
    #: When to follow again, and when a keeper confirmed it last.
    due: Instant = 0
    confirmed: Instant = 0
    told: tuple[Record, ...] | None = None

    def digest(self) -> int:
        """Of what it has."""
        return combined(
            print_of(mark_of(ident), item.version, LIVE)
            for ident, item in self.has.items()
            if item.state == LIVE
        )


class Watcher:
    """The watches of this peer."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.watches: dict[Key, _Watch] = {}
        self._follows: dict[int, Key] = {}

    def watch(self, request: int, question: Watch, now: Instant) -> None:
        """A question of this host; what is there comes as news."""
        key = question.key
        wrong = len(key) != KEY_BYTES
        full = key not in self.watches and len(self.watches) >= self.desk.config.watches_max
        if wrong or full:
            detail = f"a key has {KEY_BYTES} bytes; {len(self.watches)} keys are watched"
            self.desk.box.answer(request, UserError("key cannot be watched", detail=detail))
            return
        if key not in self.watches:
            self.watches[key] = _Watch(key, due=now, confirmed=now)
        else:
            self.watches[key].told = None
        self.desk.box.answer(request, Watching(key))
        self.pump(now)

    def unwatch(self, request: int, question: Unwatch, now: Instant) -> None:
        """A question of this host."""
        one = self.watches.pop(question.key, None)
        if one is not None:
            self._follows.pop(one.number, None)
            route = self.desk.keeper_of(one.key, now)
            if route is not None:
                self.desk.box.send(route.keeper, Unfollow(one.key))
        self.desk.box.answer(request, Unwatched(question.key))

    def pump(self, now: Instant) -> None:
        """Follow where it is time and the keeper is known."""
        for one in self.watches.values():
            if one.number or one.due > now:
                continue
            route = self.desk.keeper_of(one.key, now)
            if route is not None:
                self._follow(one, route.keeper, now)

    def _follow(self, one: _Watch, keeper: Contact, now: Instant) -> None:
        one.number = self.desk.number()
        one.keeper = keeper
        one.pages = {}
        self._follows[one.number] = one.key
        self.desk.deadlines.add(now + self.desk.config.store_timeout, "follow", one.number)
        self.desk.box.send(keeper, Follow(one.number, one.key, one.digest()))

    def timed_out(self, number: int, now: Instant) -> None:
        """Once more, then ask the ring; after a whole lease nothing is known any more."""
        key = self._follows.pop(number, None)
        one = self.watches.get(key) if key is not None else None
        if one is None or one.number != number:
            return
        one.number = 0
        one.misses += 1
        if one.misses > 1 and one.keeper is not None:
            self.desk.routes.forget(one.keeper)
        self._later(one, now + self.desk.config.retry_delay)

    def _later(self, one: _Watch, at: Instant) -> None:
        one.due = at
        self.desk.deadlines.add(at, "watch", 0)

    def elsewhere(self, sender: Contact, message: Elsewhere, now: Instant) -> None:
        """Another peer keeps the key."""
        one = self.watches.get(message.key)
        if one is None or one.keeper is None or one.keeper.name != sender.name:
            return
        if message.number not in (0, one.number):
            return
        self._follows.pop(one.number, None)
        one.number = 0
        self.desk.refused(sender, one.key, b"", now)
        self._later(one, now + self.desk.config.retry_delay)

    def changed(self, sender: Contact, message: Changed, now: Instant) -> None:
        """The keeper of a watched key tells what is new, or all there is."""
        self._check(message)
        one = self.watches.get(message.key)
        if one is None or one.keeper is None or one.keeper.name != sender.name:
            return
        if message.number == 0:
            self._join(one, message.items)
            self._tell(one)
            return
        if message.number != one.number:
            return
        one.pages[message.page] = message.items
        if len(one.pages) < message.pages:
            return
        self.desk.learn(sender, message.low, message.backups)
        if message.whole:
            keep = {ident_of(i.record): None for part in one.pages.values() for i in part}
            one.has = {ident: item for ident, item in one.has.items() if ident in keep}
        for part in one.pages.values():
            self._join(one, part)
        self._follows.pop(one.number, None)
        one.number, one.pages, one.misses = 0, {}, 0
        one.confirmed = now
        self._later(one, now + (self.desk.config.watch_period if message.sure else _AGAIN))
        self._tell(one)

    def _check(self, message: Changed) -> None:
        config = self.desk.config
        check_key(message.key)
        self.desk.check_route(message.low, message.backups)
        if len(message.items) > config.items_max or not (
            0 <= message.page < message.pages <= _PAGES_MAX
        ):
            raise RemoteError("a keeper tells more of a key than there can be")
        for item in message.items:
            check_item(item, config.name_bytes_max, None)
            if item.record.key != message.key:
                raise RemoteError("a change of another key than is watched")

    def _join(self, one: _Watch, items: tuple[Item, ...]) -> None:
        for item in items:
            ident = ident_of(item.record)
            known = one.has.get(ident)
            if known is None or replaces(item.version, item.state, known.version, known.state):
                one.has[ident] = item

    def _tell(self, one: _Watch) -> None:
        found = sorted(one.has.items())
        records = tuple(item.record for _, item in found if item.state == LIVE)
        if records != one.told:
            one.told = records
            self.desk.box.tell(RecordsChanged(one.key, records))

    def beat(self, now: Instant) -> None:
        """What no keeper has confirmed for a lease is not known any more."""
        for one in self.watches.values():
            if now - one.confirmed > self.desk.config.lease and one.has:
                one.has = {}
                self._tell(one)
        self.pump(now)

    def lost(self, peer: Contact, now: Instant) -> None:
        """The keeper of a watched key is gone: find the next one."""
        for one in self.watches.values():
            if one.keeper is not None and one.keeper.name == peer.name:
                self._follows.pop(one.number, None)
                one.number = 0
                self._later(one, now + self.desk.config.retry_delay)


class Followers:
    """Who watches what this peer keeps."""

    def __init__(self, desk: Desk, keeper: Keeper, sync: Sync) -> None:
        self.desk = desk
        self.keeper = keeper
        self.sync = sync
        #: By key and name: who, and until when without renewal.
        self.by_key: dict[Key, dict[str, tuple[Contact, Instant]]] = {}
        self.total = 0
        self._collecting: dict[Ident, None] = {}

    def follow(self, sender: Contact, message: Follow, now: Instant) -> None:
        """Set or renew a watch; say what the watcher lacks."""
        config, place = self.desk.config, self.desk.place
        check_key(message.key)
        there = self.by_key.get(message.key, {})
        full = sender.name not in there and self.total >= config.followers_max
        if full or not place.owns(message.key):
            self.desk.box.send(sender, Elsewhere(message.number, message.key))
            return
        self.total += sender.name not in there
        there[sender.name] = (sender, now + config.watch_lease)
        self.by_key[message.key] = there
        entries = self.keeper.shelf.live(message.key, now)
        sure = self.sync.vouches_for(message.key, now)
        news = combined(entry.print for entry in entries) != message.print
        items = [entry.item(now) for entry in entries] if news else []
        parts = [tuple(part) for part in chunks(items, config.items_max)] or [()]
        for at, part in enumerate(parts):
            self.desk.box.send(
                sender,
                Changed(
                    message.number,
                    message.key,
                    part,
                    news and sure,
                    at,
                    len(parts),
                    sure,
                    place.low,
                    place.backups,
                ),
            )

    def unfollow(self, sender: Contact, message: Unfollow, now: Instant) -> None:
        """End a watch."""
        del now
        check_key(message.key)
        self._remove(message.key, sender.name)

    def _remove(self, key: Key, name: str) -> None:
        there = self.by_key.get(key)
        if there is None or there.pop(name, None) is None:
            return
        self.total -= 1
        if not there:
            del self.by_key[key]

    def collect(self, now: Instant) -> None:
        """Changes of watched keys are sent together, a moment later."""
        changed = self.keeper.changed
        if not changed:
            return
        if self.by_key:
            watched = [ident for ident in changed if ident.key in self.by_key]
            if watched and not self._collecting:
                self.desk.deadlines.add(now + self.desk.config.watch_delay, "changes", 0)
            self._collecting.update(dict.fromkeys(watched))
        changed.clear()

    def flush(self, now: Instant) -> None:
        """Send what was collected."""
        place = self.desk.place
        by_key: dict[Key, list[Item]] = {}
        for ident in self._collecting:
            entry = self.keeper.shelf.entries.get(ident)
            if entry is not None:
                by_key.setdefault(ident.key, []).append(entry.item(now))
        self._collecting.clear()
        for key, items in by_key.items():
            followers = [who for who, until in self.by_key.get(key, {}).values() if until > now]
            for part in chunks(items, self.desk.config.items_max):
                news = Changed(0, key, tuple(part), False, 0, 1, False, place.low, place.backups)
                for contact in followers:
                    self.desk.box.send(contact, news)

    def moved(self) -> None:
        """Tell watchers of keys that this peer keeps no longer."""
        for key in [key for key in self.by_key if not self.desk.place.owns(key)]:
            for contact, _ in self.by_key.pop(key).values():
                self.total -= 1
                self.desk.box.send(contact, Elsewhere(0, key))

    def beat(self, now: Instant) -> None:
        """Forget who has not renewed."""
        for key, there in tuple(self.by_key.items()):
            for name in [name for name, (_, until) in there.items() if until <= now]:
                self._remove(key, name)
