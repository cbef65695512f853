"""R2 seen from outside: one ring, lists that skip nobody, and look-ups that are right.

    at every event   the list of a peer whose table has changed; the lists of those before a peer
                     that has gone
    every second     the lists of all members
    settled          every running peer is a member; predecessor and whole list are right; look-ups
                     asked now are right, all of them

What a list must satisfy at all times is Zave's invariant (see control/ring/machine.py), sharpened
so that it can be judged one list at a time: it has a living member in it, and up to its last entry
it skips no *established* member, one that joined some seconds ago. If no list skips an established
member, then they are all principal, and there is one cycle through them.

It is not asked for while faults tear at the ring, nor for some time after: partitions, pauses,
clogs, damage, other weather. Crashes, leaves and joins, as many as a scenario has, excuse nothing.
With a loss of more than one message in ten lists may skip somebody who was given up in error, for a
while.

Who is alive comes from the world. That a living peer is a *member* is its own word; that it must
become one is checked when settled.

Not checked   fingers: they are hints, and may be old. Look-ups while faults last: their owners may
              be gone without anybody knowing; how many were right is a figure.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from shoal.control.ring.machine import RingMachine
from shoal.control.ring.messages import Located, Lookup
from shoal.control.ring.state import State, Table
from shoal.kernel.effects import Answer, Effect
from shoal.kernel.events import Asked
from shoal.kernel.keys import Contact, Key, key_of_name
from shoal.kernel.time import SECOND, Instant
from shoal.sim.checkers.checker import Checker, Violation
from shoal.sim.node import Node

__all__ = ["RingChecker", "ring_of"]

#: A member is established after this: news of it has run back along all lists, even if some of
#: the messages were lost and a round had to repeat them.
_ESTABLISHED = 20 * SECOND
#: Faults that every ring must bear without leaving the invariant.
_BORNE = ("crash", "leave", "join", "restart", "churn", "an old disk", "clock drifts", "forming")
#: Above this loss, peers are given up in error now and then.
_LOSS_BORNE = 0.1
#: Look-ups asked when settled, at most one of a peer.
_ASKED = 100


def ring_of(node: Node) -> RingMachine:
    """The ring machine of a host that runs a peer."""
    assert node.peer is not None
    # In tests a machine may be wrapped in one that watches it (tests/checked.py).
    machine = node.peer.machines["ring"]
    machine = getattr(machine, "inner", machine)
    assert isinstance(machine, RingMachine)
    return machine


class _Member:
    """What the checker keeps about a running peer."""

    __slots__ = ("changes", "contact", "key", "machine", "since", "state", "table")

    def __init__(self, node: Node) -> None:
        self.contact: Contact = node.contact
        self.key: Key = node.contact.key
        self.machine = ring_of(node)
        self.table: Table = self.machine.table
        self.changes = -1
        self.state = State.NEW
        #: When it became a member.
        self.since: Instant = 0


class RingChecker(Checker):
    """Compares every peer's neighbours with who is really there."""

    name = "ring"

    def __init__(self, *, bound_s: float = 90.0, excused_s: float = 45.0) -> None:
        #: Silence and suspicion (11 s), lists (r rounds if all pushes are lost), a peer that began
        #: a ring of its own and looks through its seed once a minute.
        self.bound_s = bound_s
        #: How long after faults that tear at the ring it may still be repairing itself: a thousand
        #: peers in two halves took 14 s with one message in twenty lost.
        self._excused_for = int(excused_s * SECOND)
        self.recovered_s = -1.0
        self.checks = 0
        self.lookups = 0
        self.lookups_right = 0
        self._running: dict[int, _Member] = {}
        #: Members in the order of their keys.
        self._keys: list[Key] = []
        self._ring: list[_Member] = []
        self._names: dict[str, _Member] = {}
        #: Open look-ups: when asked, the key, who owned it then.
        self._open: dict[int, tuple[Instant, Key, str]] = {}
        self._final: dict[int, None] = {}
        #: When faults that excuse were last seen to be on, and how many there had been.
        self._torn_at: Instant = -self._excused_for
        self._torn = 0
        self._calm_at: Instant = -1

    # --- who is there -----------------------------------------------------------------------

    def up(self, node: Node) -> None:
        self._running[node.index] = _Member(node)

    def down(self, node: Node) -> None:
        member = self._running.pop(node.index, None)
        if member is not None and member.contact.name in self._names:
            self._remove(member)

    def _add(self, member: _Member) -> None:
        place = bisect_left(self._keys, member.key)
        self._keys.insert(place, member.key)
        self._ring.insert(place, member)
        self._names[member.contact.name] = member
        member.since = self.world.now

    def _remove(self, member: _Member) -> None:
        place = bisect_left(self._keys, member.key)
        del self._keys[place], self._ring[place], self._names[member.contact.name]
        for turn in range(1, 1 + min(member.table.successors_max, len(self._ring))):
            self._look_at(self._ring[place - turn])

    def owner_of(self, key: Key) -> str:
        """The name of who really owns a key."""
        if not self._ring:
            return ""
        return self._ring[bisect_left(self._keys, key) % len(self._ring)].contact.name

    # --- every event ------------------------------------------------------------------------

    def after_event(self, node: Node, event: Struct, effects: Sequence[Effect]) -> None:
        member = self._running[node.index]
        machine = member.machine
        if member.changes != member.table.changes or machine.state is not member.state:
            member.changes = member.table.changes
            self._touched(member, machine.state)
        if type(event) is Asked and type(event.question) is Lookup:
            key = event.question.key
            self._open[event.request] = self.world.now, key, self.owner_of(key)
        if self._open:
            for effect in effects:
                if type(effect) is Answer and effect.request in self._open:
                    self._answered(effect.request, effect.result)

    def _touched(self, member: _Member, state: State) -> None:
        before, member.state = member.state, state
        if state is State.MEMBER:
            if before is not State.MEMBER:
                self._add(member)
            self._look_at(member)
        elif before is State.MEMBER:
            self._remove(member)

    def _look_at(self, member: _Member) -> None:
        """Its list is as it must be, or there is an excuse."""
        self.checks += 1
        wrong = self._wrong(member)
        if wrong and not self._excused():
            raise Violation("R2", f"{member.contact.name}: {wrong}")

    def _wrong(self, member: _Member) -> str:
        """What is wrong with a list, if anything."""
        successors = member.table.successors
        place = bisect_left(self._keys, member.key)
        count = len(self._ring)
        established = self.world.now - _ESTABLISHED
        others = min(member.table.successors_max, count - 1)
        if len(successors) == others and all(
            self._ring[(place + turn) % count].contact is successors[turn - 1]
            for turn in range(1, others + 1)
        ):
            return ""
        if member.since > established:
            return ""
        listed = {contact.name: None for contact in successors}
        if not any(name in self._names for name in listed):
            lonely = any(m.since <= established for m in self._ring if m is not member)
            return f"no living member among successors {list(listed)}" if lonely else ""
        if self.world.network.weather.loss > _LOSS_BORNE:
            return ""
        reach = member.table.gap(successors[-1])
        for turn in range(1, count):
            other = self._ring[(place + turn) % count]
            if member.table.gap(other.contact) > reach:
                break
            if other.contact.name not in listed and other.since <= established:
                return f"skips {other.contact.name} in successors {list(listed)}"
        return ""

    def _excused(self) -> bool:
        """Whether faults tear at the ring, or did so a short while ago."""
        self._see_faults()
        return self.world.now - self._torn_at < self._excused_for

    def _see_faults(self) -> None:
        torn = sum(n for fault, n in self.world.probes.items() if _tears(fault))
        if torn != self._torn or any(_tears(fault) for fault in self.world.ongoing()):
            self._torn = torn
            self._torn_at = self.world.now

    def every_second(self) -> None:
        self._see_faults()
        excused = self._excused()
        for member in self._ring:
            if not excused:
                self._look_at(member)
        if self._calm_at >= 0 and self.recovered_s < 0.0 and not self.unsettled():
            self.recovered_s = (self.world.now - self._calm_at) / SECOND

    # --- look-ups ---------------------------------------------------------------------------

    def _answered(self, request: int, result: Any) -> None:
        asked, key, owned = self._open.pop(request)
        if not isinstance(result, Located):
            return
        found = result.owner.name if result.owner is not None else ""
        right = found in (owned, self.owner_of(key))
        self.lookups += 1
        self.lookups_right += right
        final = request in self._final
        self._final.pop(request, None)
        quiet = self.world.quiet_for() - (self.world.now - asked) >= self.bound_s * SECOND
        if not right and (final or quiet):
            raise Violation(
                "R2", f"look-up {request} found {found or 'nobody'}, the owner is {owned}"
            )

    # --- liveness ---------------------------------------------------------------------------

    def calm(self) -> None:
        self._calm_at = self.world.now
        self.recovered_s = -1.0

    def unsettled(self) -> str:
        """What is not yet as it must be when faults have ended, if anything."""
        for member in self._running.values():
            if member.machine.state is not State.MEMBER:
                return f"{member.contact.name} is {member.machine.state}"
        count = len(self._ring)
        for place, member in enumerate(self._ring):
            table = member.table
            others = min(table.successors_max, count - 1)
            expected = [self._ring[(place + n) % count].contact.name for n in range(1, others + 1)]
            found = [contact.name for contact in table.successors]
            if found != expected:
                return f"successors of {member.contact.name} are {found}, not {expected}"
            before = self._ring[place - 1].contact.name if count > 1 else None
            known = table.predecessor.name if table.predecessor is not None else None
            if known != before:
                return f"predecessor of {member.contact.name} is {known}, not {before}"
        return ""

    def settled(self) -> None:
        wrong = self.unsettled()
        if wrong:
            raise Violation("R2", wrong)
        rng = self.world.rng.split("ring/final")
        for node in rng.sample(self.world.running(), _ASKED):
            request = self.world.ask(node, Lookup(key_of_name(f"final {node.name}")), _Deaf())
            self._final[request] = None

    def at_end(self) -> None:
        if self._final:
            raise Violation("R2", f"{len(self._final)} look-ups have no answer")

    def figures(self) -> dict[str, float]:
        share = self.lookups_right / self.lookups if self.lookups else 1.0
        return {
            "ring_recovered_s": self.recovered_s,
            "ring_lists_checked": self.checks,
            "ring_lookups_right": share,
        }


class _Deaf:
    """The checker sees answers among the effects."""

    def answered(self, node: Node, request: int, result: Any) -> None:
        """Seen already."""

    def lost(self, node: Node, request: int) -> None:
        """Missed at the end."""


def _tears(fault: str) -> bool:
    return not fault.startswith(_BORNE)
