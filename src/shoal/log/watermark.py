"""Watermarks: how far event time has come, per split and for a stream, as pure arithmetic.

What is promised
    - A split's watermark is the highest event time it brought minus the lateness; a stream's is
      the minimum over its active splits. It never falls.
    - A split with no data for `idle_after` of the ingest clock leaves the minimum. It comes back
      with its next data and then holds the stream where it is, but never pulls it back. The splits
      that were heard last stay: so the watermark is the same however often it was asked for.
    - A split that waits to be read is active, and while one waits of which nothing was read yet
      the stream's watermark stands still: Shoal's own order of reading, its pauses and its
      restarts make no tuple late.
    - The ingest clock never goes back: a clock set back stands still until it is passed.
    - Whoever commits `changes` and comes back with `restored` goes on as if never stopped.

A tuple is late when its event time is below the stream's watermark before its commit. A tuple
above `ahead_limit` goes to dead letters and moves nothing; the caller keeps it out of `highest`.

IDLE ADVANCES. While no split is active and none waits, the watermark follows the ingest clock at
a distance of idle_after + lateness. At the moment the last split falls idle this is where the
watermark would be had that split's last tuple been stamped with the time it arrived; from there
on it moves with the clock. A tuple is then late if it arrives more than idle_after + lateness
after its event time. So the option is only for streams whose event time is about the time of
arrival; in a replay of old data it would make the rest of the data late.

Not here: reading a clock, and judging tuples (a step does, in Spark).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from shoal.kernel.errors import LocalError
from shoal.kernel.time import HOUR, SECOND, Instant

__all__ = ["LATENESS_MAX", "SplitClock", "SplitClocks", "WatermarkRule"]

#: Microseconds; a watermark further back than this is a table, not a stream. A guess.
LATENESS_MAX = 366 * 24 * HOUR
#: Microseconds; the shortest silence after which a split may be called idle (DESIGN section 7).
IDLE_AFTER_MIN = 5 * SECOND
#: Microseconds ahead of the ingest clock that a tuple may be (DESIGN section 7).
AHEAD_MAX = HOUR
#: Microseconds that a watermark which follows the clock moves at a time: each move is a commit.
IDLE_ADVANCE_MIN = SECOND

_INT64_MIN = -(1 << 63)
_WATERMARK, _CLOCK, _SPLIT, _SEEN = "wm", "clock", "split/", "seen/"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkRule:
    """How a stream's watermark moves; all in microseconds."""

    lateness: int
    idle_after: int
    ahead_max: int
    idle_advances: bool

    @classmethod
    def of(cls, *, lateness: int, idle_advances: bool) -> "WatermarkRule":
        """The rule of a stream with this lateness: idle after twice that, at least 5 seconds."""
        if not 0 <= lateness <= LATENESS_MAX:
            raise LocalError(
                f"lateness of {lateness} microseconds cannot be used",
                detail=f"it is at least 0 and at most {LATENESS_MAX} (366 days)",
            )
        return cls(
            lateness=lateness,
            idle_after=max(2 * lateness, IDLE_AFTER_MIN),
            ahead_max=AHEAD_MAX,
            idle_advances=idle_advances,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitClock:
    """One split: its watermark, and the ingest clock when it was last heard."""

    watermark: Instant
    seen: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitClocks:
    """The watermark of a stream and what it is made of, after some commit.

    SplitClocks(watermark=940, clock=1000, splits={'a': SplitClock(watermark=940, seen=1000)})
    """

    #: None until the first tuple, or until IDLE ADVANCES speaks.
    watermark: Instant | None = None
    #: None before the first step.
    clock: Instant | None = None
    splits: Mapping[str, SplitClock] = field(default_factory=dict)

    @classmethod
    def restored(cls, transactions: Mapping[str, int], rule: WatermarkRule) -> "SplitClocks":
        """The state as the newest commit has it; the other application transactions are ignored."""
        clock = transactions.get(_CLOCK)
        splits = {
            name.removeprefix(_SPLIT): SplitClock(
                watermark=value,
                seen=transactions.get(_SEEN + name.removeprefix(_SPLIT), clock or 0),
            )
            for name, value in sorted(transactions.items())
            if name.startswith(_SPLIT)
        }
        state = cls(watermark=transactions.get(_WATERMARK), clock=clock, splits=splits)
        return state._forgetful(rule)

    def ahead_limit(self, rule: WatermarkRule, now: Instant) -> Instant:
        """Tuples with a later event time than this are dead letters."""
        return self._clock(now) + rule.ahead_max

    def advanced(
        self,
        rule: WatermarkRule,
        highest: Mapping[str, Instant],
        *,
        waiting: Collection[str],
        now: Instant,
    ) -> "SplitClocks":
        """The state after a step that read, per split, tuples up to this event time.

        `waiting` names the splits that have data which this step did not read.
        """
        clock = self._clock(now)
        limit = clock + rule.ahead_max
        splits = dict(self.splits)
        for name, event_time in highest.items():
            if event_time > limit:
                raise LocalError(
                    f"split {name!r} brought an event time ahead of the ingest clock",
                    detail=f"{event_time} is above the limit {limit}",
                    hint="tuples above ahead_limit go to dead letters and are left out of highest",
                )
            reached = max(event_time - rule.lateness, _INT64_MIN)
            known = self.splits.get(name)
            before = reached if known is None else known.watermark
            splits[name] = SplitClock(watermark=max(before, reached), seen=clock)
        unread = any(name not in splits for name in waiting)
        watermark = self.watermark if unread else self._minimum(rule, splits, waiting, clock)
        moved = SplitClocks(watermark=watermark, clock=clock, splits=splits)
        return moved._forgetful(rule)

    def after_silence(
        self, rule: WatermarkRule, *, waiting: Collection[str], now: Instant
    ) -> "SplitClocks | None":
        """The state after time without data, if it is worth a commit.

        That a split falls idle always is: it happens once, and nobody else may ever move the
        watermark again. What follows the clock is only now and then, for each time is a commit.
        """
        moved = self.advanced(rule, {}, waiting=waiting, now=now)
        before, reached = self.watermark, moved.watermark
        if reached is None or reached == before:
            return None
        still = replace(rule, idle_advances=False)
        by_minimum = self.advanced(still, {}, waiting=waiting, now=now).watermark
        if before is None or by_minimum != before or reached - before >= IDLE_ADVANCE_MIN:
            return moved
        return None

    def changes(self, before: "SplitClocks") -> dict[str, int]:
        """The application transactions that a commit after the state `before` has to write."""
        changed: dict[str, int] = {}
        if self.watermark is not None and self.watermark != before.watermark:
            changed[_WATERMARK] = self.watermark
        if self.clock is not None and self.clock != before.clock:
            changed[_CLOCK] = self.clock
        for name, split in self.splits.items():
            known = before.splits.get(name)
            if known is None or known.watermark != split.watermark:
                changed[_SPLIT + name] = split.watermark
            if known is None or known.seen != split.seen:
                changed[_SEEN + name] = split.seen
        return changed

    def active(self, rule: WatermarkRule) -> tuple[str, ...]:
        """The splits that are not idle as of the last step, by name."""
        clock = self.clock
        if clock is None:
            return ()
        return tuple(
            sorted(
                name for name, split in self.splits.items() if clock - split.seen < rule.idle_after
            )
        )

    def _clock(self, now: Instant) -> Instant:
        return now if self.clock is None else max(self.clock, now)

    def _minimum(
        self,
        rule: WatermarkRule,
        splits: Mapping[str, SplitClock],
        waiting: Collection[str],
        clock: Instant,
    ) -> Instant | None:
        """The stream's watermark over these splits."""
        reached = [] if self.watermark is None else [self.watermark]
        heard_last = max((split.seen for split in splits.values()), default=None)
        if heard_last is not None:
            since = min(clock - rule.idle_after + 1, heard_last)
            active = (
                split.watermark
                for name, split in splits.items()
                if split.seen >= since or name in waiting
            )
            reached.append(min(active))
        silent = heard_last is None or clock - heard_last >= rule.idle_after
        if rule.idle_advances and silent and not waiting:
            reached.append(clock - rule.idle_after - rule.lateness)
        return max(reached, default=None)

    def _forgetful(self, rule: WatermarkRule) -> "SplitClocks":
        """The same without idle splits that can make no difference any more.

        An idle split whose watermark the stream has reached holds the stream, when it comes
        back, exactly where a split never heard of would. The splits heard last are kept, for
        they stay in the minimum. So memory goes with the active splits, not with all there were.
        """
        stream, clock = self.watermark, self.clock
        if stream is None or clock is None:
            return self
        heard_last = max((split.seen for split in self.splits.values()), default=clock)
        since = min(clock - rule.idle_after + 1, heard_last)
        kept = {
            name: split
            for name, split in self.splits.items()
            if split.watermark > stream or split.seen >= since
        }
        return SplitClocks(watermark=stream, clock=clock, splits=kept)
