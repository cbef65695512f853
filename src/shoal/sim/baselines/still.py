"""A still ring: peers whose tables were right once and are repaired by nobody.

Dissemination alone is measured here: every peer has the successors and fingers that a ring of the
given names has when it is whole; then some are dead, and neither tables nor anybody's opinion
follow. The peers run the real machine of `control/gossip`, message by message.

Not here   a ring that repairs itself (control/ring in `world.py`).
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

from msgspec import Struct

from shoal.control.gossip.config import GossipConfig
from shoal.control.gossip.machine import GossipMachine
from shoal.control.gossip.messages import Fact, Routes, Spread
from shoal.kernel.effects import Answer, CancelTimer, Effect, Send, SetTimer
from shoal.kernel.events import Asked, Received, Started, TimerFired
from shoal.kernel.keys import KEY_BITS, Contact, Key, ahead
from shoal.kernel.rng import Rng
from shoal.kernel.time import MILLISECOND, SECOND, Instant

__all__ = ["Still", "Tables", "tables_of"]


class Tables(Struct, frozen=True):
    """The ring as one peer knows it, by place in the ring's order; distinct, clockwise."""

    successors: tuple[int, ...]
    predecessor: int
    fingers: tuple[int, ...]


def tables_of(keys: Sequence[Key], successors: int) -> list[Tables]:
    """The right tables of a ring with these keys, which ascend."""
    size = len(keys)
    found: list[Tables] = []
    for place, key in enumerate(keys):
        fingers: dict[int, None] = {}
        for power in range(KEY_BITS - 1, -1, -1):
            owner = bisect_left(keys, ahead(key, power)) % size
            if owner == place:
                continue
            fingers[owner] = None
            if owner == (place + 1) % size:
                break  # all shorter fingers are the successor too
        found.append(
            Tables(
                successors=tuple(
                    (place + step) % size for step in range(1, min(successors, size - 1) + 1)
                ),
                predecessor=(place - 1) % size,
                fingers=tuple(reversed(fingers)),
            )
        )
    return found


class Still:
    """Many gossip machines, one clock, and tables that stay as they are."""

    def __init__(
        self,
        names: Iterable[str],
        *,
        successors: int = 16,
        seed: int = 0,
        config: GossipConfig | None = None,
        machine: type[GossipMachine] = GossipMachine,
    ) -> None:
        contacts = [Contact(name, f"{name}:1", 1) for name in names]
        self.contacts = sorted(contacts, key=lambda contact: contact.key)
        self.config = config or GossipConfig()
        self.now: Instant = 0
        self.rng = Rng(seed, "still")
        #: How long a message takes; a constant, so that hops can be read off instants.
        self.delay: Callable[[], int] = lambda: 20 * MILLISECOND
        self.loss = 0.0
        self.dead: dict[str, None] = {}
        self.sent: Counter[str] = Counter()
        self.answers: dict[int, Any] = {}
        #: Hops at which each peer got a spreading message first, and when, since `forget`.
        self.hops: dict[str, int] = {}
        self.reached_at: dict[str, Instant] = {}
        #: Everything sent, if somebody wants to see it: sender, receiver, message, arrives.
        self.watch: Callable[[Contact, Contact, Struct, bool], None] | None = None
        self.heard: Callable[[Contact, Struct], None] | None = None
        self.tables = tables_of([contact.key for contact in self.contacts], successors)
        self.machines = {
            contact.name: machine(contact, self.config, Rng(seed, contact.name))
            for contact in self.contacts
        }
        self._heap: list[tuple[Instant, int, str, Struct]] = []
        self._number = 0
        self._timers: dict[tuple[str, str], int] = {}
        self._routed = {
            contact.name: self._routes(table)
            for contact, table in zip(self.contacts, self.tables, strict=True)
        }
        for contact in self.contacts:
            self.give(contact.name, Started({}))
            self.give(contact.name, self._routed[contact.name])

    def _routes(self, table: Tables) -> Routes:
        at = self.contacts
        return Routes(
            at[table.predecessor] if len(at) > 1 else None,
            tuple(at[place] for place in table.successors),
            tuple(at[place] for place in table.fingers),
        )

    @property
    def living(self) -> list[str]:
        """Who is not dead, in the ring's order."""
        return [contact.name for contact in self.contacts if contact.name not in self.dead]

    def settle(self) -> None:
        """Let everybody compare once, so that broadcasts are accepted; then begin to count."""
        self.run(self.now + 3 * SECOND)
        self.forget()

    def forget(self) -> None:
        """Count from here."""
        self.sent.clear()
        self.hops.clear()
        self.reached_at.clear()

    def ask(self, name: str, question: Struct) -> int:
        """Ask a peer; the answer comes to `answers`."""
        self._number += 1
        request = self._number
        self.give(name, Asked(request, question))
        return request

    def give(self, name: str, event: Struct) -> None:
        """An event for a machine, now."""
        self._carry_out(name, self.machines[name].handle(event, self.now))

    def run(self, until: Instant) -> None:
        """Let everything happen that is due by then."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, number, name, event = heappop(heap)
            if name in self.dead:
                continue
            if type(event) is TimerFired:
                if self._timers.get((name, event.timer)) != number:
                    continue  # cancelled, or set anew
                del self._timers[name, event.timer]
            if type(event) is Received and type(event.message) is Spread:
                self.hops.setdefault(name, event.message.hops)
                self.reached_at.setdefault(name, self.now)
            self.give(name, event)
        self.now = until

    def facts(self, name: str) -> dict[tuple[str, str], Fact]:
        """What a peer holds."""
        return {fact.name: fact for fact in self.machines[name].view().known}

    def _carry_out(self, name: str, effects: Sequence[Effect]) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                assert isinstance(effect, Send)
                self._send(name, effect)
            elif kind is SetTimer:
                assert isinstance(effect, SetTimer)
                number = self._push(effect.at, name, TimerFired(effect.timer))
                self._timers[name, effect.timer] = number
            elif kind is CancelTimer:
                assert isinstance(effect, CancelTimer)
                self._timers.pop((name, effect.timer), None)
            elif kind is Answer:
                assert isinstance(effect, Answer)
                self.answers[effect.request] = effect.result
            elif self.heard is not None:
                self.heard(self.machines[name].me, effect)

    def _send(self, name: str, send: Send) -> None:
        self.sent[type(send.message).__name__] += 1
        sender = self.machines[name].me
        arrives = send.to.name not in self.dead and not (self.loss and self.rng.chance(self.loss))
        if self.watch is not None:
            self.watch(sender, send.to, send.message, arrives)
        if arrives:
            self._push(self.now + self.delay(), send.to.name, Received(sender, send.message))

    def _push(self, at: Instant, name: str, event: Struct) -> int:
        self._number += 1
        # An instant of the past is now.
        heappush(self._heap, (max(at, self.now), self._number, name, event))
        return self._number
