"""What the directory says: records, questions and answers, news, and messages between peers.

    record     what        under the key of     one for each
    1 stream   StreamRecord     the stream's name    instance and peer that produces it
    2 signature SignatureRecord the signature        instance and peer that runs it
    3 offer    OfferRecord      the operator's name  peer that offers it

    Store      owner  -> keeper     keep these, renew those, forget these
    Stored     keeper -> owner      done, in so many copies; these are not mine
    Remind     keeper -> owner      I was told that you are lost; are you?
    Push       keeper -> replica    hold these
    Pushed     replica -> keeper    done
    Compare    keeper -> replica    this is the digest of what I keep
    Same       replica -> keeper    so is mine
    Differs    replica -> keeper    in these buckets I have these versions
    Want       keeper -> replica    then give me these
    Give       replica -> keeper    here they are
    Ask        seeker -> keeper     what is under this key?
    Reply      keeper -> seeker     this
    Elsewhere  keeper -> anybody    that key is not mine (any more)
    Follow     watcher -> keeper    tell me of changes under this key; I have this digest
    Changed    keeper -> watcher    these have changed, or: this is all there is
    Unfollow   watcher -> keeper    enough

Every item carries its owner's version and, between keepers, how long its lease still runs: a
duration, since instants of two peers are never compared.
"""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from shoal.kernel.keys import Contact, Key

__all__ = [
    "EXPIRED",
    "LIVE",
    "MESSAGES",
    "QUESTIONS",
    "WITHDRAWN",
    "Ask",
    "Changed",
    "Compare",
    "Differs",
    "Elsewhere",
    "Find",
    "Follow",
    "Found",
    "Give",
    "Have",
    "Ident",
    "Item",
    "NeedOwner",
    "Neighbours",
    "OfferRecord",
    "OwnerFound",
    "OwnerLost",
    "Publish",
    "Published",
    "Push",
    "Pushed",
    "Record",
    "RecordsChanged",
    "Remind",
    "Reply",
    "Same",
    "SignatureRecord",
    "Store",
    "Stored",
    "StreamRecord",
    "Unfollow",
    "Unwatch",
    "Unwatched",
    "Version",
    "Want",
    "Watch",
    "Watching",
    "Withdraw",
    "Withdrawn",
    "ident_of",
]

#: What an item is: a record; a record that its owner took back; a record whose lease ran out.
LIVE, WITHDRAWN, EXPIRED = 0, 1, 2


class StreamRecord(Struct, frozen=True, array_like=True, tag=1):
    """A stream has this instance, and this peer produces it."""

    kind: ClassVar[int] = 1
    key: Key
    owner: Contact
    instance: str
    position: int = 0
    load: float = 0.0

    @property
    def thing(self) -> str:
        """What tells it from others of its owner under its key."""
        return self.instance


class SignatureRecord(Struct, frozen=True, array_like=True, tag=2):
    """A component of this signature runs as this instance on this peer."""

    kind: ClassVar[int] = 2
    key: Key
    owner: Contact
    instance: str
    load: float = 0.0

    @property
    def thing(self) -> str:
        """What tells it from others of its owner under its key."""
        return self.instance


class OfferRecord(Struct, frozen=True, array_like=True, tag=3):
    """This peer offers to run an operator, and has this load; the key is that of the name."""

    kind: ClassVar[int] = 3
    key: Key
    owner: Contact
    operator: str
    load: float = 0.0

    @property
    def thing(self) -> str:
        """What tells it from others of its owner under its key."""
        return self.operator


Record = StreamRecord | SignatureRecord | OfferRecord


class Ident(Struct, frozen=True, array_like=True, order=True, gc=False):
    """The identity of a record, whatever its load and version."""

    key: Key
    kind: int
    thing: str
    owner: str


def ident_of(record: Record) -> Ident:
    """The identity of a record."""
    return Ident(record.key, record.kind, record.thing, record.owner.name)


class Version(Struct, frozen=True, array_like=True, order=True, gc=False):
    """How new an item is: its owner's incarnation, and a counter of that owner.

    The counter grows with each renewal too; `since` is what it was when the content changed.
    """

    incarnation: int
    counter: int
    since: int


class Item(Struct, frozen=True, array_like=True):
    """A record as it travels. `left` is what its lease, or a withdrawal's life, still has."""

    record: Record
    version: Version
    state: int = LIVE
    left: int = 0


class Have(Struct, frozen=True, array_like=True, gc=False):
    """An item that somebody has, by the mark of its identity."""

    mark: int
    incarnation: int
    since: int
    state: int


class Store(Struct, frozen=True, array_like=True):
    """From an owner: its own items."""

    number: int
    items: tuple[Item, ...]


class Stored(Struct, frozen=True, array_like=True):
    """The keeper has them, in so many copies, except those at these places of the message.

    `low` is where the sender's range begins, exclusive (empty: it does not know). `ahead` is a
    counter of this owner that the keeper has seen and that is above what was sent.
    """

    number: int
    low: bytes
    backups: tuple[Contact, ...]
    copies: int
    elsewhere: tuple[int, ...] = ()
    refused: tuple[int, ...] = ()
    ahead: int = 0


class Remind(Struct, frozen=True, array_like=True):
    """To an owner: renew with me now, if you live."""


