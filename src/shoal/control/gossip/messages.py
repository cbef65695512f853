"""What gossip says: to other peers, to whoever asks on this host, and to its siblings.

    Spread    0x0301  facts for every peer of an interval; the receiver covers it
    Taken     0x0302  "the interval is mine now"
    Compare   0x0303  the digest of my store: is yours the same?
    Same      0x0304  it is
    Buckets   0x0305  it is not; here are the digests of its parts
    Summary   0x0306  names and versions in the parts that differ
    Give      0x0307  facts you lack, and names of those that I lack

Fields are only added, at the end and with a default; tests/golden/wire pins the bytes.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from shoal.kernel.keys import KEY_BITS, Contact

__all__ = [
    "MESSAGES",
    "QUESTIONS",
    "Accepted",
    "Broadcast",
    "Buckets",
    "Compare",
    "Entry",
    "Fact",
    "FactList",
    "Facts",
    "Give",
    "Heard",
    "RouteLost",
    "Routes",
    "Same",
    "Spread",
    "Summary",
    "Taken",
    "Version",
    "Want",
]

TOPIC_CHARS_MAX = 32
NAME_CHARS_MAX = 128
#: Counters grow by one a broadcast: 2**53 is never reached by honest peers.
COUNTER_MAX = 1 << 53

_KEY_BYTES = KEY_BITS // 8
Place = Annotated[bytes, Meta(min_length=_KEY_BYTES, max_length=_KEY_BYTES)]
Topic = Annotated[str, Meta(max_length=TOPIC_CHARS_MAX)]
Name = Annotated[str, Meta(max_length=NAME_CHARS_MAX)]
Count = Annotated[int, Meta(ge=0, le=COUNTER_MAX)]
#: 64 bits: msgpack holds no larger number, and msgspec takes no such bound.
Print = Annotated[int, Meta(ge=0)]


class Version(Struct, frozen=True, array_like=True, order=True, gc=False):
    """Orders the versions of one fact, everywhere alike: counter first, then who wrote it.

    The counter is above every counter that the writer had seen, of any fact.
    """

    counter: Count
    writer: Name
    incarnation: Count


class Fact(Struct, frozen=True, array_like=True, gc=False):
    """One version of one fact. Without a body it says that the fact was removed."""

    topic: Topic
    key: Name
    version: Version
    body: bytes | None
    #: Microseconds since the removal, as far as this sender knows.
    age: Count = 0
    #: Peers in a row that lacked it, so far.
    row: Count = 0

    @property
    def name(self) -> tuple[str, str]:
        """What it is about."""
        return self.topic, self.key


class Spread(Struct, frozen=True, array_like=True):
    """Facts for every peer whose place is in (low, high), both ends excluded.

    `origin` and `wave` name the broadcast. Where `low` is the receiver's own place it covers the
    interval; otherwise it is nearer to the interval than the sender and passes it on.
    A `token` of 0 wants no answer. `lost` did not answer those who tried before.
    """

    origin: Name
    wave: Count
    token: Count
    low: Place
    high: Place
    facts: tuple[Fact, ...]
    hops: Count
    lost: tuple[Name, ...] = ()


class Taken(Struct, frozen=True, array_like=True, gc=False):
    """The answer to `Spread`."""

    token: Count


class Compare(Struct, frozen=True, array_like=True, gc=False):
    """Opens a comparison."""

    token: Count
    digest: Print


class Same(Struct, frozen=True, array_like=True, gc=False):
    """The digests are equal: nothing to tell."""

    token: Count


class Buckets(Struct, frozen=True, array_like=True, gc=False):
    """The digests differ; here are those of the sender's buckets.

    `sound_us`: for how long the sender was never away.
    """

    token: Count
    prints: Annotated[tuple[Print, ...], Meta(max_length=64)]
    sound_us: Count


class Entry(Struct, frozen=True, array_like=True, gc=False):
    """One fact the sender has, without its body."""

    topic: Topic
    key: Name
    version: Version


class Summary(Struct, frozen=True, array_like=True):
    """All that the sender has in these buckets."""

    token: Count
    buckets: Annotated[tuple[Annotated[int, Meta(ge=0, lt=64)], ...], Meta(max_length=64)]
    entries: tuple[Entry, ...]


class Want(Struct, frozen=True, array_like=True, gc=False):
    """A fact the sender would have; `held` says that it has an older version."""

    topic: Topic
    key: Name
    held: bool


class Give(Struct, frozen=True, array_like=True):
    """Facts for the receiver; the last one for a `Summary` carries what is wanted in return."""

    token: Count
    facts: tuple[Fact, ...]
    wants: tuple[Want, ...] = ()
    last: bool = False


MESSAGES: Mapping[int, type[Struct]] = {
    0x0301: Spread,
    0x0302: Taken,
    0x0303: Compare,
    0x0304: Same,
    0x0305: Buckets,
    0x0306: Summary,
    0x0307: Give,
}


# --- questions and their answers ------------------------------------------------------------------


class Broadcast(Struct, frozen=True):
    """Say to everybody: the fact has this body now, or (None) it is removed."""

    topic: str
    key: str
    body: bytes | None


class Accepted(Struct, frozen=True):
    """This peer holds the new version and passes it on."""

    version: Version


class Facts(Struct, frozen=True):
    """All facts of a topic that this peer knows."""

    topic: str


class FactList(Struct, frozen=True):
    """By key; removed ones are left out."""

    facts: tuple[Fact, ...]


QUESTIONS: tuple[type[Struct], ...] = (Broadcast, Facts)


# --- between siblings -----------------------------------------------------------------------------


class Routes(Struct, frozen=True):
    """Whom this peer knows on the ring now; nearest first, clockwise."""

    predecessor: Contact | None
    successors: tuple[Contact, ...]
    fingers: tuple[Contact, ...]


class RouteLost(Struct, frozen=True):
    """The ring believes that this peer is gone."""

    peer: Contact


class Heard(Struct, frozen=True):
    """News: this version of a fact is what holds here now; without a body it is removed."""

    topic: str
    key: str
    version: Version
    body: bytes | None
