"""The workload: what peers of a scenario are asked, and the answers.

    lookups      who owns a random key?
    records      each peer publishes some as soon as it starts, and again after each restart, for
                 records are never truth; some are withdrawn, others are added
    finds        what is recorded under a key?
    watches      some peers watch a key
    broadcasts   a fact for everybody, or its removal

It is a checker of one thing: every question is answered once, unless the peer that was asked ends.
Time in which that peer stood still, or was behind with its events, does not count against it: its
timers come late then, and by its own rules nobody is given up for that.

Not here   whether answers are right: the checkers of the machines see questions and answers too.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from shoal.control.directory.messages import (
    Find,
    Ident,
    OfferRecord,
    Publish,
    Record,
    SignatureRecord,
    StreamRecord,
    Watch,
    Withdraw,
    ident_of,
)
from shoal.control.gossip.messages import Broadcast
from shoal.control.ring.messages import Located, Lookup
from shoal.kernel.errors import ShoalError
from shoal.kernel.keys import Contact, Key, key_of_name
from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND, Instant
from shoal.sim.checkers.checker import Checker, Violation
from shoal.sim.node import UP, Node
from shoal.sim.runs.scenario import Workload

__all__ = ["Load"]

#: Names under which records are published: few, so that a key has records of several peers.
_NAMES = 40
_FACTS = 30
#: How often somebody is picked at random before those that are up are counted.
_GUESSES = 8
#: The longest that any question may stay open while its peer runs and keeps up with its events;
#: machines answer within 15 s.
_ANSWER_MAX = 30 * SECOND
#: A peer publishes what it owns this soon after its start.
_PUBLISH_WAIT = SECOND


class Load(Checker):
    """Asks, and waits for answers."""

    name = "answers"

    def __init__(
        self, workload: Workload, rng: Rng, *, asked: Callable[[str], None] | None = None
    ) -> None:
        self.workload = workload
        self.counts: Counter[str] = Counter()
        self.hops = 0
        self._rng = rng
        self._asked = asked
        self._until: Instant = 0
        self._made = 0
        #: What each peer wants on record, by its name.
        self._owned: dict[str, dict[Ident, tuple[type[Any], Key, str]]] = {}
        self._watching: dict[str, Key] = {}
        #: Questions without an answer: when asked, where, and how long that peer was behind before.
        self._open: dict[int, tuple[Instant, Node, Instant]] = {}
        #: For how long each peer could not keep up, by its name; counted in whole seconds.
        self._behind: Counter[str] = Counter()

    # --- asking ---------------------------------------------------------------------------------

    def begin(self, until: Instant) -> None:
        """Ask until that instant."""
        self._until = until
        load = self.workload
        for rate, what in (
            (load.lookups_per_s, self._lookup),
            (load.changes_per_s, self._change),
            (load.finds_per_s, self._find),
            (load.broadcasts_per_s, self._broadcast),
        ):
            if rate > 0.0:
                self._again(rate, what)
        for node in self._rng.sample(self._ready(), load.watches):
            self._watching[node.name] = key_of_name(self._name())
            self._ask(node, Watch(self._watching[node.name]))

    def up(self, node: Node) -> None:
        if not self.workload.records_per_peer and not self._owned and not self._watching:
            return
        self.world.call_in(1 + self._rng.below(_PUBLISH_WAIT), self._settle_in, node, node.starts)

    def _settle_in(self, node: Node, starts: int) -> None:
        """What a peer does when it has started: say what it has."""
        if node.state != UP or node.starts != starts:
            return
        owned = self._owned.setdefault(node.name, {})
        while len(owned) < self.workload.records_per_peer:
            self._own(node)
        if owned:
            self._ask(node, Publish(tuple(_record(made, node.contact) for made in owned.values())))
        if node.name in self._watching:
            self._ask(node, Watch(self._watching[node.name]))

    def _again(self, rate: float, what: Callable[[Node], None]) -> None:
        self.world.call_in(1 + int(self._rng.exponential(SECOND / rate)), self._tick, rate, what)

    def _tick(self, rate: float, what: Callable[[Node], None]) -> None:
        if self.world.now >= self._until:
            return
        node = self._one_ready()
        if node is not None:
            what(node)
        self._again(rate, what)

    def _one_ready(self) -> Node | None:
        """A peer that is up; with thousands of them a list for each question would be dear."""
        nodes = self.world.nodes
        for _ in range(_GUESSES):
            node = self._rng.choice(nodes)
            if node.state == UP:
                return node
        ready = self._ready()
        return self._rng.choice(ready) if ready else None

    def _ready(self) -> list[Node]:
        return [node for node in self.world.nodes if node.state == UP]

    def _lookup(self, node: Node) -> None:
        self._ask(node, Lookup(key_of_name(f"key {self._rng.below(1 << 30)}")))

    def _find(self, node: Node) -> None:
        self._ask(node, Find(key_of_name(self._name())))

    def _change(self, node: Node) -> None:
        owned = self._owned.setdefault(node.name, {})
        if owned and self._rng.chance(0.5):
            ident = self._rng.choice(list(owned))
            del owned[ident]
            self._ask(node, Withdraw((ident,)))
        else:
            self._ask(node, Publish((self._own(node),)))

    def _broadcast(self, node: Node) -> None:
        self._made += 1
        key = f"fact {self._rng.below(_FACTS)}"
        body = None if self._rng.chance(0.3) else f"body {self._made}".encode()
        self._ask(node, Broadcast("query", key, body))

    def _own(self, node: Node) -> Record:
        """One more record for this peer."""
        self._made += 1
        kind = self._rng.choice((StreamRecord, SignatureRecord, OfferRecord))
        name = self._name()
        thing = name if kind is OfferRecord else f"instance-{self._made}"
        made = (kind, key_of_name(name), thing)
        record = _record(made, node.contact)
        self._owned.setdefault(node.name, {})[ident_of(record)] = made
        return record

    def _name(self) -> str:
        """The name of a stream, a signature or an operator."""
        return f"name {self._rng.below(_NAMES)}"

    def _ask(self, node: Node, question: Struct) -> None:
        kind = type(question).__name__
        self.counts[f"asked {kind}"] += 1
        request = self.world.ask(node, question, self)
        self._open[request] = (self.world.now, node, self._behind[node.name])
        if self._asked is not None:
            self._asked(kind)

    # --- answers --------------------------------------------------------------------------------

    def answered(self, node: Node, request: int, result: Any) -> None:
        """The world has an answer."""
        self._open.pop(request, None)
        self.counts[f"answered {type(result).__name__}"] += 1
        if isinstance(result, ShoalError):
            self.counts["errors"] += 1
        elif isinstance(result, Located):
            self.hops += result.hops
            self.counts["lookups without an owner"] += result.owner is None

    def lost(self, node: Node, request: int) -> None:
        """The peer has ended before it answered."""
        self._open.pop(request, None)
        self.counts["lost with their peer"] += 1

    def every_second(self) -> None:
        for node in self.world.nodes:
            if not _keeps_up(node):
                self._behind[node.name] += SECOND
        self._judge()

    def _judge(self) -> None:
        now = self.world.now
        for request, (asked, node, behind) in self._open.items():
            if now - asked <= _ANSWER_MAX:
                return  # those behind it were asked later
            since = now - asked - (self._behind[node.name] - behind)
            if since > _ANSWER_MAX and _keeps_up(node):
                raise Violation(
                    "answers", f"request {request} to {node.name} is open for {since // SECOND} s"
                )

    def at_end(self) -> None:
        self._judge()

    def figures(self) -> dict[str, float]:
        located = self.counts["answered Located"]
        return {
            "lookups": located,
            "lookups_unanswered": self.counts["lookups without an owner"],
            "hops_mean": round(self.hops / located, 3) if located else 0.0,
            "answers_errors": self.counts["errors"],
        }


def _keeps_up(node: Node) -> bool:
    """Whether it takes every event as it comes."""
    return node.state == UP and not node.service and not node.inbox


def _record(made: tuple[type[Any], Key, str], owner: Contact) -> Record:
    kind, key, thing = made
    record: Record = kind(key, owner, thing)
    return record
