"""Decisions of the directory, as functions of their arguments.

    newest wins       by (incarnation, counter); at equal versions, dead wins over alive
    digest            the sum of the prints of items, so the order of summing does not matter
    bucket            by the last bits of the key: keys of one range share their first bits

Not here   what is done about it (machine.py and its roles).
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from shoal.control.directory.messages import (
    EXPIRED,
    LIVE,
    WITHDRAWN,
    Ident,
    Item,
    OfferRecord,
    Record,
    StreamRecord,
    Version,
)
from shoal.kernel.errors import RemoteError, ShoalError, UserError
from shoal.kernel.keys import KEY_BITS, Contact, Key, between, key_of_name

__all__ = [
    "BUCKETS",
    "INCARNATION_MAX",
    "KEY_BYTES",
    "bucket_of",
    "check_item",
    "check_key",
    "check_own",
    "chunks",
    "combined",
    "covered",
    "in_range",
    "mark_of",
    "print_of",
    "replaces",
    "unavailable",
]

T = TypeVar("T")

KEY_BYTES = KEY_BITS // 8
#: Parts of a range that are compared separately; a power of two.
BUCKETS = 16
_ROUND = 1 << 64
#: Counters and incarnations stay below this, so that they fit any codec.
INCARNATION_MAX = 1 << 62


def replaces(new: Version, new_state: int, old: Version, old_state: int) -> bool:
    """Whether an item takes another's place (promise D2)."""
    if new == old:
        return new_state > old_state
    return new > old


def mark_of(ident: Ident) -> int:
    """64 bits that stand for an identity."""
    text = f"{ident.kind}/{ident.thing}/{ident.owner}".encode()
    return int.from_bytes(hashlib.blake2b(ident.key + text, digest_size=8).digest())


def print_of(mark: int, version: Version, state: int) -> int:
    """64 bits that stand for an item's content; a renewal does not change them."""
    if state == EXPIRED:
        return 0
    text = f"{mark}/{version.incarnation}/{version.since}/{state}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())


def combined(prints: Iterable[int]) -> int:
    """The digest of many items."""
    return sum(prints) % _ROUND


def bucket_of(key: Key) -> int:
    """Which part of a range a key belongs to."""
    return key[-1] % BUCKETS


def in_range(low: Key, key: Key, high: Key) -> bool:
    """Whether a keeper of (low, high] keeps the key."""
    return between(low, key, high)


def covered(low: Key, high: Key, parts: Sequence[tuple[Key, Key]]) -> bool:
    """Whether ranges that may overlap cover (low, high] without a gap."""
    if any(part[0] == part[1] for part in parts):
        return True
    reached = low
    for _ in range(len(parts)):
        step = next((p for p in parts if p[1] != reached and _holds(p, reached)), None)
        if step is None:
            return False
        if between(reached, high, step[1]):
            return True
        reached = step[1]
    return False


def _holds(part: tuple[Key, Key], key: Key) -> bool:
    """Whether what comes right behind the key lies within the part."""
    return part[0] == key or between(part[0], key, part[1])


def chunks(items: Sequence[T], size_max: int) -> Iterator[Sequence[T]]:
    """The items in pieces of at most this size."""
    for start in range(0, len(items), size_max):
        yield items[start : start + size_max]


def check_key(key: bytes) -> None:
    """A key has 20 bytes, or the message is refused."""
    if len(key) != KEY_BYTES:
        raise RemoteError(f"key has {len(key)} bytes", detail=f"a key has {KEY_BYTES}")


def check_own(record: Record, me: Contact, name_bytes_max: int) -> UserError | None:
    """What is wrong with a record that is to be published here, if anything."""
    if record.owner != me:
        return UserError(
            f"record of {record.owner.name!r} cannot be published by {me.name!r}",
            detail="only the peer that runs a thing says so",
        )
    wrong = _wrong(record, name_bytes_max) or _unwritable(record.thing)
    if wrong is None:
        return None
    return UserError(wrong, hint="docs/protocols/directory.md has the limits")


def check_item(item: Item, name_bytes_max: int, owner: Contact | None) -> None:
    """Raise RemoteError for an item that no rule allows; `owner` if only its own may come."""
    record, version = item.record, item.version
    wrong = _wrong(record, name_bytes_max)
    if wrong is None and record.owner.incarnation != version.incarnation:
        wrong = "record is of another incarnation than its version"
    if wrong is None and not 0 <= version.since <= version.counter < INCARNATION_MAX:
        wrong = "version has impossible counters"
    if wrong is None and item.state not in (LIVE, WITHDRAWN, EXPIRED):
        wrong = "item has an unknown state"
    if wrong is None and not 0 <= item.left < INCARNATION_MAX:
        wrong = "item has an impossible lease"
    if wrong is None and owner is not None:
        wrong = _foreign(item, owner)
    if wrong is not None:
        raise RemoteError(wrong, detail=f"owner {record.owner.name!r}")


def _foreign(item: Item, owner: Contact) -> str | None:
    named = item.record.owner
    if named.name != owner.name or named.incarnation != owner.incarnation:
        return f"record was sent by {owner.name!r}, who does not own it"
    return "an owner withdraws, it does not expire" if item.state == EXPIRED else None


def _unwritable(name: str) -> str | None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return f"record with a name that has no bytes: {name!r}"
    return None


def _wrong(record: Record, name_bytes_max: int) -> str | None:
    owner = record.owner
    if len(record.key) != KEY_BYTES:
        return f"record has a key of {len(record.key)} bytes"
    if not record.thing or not owner.name:
        return "record without a name"
    if any(
        len(name) * 4 > name_bytes_max and len(name.encode(errors="replace")) > name_bytes_max
        for name in (record.thing, owner.name, owner.address)
    ):
        return "record with a name that is too long"
    if not (math.isfinite(record.load) and record.load >= 0):
        return f"record with load {record.load}"
    if not 0 <= owner.incarnation < INCARNATION_MAX:
        return f"record of incarnation {owner.incarnation}"
    if isinstance(record, OfferRecord) and record.key != key_of_name(record.operator):
        return f"offer of {record.operator!r} under a key that is not the operator's"
    if isinstance(record, StreamRecord) and not 0 <= record.position < _ROUND >> 1:
        return f"record at position {record.position}"
    return None


def unavailable(what: str) -> ShoalError:
    """The answer when no keeper could be reached in time."""
    return UserError(
        what,
        detail="no keeper of the key answered in time",
        hint="the ring may be repairing itself; ask again in some seconds",
    )
