"""The cast `ring`: peers with the machine of the ring alone.

start p1                            begins a ring
start p2 seeds=p1                   joins through p1; several seeds with commas
start p1 p2 p3 ring=p1,p2,p3        stand in a ring that is whole already
settings: any number of RingConfig, in microseconds or as it is there: successors_max=2
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from shoal.control.ring.config import RingConfig
from shoal.control.ring.machine import RingMachine
from shoal.control.ring.messages import Find
from shoal.control.ring.policy import stable_tables
from shoal.control.ring.view import RingView
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from tests.scripts import Cast

_WORDS = ("seeds", "ring")


def _build(
    me: Contact, rng: Rng, options: Mapping[str, str], contact: Callable[[str], Contact]
) -> Sequence[RingMachine]:
    numbers = {name: int(value) for name, value in options.items() if name not in _WORDS}
    seeds = tuple(contact(name).address for name in _names(options, "seeds"))
    config = RingConfig(seeds=seeds, **numbers)  # type: ignore[arg-type]
    ring = [me if name == me.name else contact(name) for name in _names(options, "ring")]
    place = stable_tables(ring, config.successors_max)[me.name] if me in ring else None
    return [RingMachine(me, config, rng, place=place)]


def _names(options: Mapping[str, str], word: str) -> list[str]:
    return [name for name in options.get(word, "").split(",") if name]


def _show(view: Struct) -> str:
    assert isinstance(view, RingView)
    before = view.predecessor.name if view.predecessor is not None else "nobody"
    after = " ".join(contact.name for contact in view.successors) or "nobody"
    lines = [f"{view.state}: {before} -> {view.me.name} -> {after}"]
    lines += [f"finger {power} {contact.name}" for power, contact in view.fingers]
    lines += [f"{name} is suspected" for name in view.suspected]
    lines += [f"{name} is lost" for name in view.lost]
    return "\n".join(lines)


CAST = Cast(build=_build, events=(Find,), show=_show)
