"""Tunables of gossip: unit, bound, provenance, and how they depend on each other."""

from dataclasses import dataclass

from shoal.kernel.errors import LocalError
from shoal.kernel.time import HOUR, MILLISECOND, MINUTE, SECOND

__all__ = ["MESSAGE_BYTES_MAX", "OVERHEAD_BYTES_MAX", "GossipConfig"]

#: A fact's topic, key, version and framing at most, beside its body: what `messages.py` allows.
OVERHEAD_BYTES_MAX = 1_280
#: The most that facts of one message may take. Far below `wire.frames.FRAME_BYTES_MAX`, so that a
#: message fits its frame, whatever else it says.
MESSAGE_BYTES_MAX = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipConfig:
    """How long gossip waits, how much it keeps, how much it says at once."""

    #: Wait for an acknowledgement. Above the longest round trip between healthy peers, or the same
    #: facts are sent twice: transit-stub of 500 peers has at most about 0.3 s. A guess with room.
    ack_us: int = 500 * MILLISECOND
    #: Sendings before a delegate counts as silent. With 5 % loss each way one try fails in 10 %,
    #: two in 1 %; then its interval goes to another peer, which costs messages and no fact.
    tries: int = 2
    #: A silent peer gets no interval for so long, only copies nobody waits for. A guess: longer
    #: than a ring needs to repair its tables (seconds), shorter than people wait.
    suspect_us: int = 30 * SECOND
    #: A delegate that acknowledged and is lost within this time may have died before it passed the
    #: facts on: its interval is covered again. Longer than the ring needs to find a loss (a guess).
    watch_us: int = 15 * SECOND
    #: Facts accepted within this time go out as one message. Adds to every broadcast's delay.
    batch_us: int = 5 * MILLISECOND
    #: Comparing stores with the successor: slow, for what everything else missed. Two small
    #: messages a peer when nothing is different. A guess.
    compare_every_us: int = 30 * SECOND
    #: After a change of neighbours, so that a burst of changes is one comparison. A guess.
    compare_soon_us: int = 200 * MILLISECOND
    #: Wait for the next message of a comparison, and comparisons tried in a row.
    compare_wait_us: int = 2 * SECOND
    compare_tries: int = 3
    #: A fact that so many peers in a row lacked is broadcast again instead of handed on one by one:
    #: in a row it would take as many round trips as there are peers.
    rows_max: int = 8
    #: A peer that starts accepts broadcasts once it has compared with a neighbour, or after this.
    hold_us: int = 2 * SECOND
    #: Life of the memory that something was removed. A peer that was away for half of it asks
    #: whoever was there before it says again what it knew.
    removed_life_us: int = HOUR
    #: The longest body; a message of several facts stays below `message_bytes_max`.
    body_bytes_max: int = 16_384
    message_bytes_max: int = 262_144
    #: Facts kept, all topics together, removed ones included. At 64 buckets the summary of one
    #: bucket (1,024 names on average) stays far below a frame.
    facts_max: int = 65_536
    #: Broadcasts remembered to recognise doubles; a double of an older one is spread once more.
    waves_max: int = 4_096
    #: Intervals given away and not acknowledged. Beyond it no further interval is taken over, and
    #: own broadcasts wait. A guess with room: one broadcast makes about 40.
    duties_max: int = 8_192

    @property
    def away_us(self) -> int:
        """Away for longer: what was known may have been removed and the removal forgotten."""
        return self.removed_life_us // 2

    def check(self) -> None:
        """Raise LocalError if numbers do not fit together."""
        _require(MILLISECOND <= self.ack_us <= MINUTE, "ack_us", "1 ms to 1 minute")
        _require(1 <= self.tries <= 10, "tries", "1 to 10")
        _require(
            self.suspect_us >= self.ack_us * self.tries, "suspect_us", "ack_us * tries or more"
        )
        _require(self.watch_us >= 0, "watch_us", "0 or more")
        _require(0 <= self.batch_us <= SECOND, "batch_us", "0 to 1 s")
        _require(self.compare_soon_us >= 1, "compare_soon_us", "1 or more")
        _require(
            self.compare_every_us >= self.compare_wait_us * self.compare_tries,
            "compare_every_us",
            "compare_wait_us * compare_tries or more",
        )
        _require(1 <= self.compare_tries <= 10, "compare_tries", "1 to 10")
        _require(2 <= self.rows_max <= 64, "rows_max", "2 to 64")
        _require(self.hold_us >= 0, "hold_us", "0 or more")
        _require(
            self.away_us >= 10 * self.compare_every_us,
            "removed_life_us",
            "20 * compare_every_us or more: everybody hears of a removal before it is forgotten",
        )
        _require(
            self.body_bytes_max + OVERHEAD_BYTES_MAX <= self.message_bytes_max <= MESSAGE_BYTES_MAX,
            "message_bytes_max",
            f"body_bytes_max + {OVERHEAD_BYTES_MAX} to {MESSAGE_BYTES_MAX}",
        )
        _require(1 <= self.facts_max <= 65_536, "facts_max", "1 to 65,536")
        _require(self.waves_max >= 1, "waves_max", "1 or more")
        _require(self.duties_max >= 1, "duties_max", "1 or more")


def _require(holds: bool, name: str, range_: str) -> None:  # noqa: FBT001 (a condition, first)
    if not holds:
        raise LocalError(f"gossip setting {name} is out of range", detail=f"allowed: {range_}")
