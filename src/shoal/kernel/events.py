"""What can happen to a peer: the events that `handle(event, now)` takes.

    Started       the peer begins, with what its durable store held
    Received      a message arrived; nothing is known but who sent it and what it says
    Unreachable   the host could not deliver to this peer: a hint, never a proof
    Unreadable    bytes that this peer sent are no message: it costs the peer its standing
    TimerFired    an instant asked for with SetTimer has come
    Asked         a person or a program on this host wants an answer
    Stopping      the host is about to end; say good-bye

`now` is this peer's own instant. It never goes back while a peer runs, it may leap forward (a
pause), and it is never compared with another peer's. Messages may be lost, doubled, reordered,
and arrive after their sender has ended.

They are never much older than `AWAY`: a host that has stood still for longer (stopped, suspended)
drops what has come for it meanwhile. Such a message would tell a peer what everybody else has
since withdrawn, removed, and forgotten that they did.
"""

from collections.abc import Mapping

from msgspec import Struct

from shoal.kernel.keys import Contact
from shoal.kernel.time import SECOND

__all__ = [
    "AWAY",
    "Asked",
    "Event",
    "Received",
    "Started",
    "Stopping",
    "TimerFired",
    "Unreachable",
    "Unreadable",
]


#: Microseconds. Far above the pauses of a process that is well, and above the patience of hosts
#: with a connection that takes nothing (15 s); far below the lives of withdrawals and removals.
#: A guess.
AWAY = 30 * SECOND


class Started(Struct, frozen=True):
    """The peer begins; `stored` is what earlier incarnations persisted, by key."""

    stored: Mapping[str, bytes]


class Received(Struct, frozen=True):
    """A message from a peer; `cause` is the number of the sender's event that made it send."""

    sender: Contact
    message: Struct
    cause: int = 0


class Unreachable(Struct, frozen=True, gc=False):
    """The host gave up to deliver something to this peer."""

    peer: Contact


class Unreadable(Struct, frozen=True, gc=False):
    """What came from this peer could not be read; `why` is the first line of the RemoteError."""

    peer: Contact
    why: str


class TimerFired(Struct, frozen=True, gc=False):
    """A timer, by its whole name: `ring/probe`."""

    timer: str


class Asked(Struct, frozen=True):
    """A question from this host; it is answered by `Answer(request, ...)`, exactly once."""

    request: int
    question: Struct


class Stopping(Struct, frozen=True, gc=False):
    """The host ends in a moment."""


Event = Started | Received | Unreachable | Unreadable | TimerFired | Asked | Stopping
