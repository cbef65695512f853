"""What gossip looks like from outside: for people, tests and checkers."""

from msgspec import Struct

from shoal.control.gossip.messages import Fact

__all__ = ["GossipView"]


class GossipView(Struct, frozen=True):
    """A picture of one peer's gossip."""

    facts: int
    #: Equal digests mean equal stores.
    digest: int
    counter: int
    #: Intervals that were given away and not acknowledged, and repairs so far.
    open: int
    repairs: int
    #: Comparisons that ended well; facts that were dropped after an absence; facts without room.
    compared: int
    dropped: int
    refused: int
    #: One of `machine.State`.
    state: str
    known: tuple[Fact, ...]
