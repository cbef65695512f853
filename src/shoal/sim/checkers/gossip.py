"""What gossip promises, seen from outside all peers.

G1   While nobody was silent and nothing was disturbed, a broadcast reached every peer that was up
     all the while, each once, in a number of hops that is logarithmic. Judged some seconds after
     it began, and only if no peer sent anything again meanwhile.
G2   When faults have stopped for `bound_s`, all peers hold the same facts; each holds what it was
     asked to broadcast itself, or something newer; and one broadcast that is asked for then is at
     every peer when the run ends.
G3   At every event of gossip: what a peer is told has been written by somebody, body and version;
     what it holds is at least as new as what it held before, and as what it was told.
G4   A peer that knows a removal remembers it for its life. When faults have stopped for `bound_s`,
     nobody holds an older version of what it, the writer or all peers knew to be removed.

Not checked   whether a fact survives whose writer ended before anybody else had it: it does not.
              A peer that was away (control/gossip/compare.py) may drop facts: `dropped` says so.
"""

from collections.abc import Sequence
from math import ceil, log2
from typing import Any

from msgspec import Struct

from shoal.control.gossip.machine import GossipMachine
from shoal.control.gossip.messages import (
    Accepted,
    Broadcast,
    Fact,
    Give,
    Spread,
    Version,
)
from shoal.control.gossip.spread import RETRY
from shoal.kernel.effects import Answer, Effect, Send
from shoal.kernel.events import Asked, Received, TimerFired, Unreachable
from shoal.kernel.time import HOUR, SECOND, Instant
from shoal.sim.checkers.checker import Checker, Violation
from shoal.sim.node import UP, Node

__all__ = ["GossipChecker", "gossip_of"]

#: A broadcast is judged so long after it began; far above its hops times the delay of a message.
_JUDGED = 5 * SECOND
#: A ring is taken to be whole when nothing was disturbed for so long: probes, stabilisation, and
#: suspicion in gossip (30 s) are over.
_WHOLE = 30 * SECOND

_Name = tuple[str, str]


class _Wave:
    """One broadcast under way."""

    __slots__ = ("began", "heard", "hops", "up", "valid")

    def __init__(self, began: Instant, up: Sequence[tuple[str, int]]) -> None:
        self.began = began
        self.up = up
        self.heard: dict[str, int] = {}
        self.hops = 0
        self.valid = True


