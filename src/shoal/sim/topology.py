"""Where hosts stand and how long a message takes from one to another, without load or luck.

    uniform        every host has an access line; a message takes both lines
    tree           hosts are the nodes of a tree; a message climbs to the common ancestor
    transit-stub   1,500 routers as in the papers: 60 transit routers in a ring with chords, and
                   at each of them one stub domain of 24 routers; hosts sit at stub routers

Latencies of routers are computed once, when the topology is made. Delays are microseconds, one way.
"""

import heapq
from typing import Protocol

from shoal.kernel.errors import UserError
from shoal.kernel.rng import Rng
from shoal.kernel.time import MILLISECOND

__all__ = ["TOPOLOGIES", "Topology", "TransitStub", "Tree", "Uniform", "topology_of"]

_FAR = 1 << 60


class Topology(Protocol):
    """A place for each host, and delays between places."""

    def place(self, index: int) -> None:
        """Host `index` comes into being; called once for each, in order."""
        ...

    def delay(self, start: int, end: int) -> int:
        """Microseconds from one host to another."""
        ...


class Uniform:
    """Every host has an access line of a few milliseconds: LAN and metropolitan peers alike."""

    def __init__(self, rng: Rng, *, mean: int = 10 * MILLISECOND) -> None:
        self._rng = rng
        self._mean = mean
        self._line: list[int] = []

    def place(self, index: int) -> None:
        assert index == len(self._line)
        self._line.append(self._rng.between(self._mean // 4, self._mean * 3 // 4))

    def delay(self, start: int, end: int) -> int:
        line = self._line
        return line[start] + line[end]


class Tree:
    """Hosts are nodes of a tree of fan-out four, as concentrators and meters are."""

    FAN_OUT = 4

    def __init__(self, rng: Rng, *, mean: int = 10 * MILLISECOND) -> None:
        self._rng = rng
        self._mean = mean
        #: Microseconds from each host to the root.
        self._up: list[int] = []

    def place(self, index: int) -> None:
        assert index == len(self._up)
        edge = self._rng.between(self._mean // 4, self._mean * 3 // 4)
        self._up.append(0 if index == 0 else edge + self._up[(index - 1) // self.FAN_OUT])

    def delay(self, start: int, end: int) -> int:
        up = self._up
        low, high = start, end
        while low != high:
            if low < high:
                low, high = high, low
            low = (low - 1) // self.FAN_OUT
        return up[start] + up[end] - 2 * up[low]


class TransitStub:
    """A core of transit routers, stub domains around it: the shape that the papers simulate on."""

    TRANSIT = 60
    STUB = 24

    def __init__(self, rng: Rng, *, mean: int = 10 * MILLISECOND) -> None:
        self._rng = rng
        self._core = self._all_pairs(self.TRANSIT, mean * 2, chords=self.TRANSIT)
        self._stubs = [
            self._all_pairs(self.STUB, mean // 4, chords=self.STUB // 2)
            for _ in range(self.TRANSIT)
        ]
        self._gateway = [rng.between(mean // 2, mean) for _ in range(self.TRANSIT)]
        self._stub: list[int] = []
        self._router: list[int] = []
        #: From each host to the transit router of its domain.
        self._up: list[int] = []

    def place(self, index: int) -> None:
        assert index == len(self._up)
        stub = self._rng.below(self.TRANSIT)
        router = self._rng.below(self.STUB)
        self._stub.append(stub)
        self._router.append(router)
        self._up.append(self._stubs[stub][router][0] + self._gateway[stub])

    def delay(self, start: int, end: int) -> int:
        here, there = self._stub[start], self._stub[end]
        if here == there:
            return self._stubs[here][self._router[start]][self._router[end]] + MILLISECOND
        return self._up[start] + self._core[here][there] + self._up[end]

    def stub_of(self, host: int) -> int:
        """The stub domain of a host."""
        return self._stub[host]

    def _all_pairs(self, size: int, mean: int, *, chords: int) -> list[list[int]]:
        """Shortest delays of a ring with random chords."""
        edges: list[dict[int, int]] = [{} for _ in range(size)]
        pairs = [(i, (i + 1) % size) for i in range(size)]
        pairs += [(self._rng.below(size), self._rng.below(size)) for _ in range(chords)]
        for one, other in pairs:
            if one != other:
                length = self._rng.between(mean // 2, mean * 3 // 2)
                edges[one][other] = edges[other][one] = length
        return [_shortest(edges, start) for start in range(size)]


def _shortest(edges: list[dict[int, int]], start: int) -> list[int]:
    """Dijkstra."""
    found = [_FAR] * len(edges)
    found[start] = 0
    queue = [(0, start)]
    while queue:
        length, here = heapq.heappop(queue)
        if length > found[here]:
            continue
        for there, edge in edges[here].items():
            if length + edge < found[there]:
                found[there] = length + edge
                heapq.heappush(queue, (length + edge, there))
    return found


TOPOLOGIES: dict[str, type[Uniform] | type[Tree] | type[TransitStub]] = {
    "uniform": Uniform,
    "tree": Tree,
    "transit-stub": TransitStub,
}


def topology_of(kind: str, rng: Rng, *, mean: int) -> Topology:
    """The topology of this name."""
    made = TOPOLOGIES.get(kind)
    if made is None:
        raise UserError(
            f"topology {kind!r} is not known", hint=f"one of: {', '.join(sorted(TOPOLOGIES))}"
        )
    return made(rng, mean=mean)
