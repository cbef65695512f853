"""Fingers: short cuts over half, a quarter, an eighth ... of the ring, kept one at a time.

    power 159 ──▶ the first peer at or behind my key + 2**159
    power 158 ──▶ ...                             down to where the successor list ends

Only powers behind the last successor want a finger, about log2(N / r) of them. A finger decides
nothing, so it may be old: it is pinged in its turn, and at every fourth turn looked up anew. Among
peers that reach equally far (within one power of two) the nearest by round trip is taken.

Source     Chord (Stoica et al. 2003), section IV.D; proximity as in its section VI.
"""

from shoal.control.ring.desk import Desk
from shoal.control.ring.messages import Ping
from shoal.control.ring.seek import Search, Seeker
from shoal.kernel.keys import ahead
from shoal.kernel.time import Instant

__all__ = ["Fingers"]

#: A finger is looked up anew at one check out of so many, and pinged at the others.
_ANEW = 4


class Fingers:
    """Keeps the fingers of one peer."""

    def __init__(self, desk: Desk, seeker: Seeker) -> None:
        self._desk = desk
        self._seeker = seeker
        self._turn = 0
        self._next_at: Instant = 0
        #: Powers that have been looked up since they were wanted; the others are in a hurry.
        self._tried: dict[int, None] = {}

    def check(self, now: Instant) -> None:
        """Look after one finger, if it is time: one round after the other while any is new."""
        if now < self._next_at:
            return
        table = self._desk.table
        self._next_at = now + self._desk.config.finger_period
        wanted = table.powers()
        self._tried = {power: None for power in wanted if power in self._tried}
        fresh = [p for p in wanted if p not in self._tried and p not in table.fingers]
        if fresh:
            # The farthest first: it is what look-ups miss most.
            self._look_up(fresh[-1], now)
            self._next_at = now
            return
        powers = [*wanted, *(power for power in sorted(table.fingers) if power not in wanted)]
        if not powers:
            return
        turns, at = divmod(self._turn, len(powers))
        self._turn += 1
        power = powers[at]
        finger = table.fingers.get(power)
        if finger is None or (turns + at) % _ANEW == 0:
            self._look_up(power, now)
        elif self._desk.watch.is_alive(finger.name):
            self._desk.ask("finger", finger, Ping, now=now)

    def _look_up(self, power: int, now: Instant) -> None:
        self._tried[power] = None
        self._seeker.begin("finger", ahead(self._desk.me.key, power), power, now)

    def found(self, search: Search, now: Instant) -> None:
        """Of those that reach as far take the nearest; the present one wins a tie."""
        desk = self._desk
        table = desk.table
        power = search.about
        assert isinstance(power, int)
        if search.owner is None:
            return
        if power not in table.powers() or table.gap(search.owner) < 1 << power:
            table.set_finger(power, None)
            return
        equal = [search.owner, *search.behind]
        if power in table.fingers:
            equal.insert(0, table.fingers[power])
        reach = [
            contact
            for contact in equal
            if 1 << power <= table.gap(contact) < 2 << power
            and not desk.watch.is_doubtful(contact.name)
        ]
        best = min(
            reach,
            key=lambda contact: desk.watch.round_trip(contact.name).bit_length(),
            default=search.owner,
        )
        table.set_finger(power, best)
        desk.watch.meet(best, now)
