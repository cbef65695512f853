"""DHTJoin's dissemination of queries (document 004, sections 3.2 and 3.3), round by round.

A peer that hears a message for the first time forwards it to its targets, never back to whoever it
came from. The paper's methods differ in the targets, which come from the finger table, the
successor and the predecessor:

    successor, succ+pred       one or two pointers
    fanout 2                   two random fingers
    m/2 random, m/2 largest    successor, predecessor and three fingers, of m = log2 N = 10
    m fingers (+pred)          all fingers
    m_OPT                      all, reduced by what the message says others were sent

The text of the optimisation has no single meaning; three readings are here (`reduce`):

    (a)  literally: the intersection of the sender's targets and one's own
    (b)  one's own targets without those of the sender
    (c)  one's own targets without those of everybody on the message's path

Beside them stands interval partition as El-Ansary and others published it, without repair:
what Shoal's gossip does while nobody is dead. Fingers are those of `still.tables_of`: nobody
repairs them. A message costs one, also where it comes to a dead peer.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from shoal.kernel.rng import Rng
from shoal.sim.baselines.still import Tables

__all__ = ["METHODS", "Outcome", "Reduce", "flood", "partition"]

#: How many fingers m/2 takes beside the two neighbours, for m = 10.
_HALF = 3

Targets = Callable[[Tables, Rng], Sequence[int]]


class Reduce(StrEnum):
    """The readings of the paper's optimisation."""

    NOT = "all of one's own targets"
    INTERSECTION = "a"
    SENDER = "b"
    PATH = "c"


class Outcome(Struct, frozen=True):
    """What one dissemination did; the origin counts as reached."""

    reached: int
    living: int
    messages: int
    #: Messages that came to a living peer that had it.
    redundant: int
    hops: int

    @property
    def hit(self) -> float:
        """The share of the living that was reached."""
        return self.reached / self.living


def _distinct(*places: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(places))


def _successor(table: Tables, _rng: Rng) -> Sequence[int]:
    return table.successors[:1]


def _neighbours(table: Tables, _rng: Rng) -> Sequence[int]:
    return _distinct(*table.successors[:1], table.predecessor)


def _two(table: Tables, rng: Rng) -> Sequence[int]:
    return rng.sample(table.fingers, 2)


def _half_random(table: Tables, rng: Rng) -> Sequence[int]:
    return _distinct(*_neighbours(table, rng), *rng.sample(table.fingers, _HALF))


def _half_largest(table: Tables, rng: Rng) -> Sequence[int]:
    return _distinct(*_neighbours(table, rng), *table.fingers[-_HALF:])


def _fingers(table: Tables, _rng: Rng) -> Sequence[int]:
    return _distinct(*table.successors[:1], *table.fingers)


def _all(table: Tables, rng: Rng) -> Sequence[int]:
    return _distinct(*_fingers(table, rng), table.predecessor)


#: The paper's methods by name: the targets of a peer, and how they are reduced.
METHODS: Mapping[str, tuple[Targets, Reduce]] = {
    "successor": (_successor, Reduce.NOT),
    "succ+pred": (_neighbours, Reduce.NOT),
    "fanout 2": (_two, Reduce.NOT),
    "m/2 random": (_half_random, Reduce.NOT),
    "m/2 largest": (_half_largest, Reduce.NOT),
    "m fingers": (_fingers, Reduce.NOT),
    "m fingers+pred": (_all, Reduce.NOT),
    "m_OPT (a)": (_all, Reduce.INTERSECTION),
    "m_OPT (b)": (_all, Reduce.SENDER),
    "m_OPT (c)": (_all, Reduce.PATH),
}


class _Message(Struct, frozen=True):
    sender: int
    to: int
    #: The targets that the message names, by place.
    named: Mapping[int, None]
    hops: int


def flood(
    tables: Sequence[Tables],
    method: str,
    *,
    origin: int,
    dead: Mapping[int, None],
    rng: Rng,
) -> Outcome:
    """Disseminate one message from `origin` by one of the paper's methods."""
    targets_of, reduce = METHODS[method]
    reached: dict[int, None] = {origin: None}
    queue: deque[_Message] = deque()
    messages = redundant = hops = 0

    def forward(place: int, heard: _Message | None) -> None:
        nonlocal messages
        own = targets_of(tables[place], rng)
        targets, named = _reduced(own, place, heard, reduce)
        for target in targets:
            messages += 1
            if target not in dead:
                queue.append(_Message(place, target, named, 1 + (heard.hops if heard else 0)))

    forward(origin, None)
    while queue:
        heard = queue.popleft()
        if heard.to in reached:
            redundant += 1
            continue
        reached[heard.to] = None
        hops = heard.hops
        forward(heard.to, heard)
    return Outcome(len(reached), len(tables) - len(dead), messages, redundant, hops)


def _reduced(
    own: Sequence[int], place: int, heard: _Message | None, reduce: Reduce
) -> tuple[Sequence[int], Mapping[int, None]]:
    """Whom a peer sends it to, and the targets that it names in the message."""
    if heard is None:
        return own, dict.fromkeys((*own, place))
    named = heard.named
    match reduce:
        case Reduce.NOT:
            kept = own
        case Reduce.INTERSECTION:
            kept = [target for target in own if target in named]
        case Reduce.SENDER | Reduce.PATH:
            kept = [target for target in own if target not in named]
    targets = [target for target in kept if target != heard.sender]
    if reduce is Reduce.PATH:
        return targets, {**named, **dict.fromkeys((*own, place))}
    return targets, dict.fromkeys((*own, place))


def partition(tables: Sequence[Tables], *, origin: int, dead: Mapping[int, None]) -> Outcome:
    """Interval partition over fingers, without acknowledgements and without repair."""
    size = len(tables)
    reached: dict[int, None] = {origin: None}
    #: Who covers how many places behind its own, after how many hops.
    queue: deque[tuple[int, int, int]] = deque([(origin, size - 1, 0)])
    messages = hops = 0
    while queue:
        place, span, depth = queue.popleft()
        hops = max(hops, depth)
        known = _distinct(*tables[place].successors[:1], *tables[place].fingers)
        steps = sorted((other - place) % size for other in known)
        inside = [step for step in steps if 0 < step <= span]
        ends = [*inside[1:], span + 1]
        for step, end in zip(inside, ends, strict=False):  # none inside: nothing to give
            messages += 1
            target = (place + step) % size
            if target not in dead:
                reached[target] = None
                queue.append((target, end - step - 1, depth + 1))
    return Outcome(len(reached), size - len(dead), messages, 0, hops)
