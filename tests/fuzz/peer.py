"""Hostile messages for a whole peer: what decodes may still say anything.

A peer of all machines is started, joins others that exist only as names, and is given messages
made of values that are broken in their meaning, not in their bytes: keys of wrong length, lists
too long or out of order, contradictions, answers nobody asked for. In between its timers fire and
time leaps. It must refuse or go on, and stay valid: anything but a RemoteError inside the peer is
a defect of ours.
"""

import random
from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from shoal.kernel.effects import CancelTimer, Send, SetTimer
from shoal.kernel.events import Event, Received, Started, Stopping, TimerFired, Unreachable
from shoal.kernel.keys import Contact, key_of_name
from shoal.kernel.rng import Rng
from shoal.kernel.time import MINUTE, SECOND
from shoal.peer.build import PeerConfig, build_machines
from shoal.peer.messages import MESSAGES
from shoal.peer.peer import Peer
from shoal.peer.standing import StandingConfig
from tests.checked import Checked
from tests.samples import samples

__all__ = ["PeerFuzzer"]

_PATIENT = StandingConfig(forgive_s=1, limit_faults=1_000_000, faults_max=1_000_001)
_NUMBERS = (0, 1, 2, 3, 7, 64, 255, 65_536, (1 << 31) - 1, 1 << 53, (1 << 63) - 1, -1, -(1 << 63))


class PeerFuzzer:
    """One peer after the other, each given some thousand messages that are not to be trusted."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random = random.Random(seed)
        self._samples: list[object] = [
            msgspec.to_builtins(sample, builtin_types=(bytes,))
            for kind in MESSAGES.values()
            for _, sample in samples(kind)
        ]
        self._kinds = [kind for kind in MESSAGES.values() for _ in samples(kind)]
        self.names = [f"p{number}" for number in range(12)]
        self.counts: Counter[str] = Counter()
        self._begin()

    def _begin(self) -> None:
        """Another peer: the first of a ring, or one that joins."""
        self.counts["peers"] += 1
        me = Contact("p0", "p0:1", 1)
        config = PeerConfig(standing=_PATIENT)
        if self._random.random() < 0.5:
            config = config.joining("p1:1")
        rng = Rng(self._seed, f"peer/{self.counts['peers']}")
        machines = [Checked(machine) for machine in build_machines(me, config, rng)]
        self.peer = Peer(me, machines, story_lines_max=20, standing=config.standing)
        self._timers: dict[str, int] = {}
        self._said: list[Struct] = []
        self._now = SECOND
        self._give(Started({}))

    def step(self) -> None:
        """One event."""
        draw = self._random.random()
        if draw < 0.15 and self._timers:
            timer = min(self._timers, key=self._timers.__getitem__)
            self._now = max(self._now, self._timers.pop(timer))
            self._give(TimerFired(timer))
        elif draw < 0.17:
            self._now += self._random.choice((SECOND, MINUTE, 100 * MINUTE))
        elif draw < 0.19:
            self._give(Unreachable(self._contact(1)))
        elif draw < 0.1901:
            self._give(Stopping())
            self._begin()
        elif draw < 0.1910:
            self._begin()
        else:
            self._give(Received(self._contact(1), self._message(), self._random.getrandbits(16)))

    def _give(self, event: Event) -> None:
        self.counts[type(event).__name__] += 1
        refused = self.peer.refused
        for effect in self.peer.handle(event, self._now):
            match effect:
                case SetTimer(timer=timer, at=at):
                    self._timers[timer] = at
                case CancelTimer(timer=timer):
                    self._timers.pop(timer, None)
                case Send(message=message):
                    self._said = [*self._said[-30:], message]
        self.counts["refused"] += self.peer.refused - refused
        self.peer.validate()

    # --- values ---------------------------------------------------------------------------------

    def _message(self) -> Struct:
        """A message that decodes and whose meaning is anybody's guess."""
        while True:
            number = self._random.randrange(len(self._kinds))
            kind, start = self._kinds[number], self._samples[number]
            if self._said and self._random.random() < 0.4:
                # What the peer itself says has the right numbers in it: requests, keys, versions.
                said = self._random.choice(self._said)
                start = msgspec.to_builtins(said, builtin_types=(bytes,))
                kind = type(said) if self._random.random() < 0.5 else kind
            broken = self._broken(start, 0)
            try:
                return msgspec.convert(broken, kind)
            except (msgspec.ValidationError, RecursionError):
                self.counts["not a message"] += 1

    def _broken(self, value: object, level: int) -> object:
        """The same, with something changed here or there."""
        if self._random.random() < 0.25:
            value = self._other(value)
        if isinstance(value, list | tuple):
            items: list[object] = [self._broken(one, level + 1) for one in value]
            if level and items and self._random.random() < 0.2:
                self._rearrange(items)
            return items
        return value

    def _other(self, value: object) -> object:
        """Another value of this kind, at an edge or from the world the peer knows."""
        match value:
            case bool():
                return not value
            case int():
                near = value + self._random.choice((-1, 1))
                return self._random.choice((*_NUMBERS, near))
            case float():
                return self._random.choice((0.0, -1.0, float("nan"), float("inf"), 1e308))
            case bytes():
                key = key_of_name(self._random.choice(self.names))
                return self._random.choice((key, key, key, bytes(20), b"", key[:19], key * 3))
            case str():
                name = self._random.choice(self.names)
                return self._random.choice((name, name, "", f"{name}:1", "x" * 300, "\0/ä"))
            case None:
                return self._random.choice((None, list(self._fields(self._contact())), 0, b""))
            case list() if len(value) == 3 and isinstance(value[0], str):
                return list(self._fields(self._contact()))
            case _:
                return None if self._random.random() < 0.3 else value

    def _rearrange(self, items: list[object]) -> None:
        draw = self._random.randrange(4)
        if draw == 0:
            items.reverse()
        elif draw == 1:
            del items[self._random.randrange(len(items))]
        elif draw == 2:
            items.append(self._random.choice(items))
        else:
            items += items * self._random.choice((1, 5, 70))

    def _contact(self, first: int = 0) -> Contact:
        """Somebody; a message's sender is never this peer, because its certificate is its own."""
        name = self._random.choice(self.names[first:])
        return Contact(name, f"{name}:1", self._random.choice((1, 1, 1, 2, 0)))

    @staticmethod
    def _fields(contact: Contact) -> Sequence[object]:
        return contact.name, contact.address, contact.incarnation
