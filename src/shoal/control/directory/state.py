"""What the directory keeps in memory. Nothing of it is on disk: owners re-make it.

Place       where this peer stands: its range is (predecessor, me]
Shelf       the items it holds, by identity, by key, by owner
Routes      which peer keeps which range, as far as it was told
Deadlines   what has to be looked at again, and when
Outbox      the effects of one event; messages to itself stay inside

Shelf of p3, which keeps (40.., 77..]
key       identity                     version   state      until
5e1f..    stream flow-1 p9             2.17(12)  live       +61 s
5e1f..    stream flow-1 p4             1.88(88)  withdrawn  +204 s
61aa..    offer aes p9                 2.17(3)   live       +61 s
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TypeVar

from msgspec import Struct

from shoal.control.directory.messages import EXPIRED, LIVE, Ident, Item, Record, Version
from shoal.control.directory.policy import in_range, mark_of, print_of
from shoal.kernel.effects import Answer, Effect, Note, Send, Tell
from shoal.kernel.errors import LocalError, ShoalError
from shoal.kernel.keys import Contact, Key
from shoal.kernel.time import Instant

K = TypeVar("K", Key, str)

__all__ = ["Deadlines", "Entry", "Outbox", "Place", "Route", "Routes", "Shelf"]


class Outbox:
    """Collects the effects of one event."""

    __slots__ = ("effects", "inner", "me")

    def __init__(self, me: Contact) -> None:
        self.me = me
        self.effects: list[Effect] = []
        #: Messages of this peer to itself: the machine handles them before it returns.
        self.inner: deque[Struct] = deque()

    def send(self, to: Contact, message: Struct) -> None:
        """To a peer, which may be this one."""
        if to.name == self.me.name:
            self.inner.append(message)
        else:
            self.effects.append(Send(to, message))

    def tell(self, news: Struct) -> None:
        """To siblings."""
        self.effects.append(Tell(news))

    def answer(self, request: int, result: Struct | ShoalError) -> None:
        """To whoever asked."""
        self.effects.append(Answer(request, result))

    def note(self, what: str) -> None:
        """Into the story."""
        self.effects.append(Note("directory", what))


class Place:
    """Where this peer stands on the ring, as its ring machine says."""

    __slots__ = ("backups", "low", "me", "successor")

    def __init__(self, me: Contact) -> None:
        self.me = me
        #: Where this peer's range begins, exclusive. Its own key: the whole ring. Empty: unknown.
        self.low: bytes = b""
        #: The replicas of its range, nearest first; and the first of them, if any.
        self.backups: tuple[Contact, ...] = ()
        self.successor: Contact | None = None

    def move(
        self, predecessor: Contact | None, successors: tuple[Contact, ...], copies: int
    ) -> None:
        """Take in what the ring says."""
        others = {one.name: one for one in successors if one.name != self.me.name}
        self.backups = tuple(others.values())[: copies - 1]
        self.successor = next(iter(others.values()), None)
        if predecessor is not None and predecessor.name != self.me.name:
            self.low = predecessor.key
        else:
            self.low = b"" if others else self.me.key

    def owns(self, key: Key) -> bool:
        """Whether the key is this peer's to keep, as far as it can tell."""
        return not self.low or in_range(self.low, key, self.me.key)


class Entry:
    """One item on the shelf."""

    __slots__ = ("copied", "ident", "mark", "print", "record", "state", "until", "version")

    def __init__(self, ident: Ident, item: Item, until: Instant) -> None:
        self.ident = ident
        self.mark = mark_of(ident)
        self.set(item.record, item.version, item.state, until)

    def set(self, record: Record, version: Version, state: int, until: Instant) -> None:
        """Take over a newer item."""
        self.record = record
        self.version = version
        self.state = state
        #: When its lease ends, or it need not be remembered any longer.
        self.until = until
        self.print = print_of(self.mark, version, state)
        #: The backups that have said that they hold this content.
        self.copied: tuple[Contact, ...] = ()

    def item(self, now: Instant) -> Item:
        """As it travels."""
        state: int = self.state
        if state == LIVE and self.until <= now:
            state = EXPIRED
        left = max(self.until - now, 0)
        return Item(self.record, self.version, state, left)


