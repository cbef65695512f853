"""What the parts of the ring machine share: table, acquaintances, requests, and the way out.

Parts do not call each other. They leave on the desk what has become of something (`lost`,
`suspected`, `done`), and the machine settles that before it returns its effects.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from shoal.control.ring.config import RingConfig
from shoal.control.ring.state import Table
from shoal.control.ring.watch import Watch
from shoal.kernel.effects import Effect, Note, Send
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import Instant

__all__ = ["Desk", "Request", "Requests"]


class Request:
    """Something asked of a peer; `about` is whatever the answer is needed for."""

    __slots__ = ("about", "due", "kind", "number", "sent", "to")

    def __init__(
        self, number: int, kind: str, to: Contact, about: object, sent: Instant, due: Instant
    ) -> None:
        self.number = number
        self.kind = kind
        self.to = to
        self.about = about
        self.sent = sent
        self.due = due


class Requests:
    """What is under way, by number."""

    def __init__(self) -> None:
        self._pending: dict[int, Request] = {}
        self._last = 0
        #: Whether anything came or went since this was set to False.
        self.touched = False

    def __len__(self) -> int:
        return len(self._pending)

    def open(self, kind: str, to: Contact, about: object, *, now: Instant, timeout: int) -> Request:
        """A new request, due after the time-out."""
        self._last += 1
        request = Request(self._last, kind, to, about, now, now + timeout)
        self._pending[request.number] = request
        self.touched = True
        return request

    def close(self, number: int, sender: Contact) -> Request | None:
        """The request that this peer answers, if there is one; it is over."""
        request = self._pending.get(number)
        if request is None or (request.to.name and request.to.name != sender.name):
            return None
        del self._pending[number]
        self.touched = True
        return request

    def about(self, number: int, sender: Contact) -> object:
        """What this peer's answer is needed for; None if nothing was asked."""
        request = self._pending.get(number)
        if request is None or (request.to.name and request.to.name != sender.name):
            return None
        return request.about

    def pending(self, kind: str, name: str) -> bool:
        """Whether such a request to this peer is under way."""
        return any(r.kind == kind and r.to.name == name for r in self._pending.values())

    def pending_kind(self, kind: str) -> bool:
        """Whether any such request is under way."""
        return any(r.kind == kind for r in self._pending.values())

    def clear(self) -> None:
        """Wait for nothing any more."""
        self._pending.clear()
        self.touched = True

    def take_due(self, now: Instant) -> Sequence[Request]:
        """Those whose time is over, in the order they were made."""
        due = [request for request in self._pending.values() if request.due <= now]
        for request in due:
            del self._pending[request.number]
            self.touched = True
        return due

    def hurry(self, peer: Contact, now: Instant) -> None:
        """The host could not deliver to this peer: stop waiting for it."""
        for request in self._pending.values():
            if request.to.name == peer.name and request.to.address == peer.address:
                request.due = min(request.due, now)
                self.touched = True

    def delay(self, by: int) -> None:
        """This peer was away itself: everybody gets that much longer."""
        for request in self._pending.values():
            request.due += by
        self.touched = True

    def next_due(self) -> Instant | None:
        """When the next one is due."""
        return min((request.due for request in self._pending.values()), default=None)


class Desk:
    """Shared by the machine, the prober and the seeker of one peer."""

    def __init__(self, me: Contact, config: RingConfig, rng: Rng) -> None:
        self.me = me
        self.config = config
        self.rng = rng
        self.table = Table(me, config.successors_max)
        self.watch = Watch(config)
        self.requests = Requests()
        #: Ways into the ring: seeds, by their address, and contacts that were stored.
        self.ways: tuple[Contact, ...] = ()
        #: Effects of the event that is being handled.
        self.out: list[Effect] = []
        #: Names given up since the last settling.
        self.lost: list[str] = []
        #: Whether somebody new is suspected since then.
        self.suspected = False

    def send(self, to: Contact, message: Struct) -> None:
        """Give a message to a peer."""
        self.out.append(Send(to, message))

    def ask(
        self,
        kind: str,
        to: Contact,
        message: Callable[..., Struct],
        *values: Any,
        now: Instant,
        about: object = None,
        timeout: int = 0,
    ) -> Request:
        """Send a request; its number goes before the values."""
        request = self.requests.open(
            kind, to, about, now=now, timeout=timeout or self.watch.timeout(to.name)
        )
        self.out.append(Send(to, message(request.number, *values)))
        return request

    def note(self, what: str) -> None:
        """A line of the story."""
        self.out.append(Note("ring", what))
