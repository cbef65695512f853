"""What the roles of the directory share: its place, its effects, and who keeps which key.

The ring is asked for a keeper (NeedOwner) only where no route is known, for so many keys at once
at most, and not again for a moment after a refusal. One answer settles its neighbours too: who
keeps a key keeps everything from there to its own place.
"""

from shoal.control.directory.config import DirectoryConfig
from shoal.control.directory.messages import NeedOwner, OwnerFound
from shoal.control.directory.policy import KEY_BYTES
from shoal.control.directory.state import Deadlines, Outbox, Place, Route, Routes
from shoal.kernel.errors import LocalError, RemoteError
from shoal.kernel.keys import Contact, Key
from shoal.kernel.rng import Rng
from shoal.kernel.time import Instant

__all__ = ["Desk"]

_BACKUPS_MAX = 16
_NUMBER_BITS = 32


class Desk:
    """Shared by the roles of one directory."""

    def __init__(self, me: Contact, config: DirectoryConfig, rng: Rng) -> None:
        self.me = me
        self.config = config
        self.rng = rng
        self.place = Place(me)
        self.box = Outbox(me)
        self.deadlines = Deadlines()
        self.routes = Routes(config.routes_max)
        #: Look-ups under way, and keys that wait for one.
        self.open: dict[Key, str] = {}
        self.waiting: dict[Key, None] = {}
        #: Keys that were refused, and until when they rest.
        self.resting: dict[Key, Instant] = {}
        # Replies to a former incarnation must not meet a number of this one.
        self._number = rng.bits(_NUMBER_BITS)

    def number(self) -> int:
        """A new number for a request."""
        self._number += 1
        return self._number

    def keeper_of(self, key: Key, now: Instant) -> Route | None:
        """Who keeps the key, if that is known; otherwise the ring is asked."""
        route = self.known(key)
        if route is None:
            self._need(key, now)
        return route

    def known(self, key: Key) -> Route | None:
        """Who keeps the key, as far as is known."""
        place = self.place
        if place.low and place.owns(key):
            return Route(self.me, place.low, place.backups)
        return self.routes.find(key)

    def learn(self, keeper: Contact, low: bytes, backups: tuple[Contact, ...]) -> None:
        """A keeper has said what it keeps."""
        if len(low) == KEY_BYTES and keeper.name != self.me.name:
            self.routes.learn(Route(keeper, low, backups))

    def refused(self, keeper: Contact, key: Key, low: bytes, now: Instant) -> None:
        """A keeper does not keep the key after all: ask the ring, in a moment."""
        route = self.routes.find(key)
        if route is not None and (not low or route.keeper.name == keeper.name):
            self.routes.forget(route.keeper)
        self.rest(key, now)

    def rest(self, key: Key, now: Instant) -> None:
        """Leave the key alone for a moment."""
        until = now + self.config.retry_delay
        self.resting[key] = until
        self.deadlines.add(until, "pump", 0)

    def found(self, event: OwnerFound, now: Instant) -> None:
        """The ring has answered."""
        if self.open.get(event.key) != event.token:
            return
        del self.open[event.key]
        if event.owner is None:
            self.rest(event.key, now)
        else:
            self.routes.learn_point(event.key, event.owner)
            if self.known(event.key) is None:
                raise LocalError("directory: a key without a keeper right after its look-up")
        self._next(now)

    def unanswered(self, number: int, now: Instant) -> None:
        """The ring did not answer in time."""
        token = _token(number)
        for key, known in self.open.items():
            if known == token:
                del self.open[key]
                self.rest(key, now)
                self._next(now)
                return

    def _need(self, key: Key, now: Instant) -> None:
        if key in self.open or self.resting.get(key, now) > now:
            return
        self.resting.pop(key, None)
        if len(self.open) >= self.config.lookups_max:
            self.waiting[key] = None
            return
        number = self.number()
        token = _token(number)
        self.open[key] = token
        self.deadlines.add(now + self.config.lookup_timeout, "lookup", number)
        self.box.tell(NeedOwner(token, key))

    def _next(self, now: Instant) -> None:
        while self.waiting and len(self.open) < self.config.lookups_max:
            key = next(iter(self.waiting))
            del self.waiting[key]
            self.keeper_of(key, now)

    def forget_rests(self, now: Instant) -> None:
        """Drop rests that are over."""
        over = [key for key, until in self.resting.items() if until <= now]
        for key in over:
            del self.resting[key]

    def check_route(self, low: bytes, backups: tuple[Contact, ...]) -> None:
        """Raise RemoteError if a keeper cannot have said this."""
        if len(low) not in (0, KEY_BYTES) or len(backups) > _BACKUPS_MAX:
            raise RemoteError("a keeper describes an impossible range")


def _token(number: int) -> str:
    return str(number)
