"""Damage to the state of a machine, by the name under which a scenario file asks for it.

    successor list wiped   a peer has forgotten everybody behind it, as if memory had been lost
    fingers stale          its fingers point to peers farther than they should

This is the one place that reaches into machines, and only `faults.Corrupt` calls it. A machine is
not required to be right while it is damaged; it is required to come back.
"""

from collections.abc import Callable, Mapping
from typing import Any

from shoal.control.ring.machine import RingMachine

__all__ = ["HOOKS"]


def _wipe_successors(peer: Any) -> bool:
    """Forget all successors; says whether there were any."""
    table = _ring(peer).table
    return bool(table.set_successors(()))


def _make_fingers_stale(peer: Any) -> bool:
    """Let every finger point as far as the farthest; says whether one has moved."""
    table = _ring(peer).table
    if not table.fingers:
        return False
    before = table.changes
    farthest = max(table.fingers.values(), key=table.gap)
    for power in list(table.fingers):
        table.set_finger(power, farthest)
    return bool(table.changes != before)


def _ring(peer: Any) -> RingMachine:
    machine = peer.machines["ring"]
    assert isinstance(machine, RingMachine)
    return machine


HOOKS: Mapping[str, Callable[[Any], bool]] = {
    "successor list wiped": _wipe_successors,
    "fingers stale": _make_fingers_stale,
}