class Shelf:
    """The items held, by identity, key, mark and owner."""

    __slots__ = ("by_key", "by_mark", "by_owner", "entries", "newest")

    def __init__(self) -> None:
        self.entries: dict[Ident, Entry] = {}
        self.by_key: dict[Key, dict[Ident, Entry]] = {}
        self.by_mark: dict[int, Entry] = {}
        self.by_owner: dict[str, dict[Ident, Entry]] = {}
        #: The newest incarnation seen of each owner with entries here.
        self.newest: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def put(self, entry: Entry) -> None:
        """Add a new entry."""
        ident = entry.ident
        self.entries[ident] = entry
        self.by_mark[entry.mark] = entry
        self.by_key.setdefault(ident.key, {})[ident] = entry
        self.by_owner.setdefault(ident.owner, {})[ident] = entry

    def drop(self, entry: Entry) -> None:
        """Forget an entry altogether."""
        ident = entry.ident
        del self.entries[ident]
        self.by_mark.pop(entry.mark, None)
        _take_out(self.by_key, ident.key, ident)
        _take_out(self.by_owner, ident.owner, ident)
        if ident.owner not in self.by_owner:
            self.newest.pop(ident.owner, None)

    def within(self, low: Key, high: Key) -> Iterator[Entry]:
        """The entries with keys in (low, high]."""
        for key, there in self.by_key.items():
            if in_range(low, key, high):
                yield from there.values()

    def live(self, key: Key, now: Instant) -> list[Entry]:
        """What holds under a key, in the order of identities."""
        there = self.by_key.get(key)
        if not there:
            return []
        found = [e for e in there.values() if e.state == LIVE and e.until > now]
        found.sort(key=lambda entry: entry.ident)
        return found

    def validate(self) -> None:
        """The indexes agree in size; every entry is checked by `audit`."""
        if len(self.by_mark) != len(self.entries) or len(self.newest) > len(self.by_owner):
            raise LocalError("directory shelf: its indexes disagree")

    def audit(self) -> None:
        """Every entry stands in every index, and nothing else does."""
        self.validate()
        for parts in (tuple(self.by_key.values()), tuple(self.by_owner.values())):
            if sum(len(part) for part in parts) != len(self.entries) or not all(parts):
                raise LocalError("directory shelf: an index holds what is not there")
        for ident, entry in self.entries.items():
            here = self.by_key[ident.key].get(ident) is entry
            if not here or self.by_owner[ident.owner].get(ident) is not entry:
                raise LocalError(f"directory shelf: {ident} is not in every index")
            if entry.version.incarnation > self.newest.get(ident.owner, 0):
                raise LocalError(f"directory shelf: {ident} is newer than its owner")


def _take_out(index: dict[K, dict[Ident, Entry]], key: K, ident: Ident) -> None:
    there = index[key]
    del there[ident]
    if not there:
        del index[key]


class Route(Struct, frozen=True):
    """A peer keeps (low, its key], and these are its replicas."""

    keeper: Contact
    low: Key
    backups: tuple[Contact, ...]


class Routes:
    """Which peer keeps which range, as far as keepers and the ring have said."""

    __slots__ = ("_by_key", "_keys", "_size_max")

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._by_key: dict[Key, Route] = {}
        #: The places of known keepers, in order.
        self._keys: list[Key] = []

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key: Key) -> Route | None:
        """Who keeps the key: the first known peer at or behind it, if its range reaches back."""
        keys = self._keys
        if not keys:
            return None
        at = bisect_left(keys, key)
        route = self._by_key[keys[at if at < len(keys) else 0]]
        return route if in_range(route.low, key, route.keeper.key) else None

    def learn(self, route: Route) -> None:
        """A keeper has said what it keeps; with too many known, the oldest is forgotten."""
        place = route.keeper.key
        if place in self._by_key:
            del self._by_key[place]
        else:
            insort(self._keys, place)
        self._by_key[place] = route
        if len(self._keys) > self._size_max:
            self._remove(next(iter(self._by_key)))

    def learn_point(self, key: Key, keeper: Contact) -> None:
        """The ring has said who keeps one key: then it keeps all that lies between as well."""
        before = ((int.from_bytes(key) - 1) % (1 << 8 * len(key))).to_bytes(len(key))
        self._clear(before, keeper.key)
        known = self._by_key.get(keeper.key)
        if known is None or known.keeper != keeper:
            self.learn(Route(keeper, before, ()))
        elif not in_range(known.low, key, keeper.key):
            self.learn(Route(keeper, before, known.backups))

    def _clear(self, low: Key, high: Key) -> None:
        """Forget whoever was thought to stand between the two."""
        keys = self._keys
        while keys:
            at = bisect_left(keys, low)
            at = at + 1 if at < len(keys) and keys[at] == low else at
            place = keys[at % len(keys)]
            if place == high or not in_range(low, place, high):
                return
            self._remove(place)

    def forget(self, keeper: Contact) -> bool:
        """It does not keep what it was thought to keep, or is gone."""
        known = self._by_key.get(keeper.key)
        if known is None or known.keeper.name != keeper.name:
            return False
        self._remove(keeper.key)
        return True

    def _remove(self, place: Key) -> None:
        del self._by_key[place]
        del self._keys[bisect_left(self._keys, place)]


class Deadlines:
    """What has to be looked at again, and when. Looking too often does no harm."""

    __slots__ = ("_heap", "_turn")

    def __init__(self) -> None:
        self._heap: list[tuple[Instant, int, str, int]] = []
        self._turn = 0

    def add(self, at: Instant, what: str, number: int) -> None:
        """Look at this thing at an instant."""
        self._turn += 1
        heappush(self._heap, (at, self._turn, what, number))

    @property
    def next(self) -> Instant | None:
        """The earliest instant."""
        return self._heap[0][0] if self._heap else None

    def due(self, now: Instant) -> Iterator[tuple[str, int]]:
        """What is due, each once."""
        while self._heap and self._heap[0][0] <= now:
            _, _, what, number = heappop(self._heap)
            yield what, number
