"""What can be tuned in the ring: each with its unit, its bound and where it comes from."""

from dataclasses import dataclass

from shoal.kernel.errors import UserError
from shoal.kernel.time import HOUR, MILLISECOND, MINUTE, SECOND

__all__ = ["RingConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RingConfig:
    """Durations are microseconds."""

    #: Addresses to join through; none means that this peer begins a ring.
    seeds: tuple[str, ...] = ()
    #: Length of a successor list, 2 to 64. With lists of r, any r - 1 neighbours may be lost at
    #: once; 16 keeps a random half of all peers connected (2 to the -16 per peer) in a partition.
    successors_max: int = 16
    #: A round (probe and stabilise in one exchange) begins at most this long after the last one.
    #: The issue asks for 2 s at most.
    round_period: int = 2 * SECOND
    #: Share of the period by which a round may come earlier, so that peers do not beat together.
    round_jitter: float = 0.2
    #: Bounds of the wait for an answer, which is mean round trip + 4 deviations (RFC 6298).
    timeout_min: int = 250 * MILLISECOND
    timeout_max: int = SECOND
    #: Peers asked to probe a silent one on our behalf (SWIM, section 3.1, takes 3).
    relays: int = 3
    #: How long a silent peer is suspected before it is taken to be lost. A pause shorter than this
    #: goes unpunished; for pauses of 10 s set 12 s. A guess between speed and mercy.
    suspicion: int = 6 * SECOND
    #: How often a suspected peer is asked again; it has suspicion / this chances to refute.
    suspicion_period: int = SECOND
    #: A predecessor that has not stabilised for this long is asked. Above two rounds.
    silence: int = 5 * SECOND
    #: One finger is checked this often. Ten fingers are then checked within a minute.
    finger_period: int = 5 * SECOND
    #: One lost peer (or a seed) is tried this often: how soon rings that parted find each other.
    lost_period: int = 8 * SECOND
    #: Lost peers that are remembered, and for how long.
    lost_max: int = 64
    lost_forget: int = 6 * HOUR
    #: A peer whose seeds are silent, or no members themselves, begins a ring after this time. It
    #: goes on trying them, and rings that find each other merge.
    alone_after: int = 15 * SECOND
    #: A look-up gets an answer within this time, if only that there is none.
    lookup_timeout: int = 10 * SECOND
    #: Look-ups under way at once; more are refused.
    lookups_max: int = 4_096
    #: A change is told to the predecessor after this delay, together with those that follow.
    push_delay: int = 100 * MILLISECOND
    #: Neighbours are written to the store at most this often, so that a restart finds the ring.
    store_period: int = MINUTE

    def check(self) -> None:
        """Raise UserError for what cannot work."""
        for name in self.__slots__:
            value = getattr(self, name)
            if name not in ("seeds", "round_jitter") and value <= 0:
                raise UserError(f"ring setting {name} is {value}", hint="it must be above zero")
        rules = (
            (2 <= self.successors_max <= 64, "successors_max must be 2 to 64"),
            (0.0 <= self.round_jitter <= 0.5, "round_jitter must be 0 to 0.5"),
            (self.timeout_min <= self.timeout_max, "timeout_min must not exceed timeout_max"),
            (self.timeout_max <= self.round_period, "an answer is awaited for a round at most"),
            (self.suspicion_period <= self.suspicion, "a suspected peer must get a chance"),
            (2 * self.round_period < self.silence, "silence must be above two rounds"),
        )
        for holds, text in rules:
            if not holds:
                raise UserError("ring settings do not fit together", detail=text)