class Push(Struct, frozen=True, array_like=True):
    """From the keeper of (low, sender]: hold these. Number 0 wants no reply."""

    number: int
    low: Key
    items: tuple[Item, ...]


class Pushed(Struct, frozen=True, array_like=True, gc=False):
    """They are held."""

    number: int


class Compare(Struct, frozen=True, array_like=True):
    """From the keeper of (low, sender]: digests of what it keeps there, one for each bucket.

    `sure`: the keeper believes that it has all there is.
    """

    number: int
    low: Key
    prints: tuple[int, ...]
    sure: bool


class Same(Struct, frozen=True, array_like=True, gc=False):
    """The digests are equal. `sure`: the sender can vouch for the range."""

    number: int
    sure: bool


class Differs(Struct, frozen=True, array_like=True):
    """The digests of these buckets differ; this is what the sender has in them."""

    number: int
    buckets: tuple[int, ...]
    haves: tuple[Have, ...]
    sure: bool


class Want(Struct, frozen=True, array_like=True):
    """Give the items with these marks."""

    number: int
    marks: tuple[int, ...]


class Give(Struct, frozen=True, array_like=True):
    """The items that were wanted, in `parts` messages."""

    number: int
    items: tuple[Item, ...]
    part: int
    parts: int


class Ask(Struct, frozen=True, array_like=True):
    """What is under the key, behind this identity? `spare`: you may answer as a replica."""

    number: int
    key: Key
    after: Ident | None = None
    spare: bool = False


class Reply(Struct, frozen=True, array_like=True):
    """What is under the key. `more`: ask again behind the last. Not `sure`: ask a backup too."""

    number: int
    key: Key
    items: tuple[Item, ...]
    more: bool
    sure: bool
    low: bytes
    backups: tuple[Contact, ...]


class Elsewhere(Struct, frozen=True, array_like=True, gc=False):
    """This key is not kept here. Number 0: it was, and has moved."""

    number: int
    key: Key


class Follow(Struct, frozen=True, array_like=True, gc=False):
    """Watch a key, or go on watching it; `print` is the digest of what the watcher has."""

    number: int
    key: Key
    print: int


class Changed(Struct, frozen=True, array_like=True):
    """To a watcher. Number 0: changes. Otherwise the reply to a Follow, in `pages` parts.

    `whole`: the parts together are all there is; else what they do not say stays as it is.
    """

    number: int
    key: Key
    items: tuple[Item, ...]
    whole: bool
    page: int
    pages: int
    sure: bool
    low: bytes
    backups: tuple[Contact, ...]


class Unfollow(Struct, frozen=True, array_like=True, gc=False):
    """Watch a key no longer."""

    key: Key


#: The messages of this machine, by tag. A tag is never used again for another message.
MESSAGES: Mapping[int, type[Struct]] = {
    0x0201: Store,
    0x0202: Stored,
    0x0203: Remind,
    0x0204: Push,
    0x0205: Pushed,
    0x0206: Compare,
    0x0207: Same,
    0x0208: Differs,
    0x0209: Want,
    0x020A: Give,
    0x020B: Ask,
    0x020C: Reply,
    0x020D: Elsewhere,
    0x020E: Follow,
    0x020F: Changed,
    0x0210: Unfollow,
}


class Publish(Struct, frozen=True):
    """Question: keep these records of mine, renewed until I withdraw them or end."""

    records: tuple[Record, ...]


class Published(Struct, frozen=True):
    """So many are stored, the least replicated one in so many copies; others still wait."""

    stored: int
    waiting: int
    copies: int


class Withdraw(Struct, frozen=True):
    """Question: these records of mine hold no longer."""

    idents: tuple[Ident, ...]


class Withdrawn(Struct, frozen=True):
    """So many are withdrawn at their keepers, others still wait; so many were not mine."""

    withdrawn: int
    waiting: int
    unknown: int


class Find(Struct, frozen=True):
    """Question: what is recorded under this key?"""

    key: Key


class Found(Struct, frozen=True):
    """The records under a key, in the order of their identities."""

    key: Key
    records: tuple[Record, ...]


class Watch(Struct, frozen=True):
    """Question: tell this peer (RecordsChanged) whenever what is under the key changes."""

    key: Key


class Watching(Struct, frozen=True):
    """The watch is set; what is there now comes as the first news."""

    key: Key


class Unwatch(Struct, frozen=True):
    """Question: watch it no longer."""

    key: Key


class Unwatched(Struct, frozen=True):
    """The watch is gone."""

    key: Key


QUESTIONS: tuple[type[Struct], ...] = (Publish, Withdraw, Find, Watch, Unwatch)


class NeedOwner(Struct, frozen=True):
    """News: this machine wants to know who keeps a key; OwnerFound with this token answers."""

    token: str
    key: Key


class RecordsChanged(Struct, frozen=True):
    """News: what a watched key holds now."""

    key: Key
    records: tuple[Record, ...]


class Neighbours(Struct, frozen=True):
    """From the ring: who stands before this peer, and who behind it, nearest first."""

    predecessor: Contact | None
    successors: tuple[Contact, ...]


class OwnerFound(Struct, frozen=True):
    """From the ring: who keeps the key, or None if it could not be found out."""

    token: str
    key: Key
    owner: Contact | None


class OwnerLost(Struct, frozen=True):
    """From the ring: it believes that this peer is gone. A hint."""

    peer: Contact
