"""Where two machines meet: whose news concerns whom, in that machine's own words.

Machines of `control/` never import each other. This is the only file with the names of two.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

__all__ = ["heard_by"]

#: Events for siblings: the machine's name, and the event in its words.
Heard = Sequence[tuple[str, Struct]]

_BRIDGES: dict[type[Struct], Callable[[Struct], Heard]] = {}


def heard_by(news: Struct) -> Heard:
    """Who hears this news, and as what."""
    bridge = _BRIDGES.get(type(news))
    return () if bridge is None else bridge(news)
