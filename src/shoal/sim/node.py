"""A simulated host: one address, one disk, one clock, and the peer that runs there or does not.

    state     takes events    what comes meanwhile
    DOWN      no              is refused; the sender may be told
    UP        yes
    PAUSED    no              waits, and is taken in order when it goes on: `now` has leapt
    LEAVING   no              nothing more is taken; what it still has to say is on its way

Its clock starts at a large random instant and may drift; nobody's instants mean anything to
anybody else, and a machine that compares them is soon found out.
"""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shoal.kernel.keys import Contact
from shoal.kernel.time import DAY, Instant
from shoal.sim.disk import Disk

if TYPE_CHECKING:
    from shoal.kernel.effects import Effect
    from shoal.kernel.rng import Rng
    from shoal.peer.peer import Peer

__all__ = ["DOWN", "LEAVING", "PAUSED", "UP", "Node"]

DOWN = 0
UP = 1
PAUSED = 2
LEAVING = 3

#: Where clocks begin: about the year 2027, a different instant for everybody within thirty days.
_CLOCK_BASE = 1_800_000_000_000_000
_CLOCK_SPREAD = 30 * DAY
_MILLION = 1_000_000


class Node:
    """One host. The world changes it; checkers only read it."""

    __slots__ = (
        "_drift_from",
        "address",
        "asked",
        "contact",
        "crashed_at",
        "disk",
        "drift_ppm",
        "inbox",
        "index",
        "life",
        "name",
        "offset",
        "offset_at_start",
        "outbox",
        "paused_at",
        "peer",
        "service",
        "started_at",
        "starts",
        "state",
        "timers",
        "unreachable",
        "waking",
    )

    def __init__(self, index: int, rng: "Rng") -> None:
        self.index = index
        self.name = f"p{index}"
        self.address = f"host{index}:1"
        #: How many identities it has had: another machine is a new peer at the same address.
        self.life = 1
        self.contact = Contact(self.name, self.address, 0)
        #: Peers that have begun here; what belongs to an earlier one is recognised by it.
        self.starts = 0
        self.peer: Peer | None = None
        self.state = DOWN
        self.disk = Disk(rng.split("disk"))
        #: Timers that are armed, by name: the entry in the world's heap, which must be this one.
        self.timers: dict[str, tuple[Any, ...]] = {}
        #: Events that wait while it is paused or slow.
        self.inbox: deque[Any] = deque()
        #: Effects that wait behind a Persist under way: a list, where to go on, the cause.
        self.outbox: deque[tuple[Sequence[Effect], int, int]] = deque()
        #: Questions without an answer so far: who wants to know.
        self.asked: dict[int, Any] = {}
        #: Peers about which an Unreachable is on its way, by address.
        self.unreachable: dict[str, None] = {}
        #: Microseconds that one event takes here; more than 0 while it is slow.
        self.service = 0
        self.waking = False
        self.started_at: Instant = 0
        self.crashed_at: Instant = 0
        self.paused_at: Instant = 0
        self.offset = _CLOCK_BASE + rng.split("clock").below(_CLOCK_SPREAD)
        #: A leap backwards that the next peer on this host will find.
        self.offset_at_start = 0
        self.drift_ppm = 0
        self._drift_from: Instant = 0

    @property
    def running(self) -> bool:
        """Whether there is a peer, be it paused."""
        return self.state in (UP, PAUSED)

    def local(self, now: Instant) -> Instant:
        """This host's own instant."""
        if self.drift_ppm:
            return now + self.offset + (now - self._drift_from) * self.drift_ppm // _MILLION
        return now + self.offset

    def world_instant(self, local: Instant) -> Instant:
        """The first instant of the world at which this host's clock shows `local` or more."""
        if not self.drift_ppm:
            return local - self.offset
        begin = self._drift_from
        span = local - self.offset - begin
        return begin - (-span * _MILLION // (_MILLION + self.drift_ppm))

    def set_drift(self, ppm: int, now: Instant) -> None:
        """From now on its clock runs this many millionths too fast; timers must be armed anew."""
        self.offset = self.local(now) - now
        self.drift_ppm = ppm
        self._drift_from = now
