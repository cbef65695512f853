"""What becomes of a message under way: when it arrives, whether, and how often.

Always on, as rates of a `Weather`:

    delay        the topology's, plus a waiting time with an exponential distribution; what is sent
                 while its mean is long (`LONG_MS`) counts as delayed
    heavy tail   a share of messages takes far longer (Pareto)
    loss         a share is gone
    duplicate    a share arrives a second time, later
    reorder      a share is held back so long that others overtake it

Switched on and off by faults:

    clog one direction, clog a pair   what is sent waits until the clog ends
    swizzle-clog                      some hosts' links clog one by one and open in another order
    partition                         what crosses between two sides is gone, in both directions
    partition, asymmetric             ... in one direction only
    isolate one                       a partition with one host on one side

A message that a partition swallows is not noticed by its sender until its host gives up.

Speed: `arrival` is called for every message. One number decides whether anything odd happens to
it; state of single links is kept only while they are clogged.

Not here   who sends what (`loop.py`); when faults begin and end (`runs/faults.py`).
"""

import math
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from shoal.kernel.rng import Rng
from shoal.kernel.time import MILLISECOND, SECOND, Instant
from shoal.sim.topology import Topology

__all__ = ["BLOCKED", "LONG_MS", "LOST", "Network", "Weather"]

#: A mean waiting time from which on messages count as delayed: as long as a path, or longer.
LONG_MS = 50.0

#: What `arrival` returns instead of an instant.
LOST = -1
BLOCKED = -2

_LINK_BITS = 20
_JITTER_STEPS = 4096
_EXPONENTIAL = tuple(-math.log(1 - (i + 0.5) / _JITTER_STEPS) for i in range(_JITTER_STEPS))


class Weather(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rates that hold for every message. Shares are of 1; the names of times carry their unit."""

    #: Mean of the waiting time on top of the topology's delay.
    jitter_ms: float = 2.0
    #: Share of messages with a heavy tail: 0.001 as in FoundationDB's slow packets.
    heavy: float = 0.001
    #: Least extra delay of such a message, and the most; in between a Pareto tail of shape 1.1.
    heavy_ms: float = 100.0
    heavy_max_ms: float = 3_000.0
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    #: How long a message that is held back waits at most.
    reorder_ms: float = 500.0


class Network:
    """Links between hosts, by index."""

    def __init__(self, topology: Topology, rng: Rng, weather: Weather) -> None:
        self.topology = topology
        #: Instant at which the copy of the message asked about last arrives; 0 if there is none.
        self.copy_at: Instant = 0
        #: How often each kind of odd thing really happened to a message.
        self.happened: Counter[str] = Counter()
        self._rng = rng
        self._uniform = rng.uniform
        self._delay = topology.delay
        self._clogs: dict[int, Instant] = {}
        self._host_clogs: dict[int, Instant] = {}
        #: Partitions by name: the side of each host, and whether one direction only is cut.
        self._partitions: dict[str, tuple[dict[int, int], bool]] = {}
        self._disturbed = False
        self.set_weather(weather)

    def set_weather(self, weather: Weather) -> None:
        """Other rates from now on."""
        self.weather = weather
        self._odd = weather.heavy + weather.loss + weather.duplicate + weather.reorder
        self._delayed = weather.jitter_ms >= LONG_MS
        self._disturbed = self._disturbed or self._delayed
        mean = weather.jitter_ms * MILLISECOND
        self._jitter = tuple(int(mean * wait) for wait in _EXPONENTIAL)

    def arrival(self, now: Instant, start: int, end: int) -> Instant:
        """When a message sent now arrives; LOST or BLOCKED if it does not."""
        uniform = self._uniform
        at = now + self._delay(start, end) + self._jitter[int(uniform() * _JITTER_STEPS)]
        self.copy_at = 0
        fate = uniform()
        if fate < self._odd:
            at = self._odd_arrival(at, fate)
        if self._disturbed and at >= 0:
            at = self._disturbed_arrival(now, at, start, end)
        return at

    def blocked(self, start: int, end: int) -> bool:
        """Whether a partition cuts this direction."""
        for sides, one_way in self._partitions.values():
            here, there = sides.get(start, 0), sides.get(end, 0)
            if here < there or (here > there and not one_way):
                return True
        return False

    def partition(self, name: str, side: Sequence[int], *, one_way: bool) -> None:
        """Cut these hosts off from all others; with `one_way`, others reach them no longer."""
        self._partitions[name] = (dict.fromkeys(side, 1), one_way)
        self._disturbed = True

    def heal(self, name: str) -> None:
        """End one partition."""
        self._partitions.pop(name, None)

    def clog_link(self, start: int, end: int, until: Instant) -> None:
        """What goes from one host to another waits until then."""
        self._clogs[start << _LINK_BITS | end] = until
        self._disturbed = True

    def clog_host(self, host: int, until: Instant) -> None:
        """What goes to this host or comes from it waits until then."""
        self._host_clogs[host] = until
        self._disturbed = True

    def unclog_host(self, host: int) -> None:
        """Its links are open again; what already waits comes when it was going to come."""
        self._host_clogs.pop(host, None)

    def calm(self, weather: Weather) -> None:
        """No clogs, no partitions, and this weather."""
        self._clogs.clear()
        self._host_clogs.clear()
        self._partitions.clear()
        self._disturbed = False
        self.set_weather(weather)

    @property
    def partitions(self) -> tuple[str, ...]:
        """Names of the partitions that are on."""
        return tuple(self._partitions)

    def side(self, name: str, host: int) -> int:
        """On which side of a partition a host is: 1 cut off, 0 the others."""
        return self._partitions[name][0].get(host, 0)

    def _odd_arrival(self, at: Instant, fate: float) -> Instant:
        """What one number below the sum of all rates says."""
        weather = self.weather
        if fate < weather.loss:
            self.happened["loss"] += 1
            return LOST
        fate -= weather.loss
        if fate < weather.heavy:
            self.happened["heavy"] += 1
            wait_ms = min(weather.heavy_ms * self._rng.pareto(1.1), weather.heavy_max_ms)
            return at + int(wait_ms * MILLISECOND)
        fate -= weather.heavy
        if fate < weather.duplicate:
            self.happened["duplicate"] += 1
            self.copy_at = at + 1 + self._rng.below(SECOND)
            return at
        self.happened["reorder"] += 1
        return at + self._rng.below(1 + int(weather.reorder_ms * MILLISECOND))

    def _disturbed_arrival(self, now: Instant, at: Instant, start: int, end: int) -> Instant:
        self.happened["delay"] += self._delayed
        if self._partitions and self.blocked(start, end):
            self.happened["partition"] += 1
            self.copy_at = 0
            return BLOCKED
        clogged = 0
        if self._clogs:
            clogged = self._clogs.get(start << _LINK_BITS | end, 0)
        if self._host_clogs:
            clogs = self._host_clogs
            clogged = max(clogged, clogs.get(start, 0), clogs.get(end, 0))
        if clogged <= now:
            return at
        self.happened["clog"] += 1
        return clogged + (at - now)
