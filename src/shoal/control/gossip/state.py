"""What gossip keeps: the newest version of every fact, and the broadcasts it has seen.

    Store    (topic, key) -> fact, with digests over 64 buckets so that two stores can be compared
    Waves    broadcast -> how far it was covered from here

A removed fact stays as a version without a body, so that an older version cannot come back, until
`removed_life_us` after the removal. Its age travels with it: nobody starts its life anew.

Invariants, checked by `validate`: a version never goes back; the digest is that of the facts.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from shoal.control.gossip.messages import Entry, Fact, Version, Want
from shoal.control.gossip.policy import farther
from shoal.kernel.errors import LocalError
from shoal.kernel.keys import Key
from shoal.kernel.time import Instant

__all__ = ["BUCKETS", "Held", "Store", "Wave", "Waves"]

BUCKETS = 64

#: A fact's topic and key; a broadcast's origin and number.
_Name = tuple[str, str]
Wave = tuple[str, int]


class Held:
    """One fact as this peer holds it."""

    __slots__ = ("bucket", "fact", "learned", "print", "removed")

    def __init__(self, fact: Fact, *, bucket: int, print_: int, now: Instant) -> None:
        self.fact = fact
        self.bucket = bucket
        self.print = print_
        #: When this peer learned it, and when it was removed, both by this peer's clock.
        self.learned = now
        self.removed = now - fact.age


class Store:
    """The newest version of every fact."""

    def __init__(self, *, facts_max: int, removed_life_us: int, row_us: int) -> None:
        self._facts_max = facts_max
        self._life_us = removed_life_us
        #: For so long after it was learned a fact's row counts.
        self._row_us = row_us
        self._held: dict[_Name, Held] = {}
        #: Names of removed facts, as a subset of the above.
        self._removed: dict[_Name, None] = {}
        self._buckets: list[dict[_Name, None]] = [{} for _ in range(BUCKETS)]
        self._prints = [0] * BUCKETS
        self.digest = 0
        #: Above every counter seen in any version.
        self.counter = 0
        #: Facts refused because there is no room.
        self.refused = 0

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Fact]:
        return iter([held.fact for held in self._held.values()])

    @property
    def full(self) -> bool:
        """Whether there is no room for a name that is new."""
        return len(self._held) >= self._facts_max

    @property
    def prints(self) -> tuple[int, ...]:
        """The digest of each bucket."""
        return tuple(self._prints)

    def version(self, name: _Name) -> Version | None:
        """The version held, of a removed fact too."""
        held = self._held.get(name)
        return None if held is None else held.fact.version

    def take(self, fact: Fact, now: Instant) -> bool:
        """Keep it if it is newer than what is held; says so.

        A removal whose life is over still ends what it removed; it lapses soon. Where nothing is
        held of its name it is not taken, or it would go from peer to peer for ever.
        """
        name = (fact.topic, fact.key)
        held = self._held.get(name)
        if held is not None and held.fact.version >= fact.version:
            return False
        if held is None and fact.body is None and fact.age >= self._life_us:
            return False
        if held is None and self.full:
            self.refused += 1
            return False
        self.counter = max(self.counter, fact.version.counter)
        if held is not None:
            self._mix(held)
        bucket = _bucket(name) if held is None else held.bucket
        new = Held(fact, bucket=bucket, print_=_print(fact), now=now)
        self._mix(new)
        self._held[name] = new
        self._buckets[bucket][name] = None
        if fact.body is None:
            self._removed[name] = None
        else:
            self._removed.pop(name, None)
        return True

    def drop(self, name: _Name) -> None:
        """Forget it altogether."""
        held = self._held.pop(name)
        self._mix(held)
        del self._buckets[held.bucket][name]
        self._removed.pop(name, None)

    def lapse(self, now: Instant) -> None:
        """Forget removals whose life is over."""
        over = [name for name in self._removed if now - self._held[name].removed >= self._life_us]
        for name in over:
            self.drop(name)

    def of(self, topic: str) -> list[Fact]:
        """The facts of a topic that hold, by key."""
        facts = [
            held.fact
            for name, held in self._held.items()
            if name[0] == topic and held.fact.body is not None
        ]
        return sorted(facts, key=lambda fact: fact.key)

    def told(self, name: _Name, now: Instant) -> Fact | None:
        """A fact as another peer is told it: with its age of now, and its row while that counts."""
        held = self._held.get(name)
        if held is None:
            return None
        fact = held.fact
        row = fact.row if now - held.learned < self._row_us else 0
        if fact.body is not None and row == fact.row:
            return fact
        age = max(0, now - held.removed) if fact.body is None else 0
        return Fact(fact.topic, fact.key, fact.version, fact.body, age, row)

    def learned(self, name: _Name) -> Instant | None:
        """When this peer learned what it holds."""
        held = self._held.get(name)
        return None if held is None else held.learned

    def broadcast(self, names: Iterable[_Name], now: Instant) -> list[Fact]:
        """These facts as they are told to everybody: nobody in a row lacked them."""
        told = [self.told(name, now) for name in names]
        return [
            Fact(fact.topic, fact.key, fact.version, fact.body, fact.age, 0)
            for fact in told
            if fact is not None
        ]

    def entries(self, bucket: int) -> list[Entry]:
        """Names and versions of one bucket."""
        held = self._held
        return [Entry(*name, held[name].fact.version) for name in self._buckets[bucket]]

    def differing(self, prints: Sequence[int]) -> list[int]:
        """The buckets whose digest is another one there."""
        mine = self._prints
        return [bucket for bucket, print_ in enumerate(prints) if mine[bucket] != print_]

    def compare(
        self, buckets: Iterable[int], theirs: Iterable[Entry]
    ) -> tuple[list[_Name], list[Want]]:
        """What they lack, and what is lacking here, of these buckets."""
        give: dict[_Name, None] = {
            name: None
            for bucket in dict.fromkeys(buckets)
            if bucket < BUCKETS
            for name in self._buckets[bucket]
        }
        wants: list[Want] = []
        for entry in theirs:
            name = (entry.topic, entry.key)
            mine = self.version(name)
            if mine is None or mine < entry.version:
                wants.append(Want(entry.topic, entry.key, mine is not None))
            if mine is not None and mine <= entry.version:
                give.pop(name, None)
        return list(give), wants

    def validate(self) -> None:
        """The digest is that of the buckets, and nothing is beyond its bound."""
        mixed = 0
        for print_ in self._prints:
            mixed ^= print_
        if mixed != self.digest or len(self._held) > self._facts_max:
            raise LocalError("gossip's store does not agree with its digest or its bound")

    def validate_all(self) -> None:
        """As `validate`, with everything counted anew."""
        self.validate()
        prints = [0] * BUCKETS
        for name, held in self._held.items():
            if held.bucket != _bucket(name) or held.print != _print(held.fact):
                raise LocalError(f"fact {name!r} is in the wrong bucket")
            if (held.fact.body is None) is not (name in self._removed):
                raise LocalError(f"fact {name!r} is removed in one place and not in the other")
            prints[held.bucket] ^= held.print
        if prints != self._prints:
            raise LocalError("the digest of a bucket is not that of its facts")

    def _mix(self, held: Held) -> None:
        """Put a fact into the digest, or take it out: it is the same."""
        self._prints[held.bucket] ^= held.print
        self.digest ^= held.print


class Waves:
    """Broadcasts seen lately; the oldest is forgotten first."""

    __slots__ = ("_me", "_reach", "_repairs", "_size_max")

    def __init__(self, me: Key, *, size_max: int) -> None:
        self._me = me
        self._size_max = size_max
        self._reach: dict[Wave, Key] = {}
        self._repairs: dict[tuple[Wave, Key, Key], None] = {}

    def __len__(self) -> int:
        return len(self._reach)

    def cover(self, wave: Wave, high: Key) -> Key | None:
        """From where on (…, high) is still to be covered; None if all of it is.

        The answer is this peer's own place for a wave that is new, and how far it was covered
        before if `high` is farther.
        """
        reach = self._reach.get(wave)
        if reach is not None and not farther(self._me, reach, high):
            return None
        self._reach[wave] = high
        if reach is None and len(self._reach) > self._size_max:
            del self._reach[next(iter(self._reach))]
        return self._me if reach is None else reach

    def repair(self, wave: Wave, low: Key, high: Key) -> bool:
        """Whether this repair is new here."""
        repair = (wave, low, high)
        if repair in self._repairs:
            return False
        self._repairs[repair] = None
        if len(self._repairs) > self._size_max:
            del self._repairs[next(iter(self._repairs))]
        return True


def _bucket(name: _Name) -> int:
    text = f"{name[0]}\0{name[1]}"
    return hashlib.blake2b(text.encode(), digest_size=1).digest()[0] % BUCKETS


def _print(fact: Fact) -> int:
    version = fact.version
    text = f"{fact.topic}\0{fact.key}\0{version.counter}\0{version.writer}\0{version.incarnation}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
