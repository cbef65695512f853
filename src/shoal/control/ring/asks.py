"""Questions: who owns a key? Asked by a person (`Lookup`) or by a sibling (`Find`).

An answer always comes: the owner, or None when nobody could tell in time, when too many look-ups
are under way, or when this peer has left. A joiner looks up through its ways in.
"""

from msgspec import Struct

from shoal.control.ring.desk import Desk
from shoal.control.ring.join import Joiner
from shoal.control.ring.messages import Find, Found, Located, Lookup
from shoal.control.ring.seek import Search, Seeker
from shoal.control.ring.state import State
from shoal.kernel.effects import Answer, Tell
from shoal.kernel.errors import LocalError, ShoalError, UserError
from shoal.kernel.events import Asked
from shoal.kernel.keys import KEY_BITS, Key
from shoal.kernel.time import Instant

__all__ = ["Asks"]


class Asks:
    """Takes questions in and gives their answers out."""

    def __init__(self, desk: Desk, seeker: Seeker, joiner: Joiner) -> None:
        self._desk = desk
        self._seeker = seeker
        self._joiner = joiner

    def lookup(self, event: Asked, state: State, now: Instant) -> None:
        """A person wants to know."""
        assert isinstance(event.question, Lookup)
        key = event.question.key
        if len(key) != KEY_BITS // 8:
            error = UserError(f"key of {len(key)} bytes", hint="a key has 20 bytes")
            self._answer(event.request, error)
        else:
            self._seek("asked", key, event.request, state, now)

    def find(self, event: Find, state: State, now: Instant) -> None:
        """A sibling wants to know."""
        if len(event.key) != KEY_BITS // 8:
            raise LocalError(f"key of {len(event.key)} bytes", detail="a key has 20 bytes")
        self._seek("find", event.key, event.token, state, now)

    def _seek(self, purpose: str, key: Key, about: int | str, state: State, now: Instant) -> None:
        if state is State.LEFT or self._seeker.active >= self._desk.config.lookups_max:
            self._seeker.done.append(Search(0, purpose, key, about, now))
        elif state is State.MEMBER:
            self._seeker.begin(purpose, key, about, now)
        else:
            self._seeker.begin_through(purpose, key, about, self._joiner.ways_in(), now)

    def found(self, search: Search) -> None:
        """A look-up has ended: answer it."""
        if isinstance(search.about, int):
            self._answer(search.about, Located(search.key, search.owner, search.hops))
        else:
            assert isinstance(search.about, str)
            found = Found(search.about, search.key, search.owner, search.hops)
            self._desk.out.append(Tell(found))

    def _answer(self, request: int, result: Struct | ShoalError) -> None:
        self._desk.out.append(Answer(request, result))
