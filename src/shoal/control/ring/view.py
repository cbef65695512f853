"""The ring as one peer sees it: for people, for tests and for traces."""

from msgspec import Struct

from shoal.control.ring.desk import Desk
from shoal.control.ring.watch import Belief
from shoal.kernel.keys import Contact

__all__ = ["RingView", "picture"]


class RingView(Struct, frozen=True):
    """A picture of the ring; successors and fingers run clockwise."""

    me: Contact
    state: str
    predecessor: Contact | None
    successors: tuple[Contact, ...]
    fingers: tuple[tuple[int, Contact], ...]
    suspected: tuple[str, ...]
    lost: tuple[str, ...]
    lookups: int
    version: int


def picture(desk: Desk, *, state: str, lookups: int) -> RingView:
    """What stands on the desk now."""
    known = desk.watch.known.items()
    return RingView(
        me=desk.me,
        state=state,
        predecessor=desk.table.predecessor,
        successors=desk.table.successors,
        fingers=tuple(sorted(desk.table.fingers.items())),
        suspected=tuple(name for name, found in known if found.belief is Belief.SUSPECTED),
        lost=tuple(contact.name for contact in desk.watch.lost()),
        lookups=lookups,
        version=desk.table.version,
    )
