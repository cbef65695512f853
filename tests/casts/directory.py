"""The cast `directory`: peers with a directory on a still ring (`tests/still_ring.py`).

start p1 p2 p3
event p1 Members p1,p2,p3                    what p1 takes the ring to be; each peer is told
ask p1 Publish OfferRecord/aes/p1/aes/0.5    key, owner, operator, load
settings: any number of DirectoryConfig, in microseconds or as it is there: copies=2
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from msgspec import Struct

from shoal.control.directory.config import DirectoryConfig
from shoal.control.directory.machine import DirectoryMachine
from shoal.control.directory.messages import EXPIRED, LIVE, WITHDRAWN
from shoal.control.directory.view import DirectoryView, Held
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.peer.machine import Machine
from tests.scripts import Cast
from tests.still_ring import Members, StillRing

_STATES = {LIVE: "live", WITHDRAWN: "withdrawn", EXPIRED: "expired"}


class _Shown(Struct, frozen=True):
    """What `show p1 directory` prints."""

    view: DirectoryView
    held: tuple[Held, ...]


class _Open(DirectoryMachine):
    """A directory whose shelf scripts may look at."""

    def view(self) -> Struct:  # type: ignore[override]
        self.audit()
        return _Shown(super().view(), self.held(self._last))


def _build(
    me: Contact, rng: Rng, options: Mapping[str, str], _contact: Callable[[str], Contact]
) -> Sequence[Machine]:
    config = replace(DirectoryConfig(), **{name: int(value) for name, value in options.items()})
    return [StillRing(me), _Open(me, config, rng)]


def _show(view: Struct) -> str:
    if not isinstance(view, _Shown):
        return str(view)
    backups = ", ".join(one.name for one in view.view.backups) or "nobody"
    lines = [f"{view.view.state}, backups {backups}, {view.view.own} records of its own"]
    for one in sorted(view.held, key=lambda held: held.ident):
        seconds = round(one.left / 1_000_000)
        version = f"{one.version.incarnation}.{one.version.counter}"
        lines.append(
            f"{one.ident.thing} of {one.ident.owner}: {_STATES[one.state]} {version}, {seconds} s"
        )
    return "\n".join(lines)


CAST = Cast(build=_build, events=(Members,), show=_show)
