"""Whole peers on a network that loses nothing: for tests of what machines do together.

    net = PerfectNetwork(seed=1)
    net.start("p1")
    net.start("p2", "p1")               # joins through p1
    net.run_for(10 * SECOND)
    net.ask("p2", Lookup(key))          # the answer

Every message takes the same millisecond. Machines are watched (`tests/checked.py`). For faults,
clocks and checkers there is the simulator; this one has none of them, and imports nothing of it.
"""

import heapq
from collections import Counter

from msgspec import Struct

from shoal.kernel.effects import Answer, CancelTimer, Effect, Persist, Send, SetTimer
from shoal.kernel.errors import ShoalError
from shoal.kernel.events import Asked, Event, Received, Started, Stopping, TimerFired, Unreachable
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import MILLISECOND, SECOND, Instant
from shoal.peer.build import PeerConfig, build_machines
from shoal.peer.peer import Peer
from tests.checked import Checked

__all__ = ["PerfectNetwork"]

#: How long an answer may take; every question has a time-out of its own below this.
ANSWER_MAX = 60 * SECOND


class PerfectNetwork:
    """Peers, one clock, one queue."""

    def __init__(self, *, seed: int, config: PeerConfig | None = None) -> None:
        self._config = config or PeerConfig()
        self._rng = Rng(seed)
        self._queue: list[tuple[Instant, int, str, Event]] = []
        self._count = 0
        self._timers: dict[tuple[str, str], int] = {}
        self._answers: dict[int, Struct | ShoalError] = {}
        self._requests = 0
        self.peers: dict[str, Peer] = {}
        self.now: Instant = 0
        self.events = 0
        self.sent: Counter[type[Struct]] = Counter()

    def start(self, name: str, *seeds: str) -> Peer:
        """A peer begins, and joins through these."""
        me = Contact(name, f"{name}:1", 1)
        config = self._config.joining(*(f"{seed}:1" for seed in seeds))
        config.check()
        machines = [Checked(one) for one in build_machines(me, config, self._rng.split(name))]
        peer = Peer(me, machines, story_lines_max=config.story_lines_max)
        self.peers[name] = peer
        self._handle(name, Started({}))
        return peer

    def stop(self, name: str) -> None:
        """It says good-bye and is gone."""
        self._handle(name, Stopping())
        del self.peers[name]

    def crash(self, name: str) -> None:
        """It is gone."""
        del self.peers[name]

    def ask(self, name: str, question: Struct) -> Struct | ShoalError:
        """The answer to a question; time passes until it is there."""
        self._requests += 1
        request = self._requests
        self._handle(name, Asked(request, question))
        end = self.now + ANSWER_MAX
        while request not in self._answers:
            assert self._queue, "no answer, and nothing goes on"
            assert self._queue[0][0] <= end, f"no answer to {question} in time"
            self._step()
        return self._answers.pop(request)

    def give(self, name: str, event: Event) -> None:
        """Something happens to a peer that the network did not bring."""
        self._handle(name, event)

    def leap(self, length: int) -> None:
        """All of them stood still for so long; what was due is late."""
        self.now += length

    def run_for(self, length: int) -> None:
        """Everything that is due until then."""
        end = self.now + length
        while self._queue and self._queue[0][0] <= end:
            self._step()
        self.now = end

    # --- the world ------------------------------------------------------------------------------

    def _push(self, at: Instant, name: str, event: Event) -> int:
        self._count += 1
        heapq.heappush(self._queue, (at, self._count, name, event))
        return self._count

    def _step(self) -> None:
        at, number, name, event = heapq.heappop(self._queue)
        self.now = max(self.now, at)
        if isinstance(event, TimerFired):
            if self._timers.get((name, event.timer)) != number:
                return
            del self._timers[name, event.timer]
        if name in self.peers:
            self._handle(name, event)

    def _handle(self, name: str, event: Event) -> None:
        self.events += 1
        peer = self.peers[name]
        for effect in peer.handle(event, self.now):
            self._carry_out(name, effect)
        peer.validate()

    def _carry_out(self, name: str, effect: Effect) -> None:
        match effect:
            case Send(to=to, message=message):
                self._send(name, to, message)
            case SetTimer(timer=timer, at=at):
                number = self._push(max(at, self.now), name, TimerFired(timer))
                self._timers[name, timer] = number
            case CancelTimer(timer=timer):
                self._timers.pop((name, timer), None)
            case Answer(request=request, result=result):
                self._answers[request] = result
            case Persist():
                pass  # nobody starts again here
            case _:
                raise AssertionError(f"no host here does {effect}")

    def _send(self, name: str, to: Contact, message: Struct) -> None:
        """Hosts know each other by certificates: who is not the one that was meant gets nothing."""
        self.sent[type(message)] += 1
        peer = self.peers[name]
        target = to.address.partition(":")[0]
        at = self.now + MILLISECOND
        if target in self.peers and target != name and to.name in ("", target):
            self._push(at, target, Received(peer.me, message, peer.event))
        else:
            self._push(at, name, Unreachable(to))
