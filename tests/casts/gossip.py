"""The cast `gossip`: peers with the machine of gossip alone, and tables that the script states.

start p1 p2 p3 ring=p1,p2,p3 successors=2      everybody knows the whole ring's tables
start p4                                       nobody; `event p4 Routes ...` comes later
settings: any number of GossipConfig, in microseconds or as it is there: watch_us=0
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from msgspec import Struct

from shoal.control.gossip.config import GossipConfig
from shoal.control.gossip.machine import GossipMachine
from shoal.control.gossip.messages import RouteLost, Routes
from shoal.control.gossip.view import GossipView
from shoal.kernel.effects import Effect
from shoal.kernel.events import Started
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import Instant
from shoal.sim.baselines.still import tables_of
from tests.scripts import Cast

CONFIG = replace(GossipConfig(), compare_every_us=1_800_000_000, removed_life_us=36_000_000_000)


class _Placed(GossipMachine):
    """Knows its tables from the start, as if the ring had told them in the same event."""

    def __init__(self, me: Contact, config: GossipConfig, rng: Rng, routes: Routes | None) -> None:
        super().__init__(me, config, rng)
        self._first = routes

    def handle(self, event: Struct, now: Instant) -> list[Effect]:
        effects = super().handle(event, now)
        if type(event) is Started and self._first is not None:
            effects += super().handle(self._first, now)
        return effects


def routes_in(ring: Sequence[Contact], me: Contact, successors: int) -> Routes:
    """The tables of one peer in a whole ring of these."""
    order = sorted(ring, key=lambda contact: contact.key)
    place = order.index(me)
    table = tables_of([contact.key for contact in order], successors)[place]
    return Routes(
        order[table.predecessor],
        tuple(order[other] for other in table.successors),
        tuple(order[other] for other in table.fingers),
    )


def _build(
    me: Contact, rng: Rng, options: Mapping[str, str], contact: Callable[[str], Contact]
) -> Sequence[GossipMachine]:
    names = [name for name in options.get("ring", "").split(",") if name]
    numbers = {
        name: int(value) for name, value in options.items() if name not in ("ring", "successors")
    }
    routes = None
    if me.name in names:
        ring = [me if name == me.name else contact(name) for name in names]
        routes = routes_in(ring, me, int(options.get("successors", "2")))
    return [_Placed(me, replace(CONFIG, **numbers), rng, routes)]


def _show(view: Struct) -> str:
    assert isinstance(view, GossipView)
    lines = [f"{view.facts} facts, {view.open} open, {view.repairs} repairs"]
    for fact in sorted(view.known, key=lambda fact: fact.name):
        what = "removed" if fact.body is None else fact.body.decode()
        lines.append(f"{fact.topic}/{fact.key} {fact.version.counter}@{fact.version.writer} {what}")
    return "\n".join(lines)


CAST = Cast(build=_build, events=(Routes, RouteLost), show=_show)
