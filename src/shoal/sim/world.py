"""The invented world: many peers, one clock, one seed that decides everything.

    world = World(seed, factory, checkers=[...])
    node = world.add_host()
    world.start(node, seeds=())
    world.run_for(10 * SECOND)

This file is the life of hosts: start, crash, stop, pause, slow, clocks; and what checkers are told.

Not here   the loop that carries events and effects (`loop.py`); what goes wrong and when
           (`runs/faults.py`); what must hold (`checkers/`); what peers are asked (`runs/load.py`).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from shoal.kernel.errors import LocalError
from shoal.kernel.events import AWAY, Asked, Received, Started, Stopping
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import Instant
from shoal.peer.peer import Peer
from shoal.sim.loop import ASKED, Asker, Failed, Loop, Watcher
from shoal.sim.node import DOWN, LEAVING, PAUSED, UP, Node

__all__ = ["Asker", "Factory", "Failed", "Watcher", "World"]

#: Builds the peer of a host: who it is, addresses to join through (none: it is the first), its
#: own randomness.
Factory = Callable[[Contact, Sequence[str], Rng], Peer]


class World(Loop):
    """Hosts and their lives."""

    def __init__(self, seed: int, factory: Factory, **options: Any) -> None:
        super().__init__(seed, **options)
        self._factory = factory
        self._disturbances: Counter[str] = Counter()
        self._quiet_since: Instant = 0
        for checker in self.checkers:
            checker.attach(self)

    # --- hosts ----------------------------------------------------------------------------------

    def add_host(self) -> Node:
        """A host with an empty disk and nothing that runs."""
        index = len(self.nodes)
        node = Node(index, self.rng.split(f"host/{index}"))
        self.topology.place(index)
        self.nodes.append(node)
        self._at[node.address] = node
        return node

    def rename(self, node: Node) -> None:
        """The next peer on this host is another one, with another name and nothing on disk."""
        node.life += 1
        node.name = f"p{node.index}.{node.life}"
        node.disk.wipe()
        node.disk.incarnation = 0

    def start(self, node: Node, seeds: Sequence[str]) -> None:
        """Begin a peer on a host that is down; it joins through these addresses."""
        if node.state != DOWN:
            raise LocalError(f"host {node.address} runs a peer already")
        node.starts += 1
        node.offset += node.offset_at_start
        node.offset_at_start = 0
        node.disk.incarnation += 1
        incarnation = node.disk.incarnation
        node.contact = Contact(node.name, node.address, incarnation)
        rng = Rng(self.seed, f"peer/{node.name}/{incarnation}/{node.life}")
        node.peer = self._factory(node.contact, tuple(seeds), rng)
        node.state = UP
        node.started_at = self.now
        self.say(node, f"start {node.name} incarnation {incarnation}")
        for checker in self.checkers:
            self._check(partial(checker.up, node))
        self._handle(node, Started(dict(node.disk.values)))

    def crash(self, node: Node, *, writes: str = "lost") -> None:
        """Its process is gone at once; `writes` says what becomes of those under way."""
        if not node.running and node.state != LEAVING:
            return
        if node.disk.pending:
            self.probes[f"crash with writes {writes}"] += 1
        node.disk.crash(writes)
        if node.disk.mended:
            self.probes["torn end cut off"] += 1
        self.say(node, f"crash {node.name}")
        self._end(node)

    def stop(self, node: Node) -> None:
        """It ends in good order: a last event, and what that asks for."""
        if node.state != UP:
            self.crash(node)
            return
        self.say(node, f"stop {node.name}")
        self._handle(node, Stopping())
        node.state = LEAVING
        node.timers.clear()
        if not node.outbox:
            self._end(node)

    def pause(self, node: Node) -> None:
        """Its process stands still, as under SIGSTOP; what comes for it waits."""
        if node.state == UP:
            node.state = PAUSED
            node.paused_at = self.now
            self.say(node, f"pause {node.name}")

    def resume(self, node: Node) -> None:
        """It goes on: everything that waited is handled now, at an instant that has leapt. After
        a long time messages are not among it: a host drops those."""
        if node.state == PAUSED:
            node.state = UP
            if self.now - node.paused_at > AWAY:
                came = [event for event in node.inbox if type(event) is Received]
                self.probes["message dropped after a long pause"] += len(came)
                kept = [event for event in node.inbox if type(event) is not Received]
                node.inbox.clear()
                node.inbox.extend(kept)
            self.say(node, f"resume {node.name}, {len(node.inbox)} events wait")
            self._wake(node)

    def slow_down(self, node: Node, service: int) -> None:
        """From now on each event takes it so many microseconds; 0 is the usual speed."""
        node.service = service
        if not service:
            self._wake(node)

    def leap(self, node: Node, by: int) -> None:
        """Its clock jumps. Forward, `now` leaps. Backward, a running peer does not notice, for its
        clock is monotonic; the next one on this host begins earlier."""
        if node.running and by < 0:
            node.offset_at_start += by
            return
        node.offset += by
        self._arm_anew(node)

    def drift(self, node: Node, ppm: int) -> None:
        """Its clock runs too fast by this many millionths from now on."""
        node.set_drift(ppm, self.now)
        self._arm_anew(node)

    def running(self) -> list[Node]:
        """Hosts with a peer, paused ones too, in order of their index."""
        return [node for node in self.nodes if node.state == UP or node.state == PAUSED]

    def at(self, address: str) -> Node | None:
        """The host at an address."""
        return self._at.get(address)

    # --- questions and calls --------------------------------------------------------------------

    def ask(self, node: Node, question: Struct, asker: Asker) -> int:
        """Put a question to a peer, now; returns the number of the request."""
        if not node.running:
            raise LocalError(f"nobody runs at {node.address} who could be asked")
        self._request += 1
        request = self._request
        node.asked[request] = asker
        self._push(self.now, ASKED, node, Asked(request, question))
        return request

    # --- what is going on -----------------------------------------------------------------------

    def disturb(self, fault: str) -> None:
        """A fault has begun."""
        self._disturbances[fault] += 1
        self.probes[fault] += 1

    def mark(self, fault: str) -> None:
        """A fault without duration has happened."""
        self.probes[fault] += 1
        self._quiet_since = self.now

    def undisturb(self, fault: str) -> None:
        """It is over."""
        self._disturbances[fault] -= 1
        self._quiet_since = self.now

    def ongoing(self) -> list[str]:
        """The faults that are on."""
        return [fault for fault, count in self._disturbances.items() if count > 0]

    def quiet_for(self) -> int:
        """Microseconds since the last fault ended; 0 while there is one."""
        if any(self._disturbances.values()):
            return 0
        return self.now - self._quiet_since

    def say(self, node: Node | None, what: str) -> None:
        """Tell the trace."""
        if self.watcher is not None:
            self.watcher.said(self, node, what)

    def calm(self) -> None:
        """Tell checkers that faults have ended."""
        self.say(None, "faults end")
        for checker in self.checkers:
            self._check(checker.calm)

    def settle(self) -> None:
        """Tell checkers that liveness is due; every peer's invariants hold."""
        self.say(None, "liveness is due")
        for node in self.running():
            assert node.peer is not None
            self._guard(node, node.peer.validate)
        for checker in self.checkers:
            self._check(checker.settled)

    def finish(self) -> None:
        """Tell checkers that this is the end."""
        for checker in self.checkers:
            self._check(checker.at_end)

    def _end(self, node: Node) -> None:
        """Nothing runs here any more."""
        node.state = DOWN
        node.crashed_at = self.now
        node.timers.clear()
        node.inbox.clear()
        node.outbox.clear()
        node.unreachable.clear()
        asked, node.asked = node.asked, {}
        for checker in self.checkers:
            self._check(partial(checker.down, node))
        for request, asker in asked.items():
            self._check(partial(asker.lost, node, request))

    def _guard(self, node: Node, what: Callable[[], None]) -> None:
        try:
            what()
        except (LocalError, AssertionError) as error:
            raise self._failed(node.name, error) from error
