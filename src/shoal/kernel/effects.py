"""What a peer asks its host for: the effects that `handle(event, now)` returns.

    Send          give a message to a peer, at most once, without any promise that it arrives
    SetTimer      fire a timer at an instant of this peer; a timer of that name is replaced
    CancelTimer   forget a timer; it is no error if there is none
    Persist       write one value durably, or remove it (None)
    Command       something for the data plane; its outcome comes back as an event
    Answer        the answer to a question, an error or a value
    Tell          news for sibling machines; the peer carries it and no host sees it
    Note          one line of the story of a thing; the peer keeps it and no host sees it

The order is part of the contract. A host carries the effects of one event out in the order of
the list, and a Persist is durable before anything behind it begins. If the host dies in between,
nothing behind happens: what others have heard is never ahead of what the store holds.
"""

from msgspec import Struct

from shoal.kernel.errors import ShoalError
from shoal.kernel.keys import Contact
from shoal.kernel.time import Instant

__all__ = [
    "Answer",
    "CancelTimer",
    "Command",
    "Effect",
    "Note",
    "Persist",
    "Send",
    "SetTimer",
    "Tell",
]


class Send(Struct, frozen=True):
    """Give a message to a peer."""

    to: Contact
    message: Struct


class SetTimer(Struct, frozen=True, gc=False):
    """Fire at an instant. The name begins with the machine's: `ring/probe`, `ring/lookup/17`."""

    timer: str
    at: Instant


class CancelTimer(Struct, frozen=True, gc=False):
    """Forget a timer."""

    timer: str


class Persist(Struct, frozen=True, gc=False):
    """Write a value durably under a key that begins with the machine's name; None removes it."""

    key: str
    value: bytes | None


class Command(Struct, frozen=True):
    """A command of `dataplane/`, as it stands there."""

    command: object


class Answer(Struct, frozen=True):
    """What a question gets."""

    request: int
    result: Struct | ShoalError


class Tell(Struct, frozen=True):
    """News of this machine; `peer/bridges.py` says whom it concerns."""

    news: Struct


class Note(Struct, frozen=True, gc=False):
    """One line of a story: the thing it is about, and what happened to it."""

    thing: str
    what: str


Effect = Send | SetTimer | CancelTimer | Persist | Command | Answer | Tell | Note
