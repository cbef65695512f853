"""What hosts say to each other themselves: the hello, and what goes with connections.

    Hello         first frame of both sides: which mesh, who, since when
    Refused       last frame before a connection is closed for a reason that a person should read
    GoodBye       the connection is closed because it is not needed, or its host ends
    Revocations   the authority's newest list, for whoever said a lower number
    StoryAsked    what happened to you?    StoryTold   this

A hello is believed only so far as the certificate goes: its name must be the certificate's. Its
address is what the peer says of itself; who lies there is not found there.
"""

from typing import Final

from msgspec import Struct

from shoal.host.net.address import split
from shoal.kernel.errors import RemoteError, ShoalError
from shoal.kernel.ids import check_name
from shoal.kernel.keys import Contact
from shoal.wire.codec import Codec

__all__ = [
    "CODEC",
    "MESSAGES",
    "TAGS",
    "GoodBye",
    "Hello",
    "Refused",
    "Revocations",
    "StoryAsked",
    "StoryTold",
    "check",
    "refused",
]

#: The upper byte of the tags that are the host's own.
TAGS: Final = 0x0F
_REASON_CHARACTERS_MAX = 400
_INCARNATION_MAX = (1 << 63) - 1


class Hello(Struct, frozen=True, array_like=True):
    """Who this is."""

    mesh: str
    me: Contact
    release: str
    #: The number of the newest list of revocations; 0 without one.
    revocations: int = 0


class Refused(Struct, frozen=True, array_like=True):
    """Why this connection is closed."""

    reason: str


class GoodBye(Struct, frozen=True, array_like=True):
    """Nothing more is coming on this connection; it is nobody's fault."""

    ending: bool = False


class Revocations(Struct, frozen=True, array_like=True):
    """The authority's list, as it signed it."""

    list: bytes


class StoryAsked(Struct, frozen=True, array_like=True):
    """What happened to you? Of one thing, or of all."""

    number: int
    thing: str
    lines: int


class StoryTold(Struct, frozen=True, array_like=True):
    """This: instant, event, what led to it, the thing, what happened."""

    number: int
    forgotten: int
    lines: tuple[tuple[int, int, str, str, str], ...]


MESSAGES: dict[int, type[Struct]] = {
    0x0F01: Hello,
    0x0F02: Refused,
    0x0F03: GoodBye,
    0x0F04: Revocations,
    0x0F05: StoryAsked,
    0x0F06: StoryTold,
}
CODEC = Codec(MESSAGES)


def refused(error: ShoalError) -> bytes:
    """The frame that says why."""
    text = error.what if not error.detail else f"{error.what} ({error.detail})"
    return CODEC.encode(Refused(text[:_REASON_CHARACTERS_MAX]), 0)


def check(hello: Hello, *, mesh: str, certified: str | None) -> Contact:
    """The contact that says hello; RemoteError if it may not be it. Without keys nobody is
    certified, and everybody is on this machine."""
    if hello.mesh != mesh:
        raise RemoteError(
            "peer is of another mesh",
            detail=f"it says {hello.mesh[:40]!r}, this is {mesh!r}",
            hint="both need keys of one authority, or both none",
        )
    me = hello.me
    try:
        fine = check_name("peer", me.name) == me.name and 0 < me.incarnation <= _INCARNATION_MAX
        split(me.address)
    except ShoalError as error:
        raise RemoteError("hello of a peer cannot be read", detail=error.what) from error
    if not fine:
        raise RemoteError(
            "hello of a peer cannot be read", detail=f"{me.name[:80]!r} {me.incarnation}"
        )
    if certified is not None and me.name != certified:
        raise RemoteError(
            f"peer says that it is {me.name!r}", detail=f"its certificate says {certified!r}"
        )
    return me
