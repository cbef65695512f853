"""Which tuples are ok, late or dead: worked out again from the files and the commits' batches.

The commits are read from the table's JSON entries; nothing of Shoal's reading, judging or
watermark code is used. The rule is DESIGN.md section 7: a tuple is late when it is older than the
stream's watermark before its commit; a commit's watermark is the minimum over the splits heard
within `idle_after` of the ingest clock, of the highest event time minus the lateness.

Not here   what queries make of the ok tuples (checker.py).
"""

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.oracle.world import File, Tuple

__all__ = ["Entry", "Judged", "entries", "judge", "newest", "place_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = 3_600_000_000
_STEP_BITS = 40
_ALWAYS = -(1 << 62)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One step of a table, as its entry says: what it changed, and the state after it."""

    epoch: int
    step: int
    changed: Mapping[str, int]
    state: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A tuple with the step that brought it and what became of it."""

    values: Tuple | None
    step: int
    kind: str
    reason: str


def entries(table: Path) -> list[Entry]:
    """The steps of a table, in order; a take-over and a compaction are none."""
    state: dict[str, int] = {}
    found: list[Entry] = []
    for path in sorted(_files(table), key=lambda path: path.name):
        changed = _changed(path)
        state |= changed
        mark = changed.get("shoal")
        if mark is None:
            continue
        epoch, step = mark >> _STEP_BITS, mark & ((1 << _STEP_BITS) - 1)
        if step > (found[-1].step if found else 0):
            found.append(Entry(epoch=epoch, step=step, changed=changed, state=dict(state)))
    return found


def _files(table: Path) -> list[Path]:
    """The entries of the log, and those that were trimmed from it and are kept for a while."""
    folders = (table / "_delta_log", table / "_history")
    return list({p.name: p for folder in folders for p in folder.glob("*.json")}.values())


def newest(table: Path, prefix: str) -> dict[str, int]:
    """The application transactions of the newest entry that has one with this prefix.

    Also of a table that is being written; empty where there is none.
    """
    for folder in (table / "_delta_log", table / "_history"):
        names = (path for path in folder.glob("*.json") if path.stem.isdigit())
        for path in sorted(names, key=lambda path: path.name, reverse=True):
            changed = _changed(path)
            if any(name.startswith(prefix) for name in changed):
                return changed
    return {}


def _changed(path: Path) -> dict[str, int]:
    """The application transactions of an entry; none where it was moved to the history."""
    with contextlib.suppress(FileNotFoundError):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        return {a["txn"]["appId"]: a["txn"]["version"] for a in actions if "txn" in a}
    return {}


def place_of(table: Path) -> tuple[int, int]:
    """The epoch and the step that a table has reached; (0, 0) before its first owner."""
    mark = newest(table, "shoal").get("shoal", 0)
    return mark >> _STEP_BITS, mark & ((1 << _STEP_BITS) - 1)


def micros(instant: datetime) -> int:
    """Microseconds since the epoch."""
    return (instant - _EPOCH) // timedelta(microseconds=1)


class _Clocks:
    """The watermark rule over splits."""

    def __init__(self, lateness: int) -> None:
        self.lateness = lateness
        self.idle_after = max(2 * lateness, 5_000_000)
        self.splits: dict[str, tuple[int, int]] = {}
        self.watermark: int | None = None

    def heard(self, highest: Mapping[str, int], clock: int) -> None:
        """Take in a commit that read up to these event times."""
        for split, most in highest.items():
            before = self.splits.get(split, (most - self.lateness, 0))[0]
            self.splits[split] = (max(before, most - self.lateness), clock)

    def reached(self, waiting: Iterable[str], clock: int) -> int | None:
        """The watermark after it, while these splits wait to be read."""
        if not self.splits or any(split not in self.splits for split in waiting):
            return self.watermark
        last = max(seen for _, seen in self.splits.values())
        active = [
            reached
            for split, (reached, seen) in self.splits.items()
            if clock - seen < self.idle_after or seen == last or split in waiting
        ]
        lowest = min(active)
        return lowest if self.watermark is None else max(self.watermark, lowest)


def judge(table: Path, files: Sequence[File], *, lateness: int) -> list[Judged]:
    """Every tuple of the files that were committed, judged. Complains of commits that differ."""
    clocks = _Clocks(lateness)
    judged: list[Judged] = []
    for entry in entries(table):
        if "in/source" not in entry.changed:
            continue
        after, upto = entry.changed["in/from"], entry.changed["in/source"]
        clock = entry.state.get("clock", 0)
        recorded = entry.changed.get("judge/watermark")
        before = _ALWAYS if clocks.watermark is None else clocks.watermark
        assert recorded in (None, before), f"Q1: watermark before step {entry.step}"
        found = [
            (file.split, _judged(values, entry.step, clocks.watermark, clock + _HOUR))
            for file in files[after:upto]
            for values in file.tuples
        ]
        judged += [one for _, one in found]
        highest: dict[str, int] = {}
        for split, one in found:
            if one.kind != "dead" and one.values is not None:
                ts = micros(one.values["ts"])
                highest[split] = max(highest.get(split, ts), ts)
        clocks.heard(highest, clock)
        allowed = [clocks.reached(waiting, clock) for waiting in _waiting(files, upto)]
        clocks.watermark = entry.state.get("wm")
        assert clocks.watermark in allowed, f"Q1: watermark after step {entry.step}"
    return judged


def _waiting(files: Sequence[File], upto: int) -> list[tuple[str, ...]]:
    """Splits that may have waited, found but not read: a round of files appears at one instant.

    A pushed batch is found when it is pushed, so any number of those to come may have waited.
    """
    if not upto:
        return [()]
    if not files[upto - 1].pushed:
        now = files[upto - 1].round
        return [tuple(file.split for file in files[upto:] if file.round <= now)]
    unread = [file.split for file in files[upto:]]
    return list(dict.fromkeys(tuple(dict.fromkeys(unread[:n])) for n in range(len(unread) + 1)))


def _judged(values: Tuple | None, step: int, watermark: int | None, limit: int) -> Judged:
    kind, reason = _verdict(values, watermark, limit)
    return Judged(values=values, step=step, kind=kind, reason=reason)


def _verdict(values: Tuple | None, watermark: int | None, limit: int) -> tuple[str, str]:
    if values is None:
        return ("dead", "malformed")
    if values["ts"] is None:
        return ("dead", "without event time")
    ts = micros(values["ts"])
    if ts > limit:
        return ("dead", "ahead of the clock")
    return ("late", "") if watermark is not None and ts < watermark else ("ok", "")
