"""The tunables of the directory: unit, bound, formula and where each number comes from.

    renew 20 s ──▶ lease 80 s ──▶ a withdrawal is repeated for 100 s and remembered for 240 s

Durations are microseconds.
"""

from dataclasses import dataclass

from shoal.kernel.errors import LocalError
from shoal.kernel.events import AWAY
from shoal.kernel.time import MILLISECOND, SECOND
from shoal.wire.frames import FRAME_BYTES_MAX

__all__ = ["HAVE_BYTES_MAX", "ITEM_BYTES_REST", "DirectoryConfig"]

#: Bytes of an item beside its three names: key, numbers, load, and the heads of its arrays.
ITEM_BYTES_REST = 120
#: Bytes of one `Have`: three integers of nine bytes, and heads.
HAVE_BYTES_MAX = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryConfig:
    """How often, how long, how much."""

    #: Copies of a record: its keeper and the keeper's next `copies - 1` successors. Any
    #: `copies - 1` of them may crash at once (R1); 3 is the issue's.
    copies: int = 3
    #: An owner renews each record at least so often. A guess: the cost is one exchange per keeper.
    renew_period: int = 20 * SECOND
    #: A record that is not renewed is gone after this. At least three renewals and their retries,
    #: so that two lost in a row do no harm.
    lease: int = 80 * SECOND
    #: What the lease shrinks to when the ring believes the owner lost. One renewal, its retries
    #: and the lazy copy to replicas must fit, so that a hint alone never removes anything.
    suspect_lease: int = 35 * SECOND
    #: How long a withdrawn or expired record is remembered, to know its late copies by. No copy's
    #: lease outlives `lease` after its owner's last word; the rest is room for late messages, of
    #: which a host that stood still hands on none that is older than `kernel.events.AWAY`.
    tombstone_life: int = 240 * SECOND
    #: An owner waits so long for Stored and sends again, so often. Altogether above what the keeper
    #: needs to copy: push_attempts times push_timeout.
    store_timeout: int = 1 * SECOND
    store_attempts: int = 4
    #: A keeper waits so long for a replica; ten times a slow round trip. A guess.
    push_timeout: int = 800 * MILLISECOND
    push_attempts: int = 3
    #: A seeker waits so long for a keeper before it asks a replica.
    ask_timeout: int = 1 * SECOND
    #: Every question is answered within this (D3).
    question_timeout: int = 12 * SECOND
    #: The ring is asked again for a keeper after this; it answers by itself before.
    lookup_timeout: int = 10 * SECOND
    #: Pause before something refused is tried again.
    retry_delay: int = 300 * MILLISECOND
    #: How often expired items are swept, lazy copies sent, and due renewals collected.
    beat_period: int = 5 * SECOND
    #: A keeper compares digests with each replica so often, and at once when either changes.
    sync_period: int = 15 * SECOND
    #: For how long a replica may answer for a range after its keeper last found both equal.
    vouch_life: int = 45 * SECOND
    #: A keeper that cannot catch up with anybody is as sure as it gets when every owner has
    #: renewed: renew_period and retries.
    learning_max: int = 35 * SECOND
    #: Changes for watchers are collected for this long.
    watch_delay: int = 200 * MILLISECOND
    #: A watcher renews its watch so often; a keeper forgets it after three.
    watch_period: int = 10 * SECOND
    watch_lease: int = 35 * SECOND
    #: Items in one message; `check` holds it below FRAME_BYTES_MAX.
    items_max: int = 500
    #: Versions in one `Differs`; what does not fit is compared in the next round.
    haves_max: int = 10_000
    #: Bytes of each name in a record: instance or operator, the owner's name, its address.
    name_bytes_max: int = 200
    #: Records of one owner, and items that one keeper holds. About 1 kB each in memory.
    records_own_max: int = 20_000
    entries_max: int = 100_000
    #: Keys that one peer watches; watchers that one keeper serves; keepers remembered.
    watches_max: int = 1_000
    followers_max: int = 10_000
    routes_max: int = 4_096
    #: Look-ups of keepers, and questions, under way at once.
    lookups_max: int = 32
    questions_max: int = 10_000

    def check(self) -> None:
        """Raise LocalError if the numbers contradict each other."""
        storing = self.store_attempts * self.store_timeout
        copying = self.push_attempts * self.push_timeout
        item_bytes = ITEM_BYTES_REST + 3 * self.name_bytes_max
        room = FRAME_BYTES_MAX - 65_536
        rules = (
            (self.copies >= 1, "copies must be at least 1"),
            (self.lease >= 3 * (self.renew_period + storing), "lease is too short"),
            (
                self.suspect_lease >= self.renew_period + 2 * self.store_timeout + self.beat_period,
                "suspect_lease is shorter than a renewal, its retry and its copy",
            ),
            (self.tombstone_life >= 2 * self.lease, "tombstone_life must be two leases"),
            (
                self.tombstone_life >= self.lease + AWAY,
                "tombstone_life must be a lease, and the longest that a host hands on what waited",
            ),
            (storing > copying, "an owner waits less than copying takes"),
            (self.learning_max > self.renew_period, "learning_max must exceed renew_period"),
            (self.vouch_life >= 2 * self.sync_period, "vouch_life must be two sync_periods"),
            (self.watch_lease >= 3 * self.watch_period, "watch_lease must be three watch_periods"),
            (self.items_max * item_bytes <= room, "items_max does not fit a frame"),
            (self.haves_max * HAVE_BYTES_MAX <= room, "haves_max does not fit a frame"),
            (0 < self.beat_period <= self.sync_period, "beat_period must not exceed sync_period"),
        )
        for holds, what in rules:
            if not holds:
                raise LocalError(f"directory configuration: {what}", detail=repr(self))
