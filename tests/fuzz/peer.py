"""Hostile messages for a whole peer: what decodes may still say anything.

One to four whole peers live on a perfect network (tests/perfect.py), hold records and facts, and
are given messages that are broken in their meaning, not in their bytes: keys of wrong length, lists
too long or out of order, contradictions, answers nobody asked for, peers that exist only as names.
In between they talk to each other, their timers fire and time leaps. They must refuse or go on, and
stay valid: anything but a RemoteError inside a peer is a defect of ours.

That a peer decides *well* while members of its mesh lie is not asked: certificates keep liars out.
"""

import random
from collections import Counter, deque
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from shoal.control.directory.messages import Publish, StreamRecord, Watch
from shoal.control.gossip.messages import Broadcast
from shoal.kernel.events import Event, Received, Unreachable
from shoal.kernel.keys import Contact, key_of_name
from shoal.kernel.time import MINUTE, SECOND
from shoal.peer.build import PeerConfig
from shoal.peer.messages import MESSAGES
from shoal.peer.standing import StandingConfig
from tests.perfect import PerfectNetwork
from tests.samples import samples

__all__ = ["PeerFuzzer"]

_PATIENT = StandingConfig(forgive_s=1, limit_faults=1_000_000, faults_max=1_000_001)
_NUMBERS = (0, 1, 2, 3, 7, 64, 255, 65_536, (1 << 31) - 1, 1 << 53, (1 << 63) - 1, -1, -(1 << 63))


class _Network(PerfectNetwork):
    """Remembers what was said last."""

    def __init__(self, *, seed: int, config: PeerConfig) -> None:
        super().__init__(seed=seed, config=config)
        self.said: deque[Struct] = deque(maxlen=30)

    def _send(self, name: str, to: Contact, message: Struct) -> None:
        self.said.append(message)
        super()._send(name, to, message)


class PeerFuzzer:
    """One small mesh after the other, each given some thousand messages not to be trusted."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random = random.Random(seed)
        self._kinds = [kind for kind in MESSAGES.values() for _ in samples(kind)]
        self._samples = [_plain(one) for kind in MESSAGES.values() for _, one in samples(kind)]
        self.names = [f"p{number}" for number in range(12)]
        self.counts: Counter[str] = Counter()
        self._begin()

    def _begin(self) -> None:
        """Another mesh: one peer that begins a ring or finds none, or four that know each other."""
        self.counts["meshes"] += 1
        config = PeerConfig(standing=_PATIENT)
        self._net = _Network(seed=self._seed * 1_000_003 + self.counts["meshes"], config=config)
        first = self.names[:1]
        if self._random.random() < 0.4:
            self._net.start(*first, *self._random.choice(((), ("p1",))))
            return
        for name in self.names[:4]:
            self._net.start(name, *first[: name != first[0]])
            self._net.run_for(SECOND)
        for name in self.names[:2]:
            me = self._net.peers[name].me
            record = StreamRecord(key_of_name("p5"), me, f"ingest-{name}")
            self._net.ask(name, Publish((record,)))
            self._net.ask(name, Broadcast("query", name, b"text"))
            self._net.ask(name, Watch(key_of_name("p5")))
        self._net.run_for(self._random.choice((SECOND, MINUTE)))

    def step(self) -> None:
        """One event that should not be, or a while of ordinary life."""
        draw = self._random.random()
        name = self._random.choice(list(self._net.peers))
        if draw < 0.04:
            self._net.run_for(self._random.choice((10_000, 100_000, SECOND)))
        elif draw < 0.05:
            self._give(name, Unreachable(self._contact(name)))
        elif draw < 0.0502:
            self._net.leap(self._random.choice((MINUTE, 100 * MINUTE)))
        elif draw < 0.0505:
            self._begin()
        elif draw < 0.0507:
            self._net.stop(name)
            self._begin()
        else:
            cause = self._random.getrandbits(16)
            self._give(name, Received(self._contact(name), self._message(), cause))

    def _give(self, name: str, event: Event) -> None:
        self.counts[type(event).__name__] += 1
        peer = self._net.peers[name]
        refused = peer.refused
        self._net.give(name, event)
        self.counts["refused"] += peer.refused - refused

    # --- values ---------------------------------------------------------------------------------

    def _message(self) -> Struct:
        """A message that decodes and whose meaning is anybody's guess."""
        while True:
            number = self._random.randrange(len(self._kinds))
            kind, start = self._kinds[number], self._samples[number]
            if self._net.said and self._random.random() < 0.4:
                # What peers themselves say has the right numbers in it: requests, keys, versions.
                said = self._random.choice(self._net.said)
                start = _plain(said)
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

    def _contact(self, other_than: str = "") -> Contact:
        """Somebody; a sender is never the peer itself, because its certificate is its own."""
        name = self._random.choice([one for one in self.names if one != other_than])
        return Contact(name, f"{name}:1", self._random.choice((1, 1, 1, 2, 0)))

    @staticmethod
    def _fields(contact: Contact) -> Sequence[object]:
        return contact.name, contact.address, contact.incarnation


def _plain(message: Struct) -> object:
    """A message as lists and values."""
    return msgspec.to_builtins(message, builtin_types=(bytes,))