class GossipChecker(Checker):
    """Compares what peers hold with what was ever written."""

    name = "gossip"

    def __init__(self, *, bound_s: float = 120.0, removed_life_us: int = HOUR) -> None:
        #: Ring repaired, then a comparison with the successor (every 30 s), tried three times.
        self.bound_s = bound_s
        self._life_us = removed_life_us
        #: The body of every version that was accepted, and when that was.
        self._written: dict[_Name, dict[Version, tuple[bytes | None, Instant]]] = {}
        #: The newest that each living peer is known to have held, written by itself or not.
        self._held: dict[str, dict[_Name, Version]] = {}
        #: Versions that all peers had at one moment.
        self._agreed: dict[_Name, Version] = {}
        self._agreed_digest = 0
        self._waves: dict[tuple[str, int], _Wave] = {}
        self._last: _Name | None = None
        self.judged = 0
        self.hops_max = 0
        self.agreements = 0

    # --- every event ----------------------------------------------------------------------------

    def after_event(self, node: Node, event: Struct, effects: Sequence[Effect]) -> None:
        kind = type(event)
        if kind is Received:
            assert isinstance(event, Received)
            message = event.message
            if type(message) is Spread:
                self._told(node, message.facts)
                self._spread(node, message)
            elif type(message) is Give:
                self._told(node, message.facts)
        elif kind is TimerFired:
            assert isinstance(event, TimerFired)
            if event.timer == RETRY and effects:
                self._disturb()
            elif effects and event.timer.startswith("gossip/"):
                self._begun(node, effects)
        elif kind is Unreachable:
            self._disturb()
        if effects and (kind is Asked or kind is Received or kind is TimerFired):
            self._answers(node, event, effects)

    def _told(self, node: Node, facts: Sequence[Fact]) -> None:
        """After facts came to a peer: it holds them, or newer ones."""
        machine = gossip_of(node)
        held = self._held.setdefault(node.name, {})
        for fact in facts:
            name = (fact.topic, fact.key)
            written = self._written.get(name, {}).get(fact.version)
            if written is None or written[0] != fact.body:
                raise Violation("G3", f"{node.name} was told {fact!r}, which nobody wrote")
            before = held.get(name)
            if before is None or before < fact.version:
                held[name] = before = fact.version
            self._kept(node, machine, name, before)

    def _kept(self, node: Node, machine: GossipMachine, name: _Name, known: Version) -> None:
        """This peer has known a version: it holds that or a newer one (G3), removals too (G4)."""
        version = machine.version_of(*name)
        if version is not None and version >= known:
            self._held[node.name][name] = version
            return
        body, at = self._written[name][known]
        promise = "G4" if body is None else "G3"
        if version is None and (machine.dropped or (body is None and self._is_old(at))):
            return
        holds = "nothing" if version is None else version
        raise Violation(promise, f"{node.name} knew {name} in {known} and holds {holds}")

    def _is_old(self, at: Instant) -> bool:
        """Whether a removal of then may be forgotten; clocks drift and leap, so not too strict."""
        return self.world.now - at >= self._life_us * 3 // 4

    def _answers(self, node: Node, event: Struct, effects: Sequence[Effect]) -> None:
        """Accepted broadcasts are facts from now on."""
        for effect in effects:
            if type(effect) is not Answer or type(effect.result) is not Accepted:
                continue
            version = effect.result.version
            fact = _held_by(gossip_of(node), version)
            name = (fact.topic, fact.key)
            versions = self._written.setdefault(name, {})
            if version in versions:
                raise Violation("G3", f"{version} of {name} was written twice")
            versions[version] = (fact.body, self.world.now)
            before = self._held.setdefault(node.name, {}).get(name)
            if before is not None and before >= version:
                raise Violation("G3", f"{node.name} wrote {version} of {name} and held {before}")
            self._held[node.name][name] = version

    # --- one broadcast --------------------------------------------------------------------------

    def _begun(self, node: Node, effects: Sequence[Effect]) -> None:
        """A timer of gossip made this peer send: perhaps a broadcast begins."""
        for effect in effects:
            if type(effect) is Send and type(effect.message) is Spread:
                message = effect.message
                if message.origin != node.name or message.hops != 1:
                    return
                if (message.origin, message.wave) not in self._waves:
                    up = [(one.name, one.starts) for one in self.world.running()]
                    wave = _Wave(self.world.now, up)
                    wave.valid = self.world.quiet_for() >= _WHOLE
                    self._waves[message.origin, message.wave] = wave

    def _spread(self, node: Node, spread: Spread) -> None:
        wave = self._waves.get((spread.origin, spread.wave))
        if wave is not None:
            wave.heard[node.name] = wave.heard.get(node.name, 0) + 1
            wave.hops = max(wave.hops, spread.hops)

    def _disturb(self) -> None:
        """Somebody was silent: what is under way need not be exact."""
        for wave in self._waves.values():
            wave.valid = False

    def _judge(self, key: tuple[str, int], wave: _Wave) -> None:
        """G1, if everybody was up and nothing was disturbed all the while."""
        up = [(one.name, one.starts) for one in self.world.running() if one.state == UP]
        quiet = self.world.quiet_for() >= self.world.now - wave.began
        if not wave.valid or not quiet or up != wave.up or self._weather():
            return
        self.judged += 1
        self.hops_max = max(self.hops_max, wave.hops)
        for name, _ in up:
            times = wave.heard.get(name, 0)
            if times != (name != key[0]):
                raise Violation("G1", f"broadcast {key} came to {name} {times} times")
        bound = 2 + 2 * ceil(log2(max(2, len(up))))
        if wave.hops > bound:
            raise Violation("G1", f"broadcast {key} took {wave.hops} hops, at most {bound}")

    def _weather(self) -> bool:
        """Whether the network loses or doubles messages by itself, or holds some back."""
        weather = self.world.network.weather
        return any((weather.loss, weather.duplicate, weather.reorder, weather.heavy))

    # --- moments --------------------------------------------------------------------------------

    def up(self, node: Node) -> None:
        self._held.pop(node.name, None)

    def down(self, node: Node) -> None:
        self._held.pop(node.name, None)

    def every_second(self) -> None:
        now = self.world.now
        for key, wave in list(self._waves.items()):
            if now - wave.began >= _JUDGED:
                del self._waves[key]
                self._judge(key, wave)
        self._agree()

    def _agree(self) -> None:
        """Remember what all peers hold, if all hold the same."""
        machines = [gossip_of(node) for node in self.world.running()]
        digest = machines[0].digest if machines else 0
        if digest in (0, self._agreed_digest) or any(one.digest != digest for one in machines):
            return
        self._agreed_digest = digest
        self.agreements += 1
        for fact in machines[0].view().known:
            self._agreed[fact.name] = max(fact.version, self._agreed.get(fact.name, fact.version))

    def settled(self) -> None:
        """G2 and G4: all hold the same, and nothing that was agreed to be removed is back."""
        nodes = self.world.running()
        first = nodes[0] if nodes else None
        for node in nodes[1:]:
            self._check_alike(nodes[0], node)
        for node in nodes:
            machine = gossip_of(node)
            machine.validate_all()
            for name, known in list(self._held.get(node.name, {}).items()):
                self._kept(node, machine, name, known)
        for name, agreed in self._agreed.items():
            version = gossip_of(first).version_of(*name) if first else None
            if version is not None and version < agreed:
                raise Violation("G4", f"{name} is back in {version}; all had {agreed}")
        if nodes:
            self._last = ("last", "after faults")
            self.world.ask(nodes[self.world.seed % len(nodes)], Broadcast(*self._last, b"x"), self)

    def _check_alike(self, one: Node, other: Node) -> None:
        """Both hold the same, but for removals that are about to be forgotten."""
        if gossip_of(one).digest == gossip_of(other).digest:
            return
        here, there = (
            {fact.name: fact.version for fact in gossip_of(node).view().known}
            for node in (one, other)
        )
        for name in dict.fromkeys((*here, *there)):
            mine, theirs = here.get(name), there.get(name)
            if mine == theirs:
                continue
            held = mine or theirs
            assert held is not None
            body, at = self._written[name][held]
            if not (mine and theirs) and body is None and self._is_old(at):
                continue
            raise Violation("G2", f"{name} is {mine} at {one.name} and {theirs} at {other.name}")

    def at_end(self) -> None:
        """The last broadcast is everywhere (G2)."""
        if self._last is None:
            return
        for node in self.world.running():
            if gossip_of(node).version_of(*self._last) is None:
                raise Violation("G2", f"{node.name} has not heard {self._last}")
        self.every_second()

    # --- as the one who asks --------------------------------------------------------------------

    def answered(self, node: Node, request: int, result: Any) -> None:
        """The last broadcast was accepted, or G2 is broken."""
        if type(result) is not Accepted:
            raise Violation("G2", f"{node.name} did not accept request {request}: {result!r}")

    def lost(self, node: Node, request: int) -> None:
        """Its peer ended: then the run went on too long."""
        raise Violation("G2", f"{node.name} ended before it answered request {request}")

    def figures(self) -> dict[str, float]:
        return {
            "broadcasts_judged": float(self.judged),
            "broadcast_hops_max": float(self.hops_max),
            "facts": float(len(self._written)),
            "agreements": float(self.agreements),
        }


def gossip_of(node: Node) -> GossipMachine:
    """The machine of a running peer, also if a test has wrapped it."""
    assert node.peer is not None
    machine: Any = node.peer.machines["gossip"]
    machine = getattr(machine, "inner", machine)
    assert isinstance(machine, GossipMachine)
    return machine


def _held_by(machine: GossipMachine, version: Version) -> Fact:
    """The fact that was written just now."""
    for fact in reversed(machine.view().known):
        if fact.version == version:
            return fact
    raise Violation("G3", f"{version} was accepted and is not held")
