"""A whole peer from one configuration: ring, directory and gossip, each with its own randomness.

The order of the machines is the order in which they hear what concerns them all: the ring first,
because the others stand on it.
"""

from dataclasses import dataclass, field, replace

from shoal.control.directory.config import DirectoryConfig
from shoal.control.directory.machine import DirectoryMachine
from shoal.control.gossip.config import GossipConfig
from shoal.control.gossip.machine import GossipMachine
from shoal.control.ring.config import RingConfig
from shoal.control.ring.machine import RingMachine
from shoal.kernel.errors import LocalError
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.peer.machine import Machine
from shoal.peer.peer import Peer
from shoal.peer.standing import StandingConfig

__all__ = ["PeerConfig", "build_machines", "build_peer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerConfig:
    """Everything that can be tuned in a peer; each part says what its numbers mean."""

    ring: RingConfig = field(default_factory=RingConfig)
    directory: DirectoryConfig = field(default_factory=DirectoryConfig)
    gossip: GossipConfig = field(default_factory=GossipConfig)
    standing: StandingConfig = field(default_factory=StandingConfig)
    #: Lines of stories that are kept. At least 1; about 200 bytes each. A guess: an hour of a
    #: peer that is not in trouble.
    story_lines_max: int = 2_000

    def joining(self, *seeds: str) -> "PeerConfig":
        """The same for a peer that joins through these addresses; none begins a ring."""
        return replace(self, ring=replace(self.ring, seeds=seeds))

    def check(self) -> None:
        """Raise LocalError if a part does not fit in itself, or the parts do not fit each other."""
        for part in (self.ring, self.directory, self.gossip, self.standing):
            part.check()
        if self.story_lines_max < 1:
            raise LocalError("a peer keeps at least one line of its story")
        if self.ring.successors_max < self.directory.copies:
            raise LocalError(
                "records need more copies than a peer knows successors",
                detail=f"{self.directory.copies} copies, {self.ring.successors_max} successors",
            )


def build_machines(me: Contact, config: PeerConfig, rng: Rng) -> tuple[Machine, ...]:
    """The machines of one peer; each draws from a stream of its own name."""
    return (
        RingMachine(me, config.ring, rng.split("ring")),
        DirectoryMachine(me, config.directory, rng.split("directory")),
        GossipMachine(me, config.gossip, rng.split("gossip")),
    )


def build_peer(me: Contact, config: PeerConfig, rng: Rng) -> Peer:
    """A peer that has not started."""
    config.check()
    return Peer(
        me,
        build_machines(me, config, rng),
        story_lines_max=config.story_lines_max,
        standing=config.standing,
    )
