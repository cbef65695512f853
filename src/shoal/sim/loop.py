"""The loop of the invented world: events in, effects out, one entry of the heap after another.

It drives `Peer.handle` as a real host does. Effects are carried out in order; what is behind a
Persist waits until that is durable, and a crash in between loses it.

    heap of (instant, number, kind, ...)  ──▶  one entry  ──▶  peer.handle  ──▶  effects
            ▲                                                                      │
            └────────── messages after their delay, timers, durable writes ◀───────┘

Instants are integers and the number breaks ties, so the same seed gives the same run, on any
machine and with any PYTHONHASHSEED.

Speed: at least 30,000 events a second with a thousand peers and checks on. An entry is a plain
tuple; nothing is formatted unless a trace asks for it.

Not here   when peers begin and end (`world.py`).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Any, Protocol

from msgspec import Struct

from shoal.kernel.effects import Answer, CancelTimer, Command, Effect, Persist, Send, SetTimer
from shoal.kernel.errors import LocalError
from shoal.kernel.events import Event, Received, TimerFired, Unreachable
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND, Instant
from shoal.sim.checkers.checker import Checker, Violation
from shoal.sim.network import BLOCKED, LOST, Network, Weather
from shoal.sim.node import LEAVING, PAUSED, UP, Node
from shoal.sim.topology import Topology, Uniform

__all__ = ["Asker", "Failed", "Loop", "Watcher"]

_MESSAGE, _TIMER, _DISK, _CALL, _REPORT, ASKED, _WAKE, _SECOND = range(8)

#: Events that may wait for a host that is paused or slow; the rest is dropped and counted.
_INBOX_MAX = 20_000
#: A refused connection comes back this much after the message came to nobody.
_REFUSAL = 5_000
#: How long a host tries before it gives a silent peer up, on average. A guess: TCP's patience cut
#: short by the host's own time-out.
_GIVE_UP = 4 * SECOND


class Asker(Protocol):
    """Whoever asks peers questions."""

    def answered(self, node: Node, request: int, result: Any) -> None:
        """The answer, a value or an error."""
        ...

    def lost(self, node: Node, request: int) -> None:
        """The peer ended before it answered."""
        ...


class Watcher(Protocol):
    """Whoever writes a trace."""

    def event(self, world: "Loop", node: Node, event: Struct, effects: Sequence[Effect]) -> None:
        """A peer has handled an event."""
        ...

    def said(self, world: "Loop", node: Node | None, what: str) -> None:
        """Something happened to the world itself: a fault, a start, an end."""
        ...


class Failed(Exception):
    """The run ended early: a promise is broken, or our own code raised."""

    def __init__(self, at: Instant, events: int, who: str, what: str) -> None:
        super().__init__(f"{at / SECOND:.6f} s, event {events}, {who}: {what}")
        self.at = at
        self.events = events
        self.who = who
        self.what = what


class Loop:
    """Hosts, the network between them, and everything that is going to happen."""

    def __init__(
        self,
        seed: int,
        *,
        topology: Topology | None = None,
        weather: Weather | None = None,
        checkers: Sequence[Checker] = (),
        watcher: Watcher | None = None,
        validate_every: int = 16,
        refusing: float = 0.5,
    ) -> None:
        self.seed = seed
        self.rng = Rng(seed, "world")
        self.now: Instant = 0
        #: Events that peers have handled, and messages given to the network.
        self.events = 0
        self.messages = 0
        self.nodes: list[Node] = []
        #: Code probes: how often each thing that a scenario is about really happened.
        self.probes: Counter[str] = Counter()
        self.topology = topology or Uniform(self.rng.split("topology"))
        self.network = Network(
            self.topology, self.rng.split("network"), weather or Weather(loss=0.0)
        )
        self.checkers = tuple(checkers)
        self.watcher = watcher
        #: Whoever wants to know that a write begins on a host, and how long it takes.
        self.on_write: Callable[[Node, int], None] | None = None
        self._heap: list[tuple[Any, ...]] = []
        self._number = 0
        self._at: dict[str, Node] = {}
        self._request = 0
        self._validate_every = validate_every
        self._refusing = refusing
        self._chance = self.rng.split("hosts")
        self._after_event = _overridden(self.checkers, "after_event")
        self._every_second = _overridden(self.checkers, "every_second")
        self._push(SECOND, _SECOND, None)

    def call(self, at: Instant, what: Callable[..., None], *arguments: Any) -> None:
        """Call a function at an instant of the world."""
        self._push(max(at, self.now), _CALL, what, arguments)

    def call_in(self, wait: int, what: Callable[..., None], *arguments: Any) -> None:
        """Call a function after some microseconds."""
        self._push(self.now + wait, _CALL, what, arguments)

    # --- the loop -------------------------------------------------------------------------------

    def run_for(self, span: int) -> None:
        """Let so many microseconds pass."""
        self.run(self.now + span)

    def run(self, until: Instant) -> None:
        """Let everything happen that is due by then."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            entry = heappop(heap)
            self.now = entry[0]
            kind = entry[2]
            node = entry[3]
            if kind == _MESSAGE:
                if node.state == UP and not node.service and node.name == entry[5]:
                    self._handle(node, entry[4])
                else:
                    self._arrive_odd(node, entry[4], entry[5])
            elif kind == _TIMER:
                if node.timers.get(entry[4]) is entry:
                    self._due(node, entry)
            else:
                self._rare(kind, entry)
        self.now = until

    def _rare(self, kind: int, entry: tuple[Any, ...]) -> None:
        """Entries that are neither messages nor timers."""
        node = entry[3]
        if kind == _CALL:
            node(*entry[4])
        elif kind == _DISK:
            if node.starts == entry[4] and node.outbox:
                self._written(node)
        elif kind == _REPORT:
            if node.starts == entry[5]:
                node.unreachable.pop(entry[4].address, None)
                self._arrive(node, Unreachable(entry[4]))
        elif kind == ASKED:
            if entry[4].request in node.asked:
                self._arrive(node, entry[4])
        elif kind == _WAKE:
            node.waking = False
            self._wake(node)
        else:
            self._push(self.now + SECOND, _SECOND, None)
            for check in self._every_second:
                self._check(check)

    def _push(self, at: Instant, *rest: Any) -> None:
        self._number += 1
        heappush(self._heap, (at, self._number, *rest))

    def _arrive(self, node: Node, event: Event) -> None:
        """An event for a host in whatever state."""
        if node.state == UP and not node.service:
            self._handle(node, event)
        elif node.state == UP or node.state == PAUSED:
            if len(node.inbox) >= _INBOX_MAX:
                self.probes["event dropped at a full inbox"] += 1
                return
            node.inbox.append(event)
            self._wake(node)

    def _arrive_odd(self, node: Node, event: Received, name: str) -> None:
        """A message for a host that is not simply up, or for a peer that is no longer there."""
        if node.running and node.name == name:
            self._arrive(node, event)
            return
        sender = self._at[event.sender.address]
        gone = Contact(name, node.address, node.contact.incarnation)
        wait = _REFUSAL if self._chance.chance(self._refusing) else self._patience()
        self._unreachable(sender, gone, wait)

    def _due(self, node: Node, entry: tuple[Any, ...]) -> None:
        """A timer of a host in whatever state; while it waits, it can still be cancelled."""
        if node.state == UP and not node.service:
            del node.timers[entry[4]]
            self._handle(node, TimerFired(entry[4]))
        else:
            node.inbox.append(entry)
            self._wake(node)

    def _wake(self, node: Node) -> None:
        """Take what waits: all of it, or one event and then rest, if the host is slow."""
        inbox = node.inbox
        while inbox and node.state == UP and not node.waking:
            event = inbox.popleft()
            if type(event) is tuple:
                if node.timers.get(event[4]) is not event:
                    continue
                del node.timers[event[4]]
                event = TimerFired(event[4])
            if node.service:
                node.waking = True
                self._push(self.now + node.service, _WAKE, node)
            self._handle(node, event)

    def _handle(self, node: Node, event: Event) -> None:
        self.events += 1
        peer = node.peer
        assert peer is not None
        now = self.now
        try:
            effects = peer.handle(
                event, now + node.offset if not node.drift_ppm else node.local(now)
            )
            if not self.events % self._validate_every:
                peer.validate()
            for check in self._after_event:
                check(node, event, effects)
        except Exception as error:
            raise self._failed(node.name, error) from error
        if self.watcher is not None:
            self.watcher.event(self, node, event, effects)
        if effects:
            if node.outbox:
                node.outbox.append((effects, 0, peer.event))
            else:
                self._carry_out(node, effects, 0, peer.event)

    def _carry_out(self, node: Node, effects: Sequence[Any], start: int, cause: int) -> None:
        """Do what a peer asks for, in order, up to the first thing that takes time."""
        for number in range(start, len(effects)):
            effect = effects[number]
            kind = type(effect)
            if kind is Send:
                self._send(node, effect.to, effect.message, cause)
            elif kind is SetTimer:
                self._set_timer(node, effect.timer, effect.at)
            elif kind is CancelTimer:
                node.timers.pop(effect.timer, None)
            elif kind is Persist:
                node.outbox.appendleft((effects, number + 1, cause))
                took = node.disk.begin(effect.key, effect.value)
                self._push(self.now + took, _DISK, node, node.starts)
                if self.on_write is not None:
                    self.on_write(node, took)
                return
            else:
                self._carry_out_rare(node, effect)

    def _carry_out_rare(self, node: Node, effect: Effect) -> None:
        if type(effect) is Answer:
            asker = node.asked.pop(effect.request, None)
            if asker is None:
                error = LocalError(f"request {effect.request} is answered, but nobody waits for it")
                raise self._failed(node.name, error)
            self._check(partial(asker.answered, node, effect.request, effect.result))
        elif type(effect) is Command:
            self.probes["command for a data plane"] += 1
        else:
            raise self._failed(node.name, LocalError(f"effect {effect!r} is not for a host"))

    def _written(self, node: Node) -> None:
        """The write under way is durable: go on with what waited behind it."""
        node.disk.finish()
        while node.outbox and not node.disk.pending:
            self._carry_out(node, *node.outbox.popleft())
        if node.state == LEAVING and not node.outbox:
            self._end(node)

    def _send(self, node: Node, to: Contact, message: Struct, cause: int) -> None:
        self.messages += 1
        target = self._at.get(to.address)
        if target is None:
            self._unreachable(node, to, _REFUSAL)
            return
        network = self.network
        at = network.arrival(self.now, node.index, target.index)
        if at >= 0:
            received = Received(node.contact, message, cause)
            self._number += 1
            name = to.name or target.name
            heappush(self._heap, (at, self._number, _MESSAGE, target, received, name))
            if network.copy_at:
                self._push(network.copy_at, _MESSAGE, target, received, name)
        elif at == BLOCKED:
            self._unreachable(node, to, self._patience())
        else:
            assert at == LOST

    def _set_timer(self, node: Node, timer: str, at: Instant) -> None:
        due = node.world_instant(at) if node.drift_ppm else at - node.offset
        self._number += 1
        entry = (max(due, self.now), self._number, _TIMER, node, timer, at)
        node.timers[timer] = entry
        heappush(self._heap, entry)

    def _arm_anew(self, node: Node) -> None:
        """Its clock has changed, so its timers are due at other instants of the world."""
        for timer, entry in tuple(node.timers.items()):
            self._set_timer(node, timer, entry[5])

    def _patience(self) -> int:
        return int(_GIVE_UP * (0.5 + self._chance.uniform()))

    def _unreachable(self, node: Node, peer: Contact, wait: int) -> None:
        """The host will give up about this address, once for all that it tried meanwhile."""
        if peer.address not in node.unreachable:
            node.unreachable[peer.address] = None
            self._push(self.now + wait, _REPORT, node, peer, node.starts)

    def _failed(self, who: str, error: BaseException) -> Failed:
        what = str(error) if isinstance(error, Violation) else f"{type(error).__name__}: {error}"
        return Failed(self.now, self.events, who, what)

    def _check(self, what: Callable[[], None]) -> None:
        try:
            what()
        except Violation as violation:
            raise self._failed("a checker", violation) from violation

    def _end(self, node: Node) -> None:
        """Nothing runs on this host any more."""
        raise NotImplementedError


def _overridden(checkers: Sequence[Checker], hook: str) -> list[Callable[..., None]]:
    """The bound hooks of those that really have one."""
    return [
        getattr(checker, hook)
        for checker in checkers
        if getattr(type(checker), hook) is not getattr(Checker, hook)
    ]
