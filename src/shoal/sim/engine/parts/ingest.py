"""An ingest component: a source's tuples are numbered, judged and committed, as in spark/ingest.

    source ─▶ batch ─▶ judged: ok, late, dead ─▶ dead letters, then the step, committed

Watermarks are the log's own arithmetic (log/watermark.py).

Promises   Q2  a batch is a function of its range, and its verdict is in the commit: a stream that
               is not stored is read again as it was judged.
           S3  late and dead tuples are counted in the commit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.dataplane.commands import Ingest
from shoal.dataplane.rows import ALWAYS
from shoal.kernel.ids import tuple_id
from shoal.kernel.time import Instant
from shoal.log.watermark import SplitClocks, WatermarkRule
from shoal.query.catalog import StreamDef
from shoal.sim.engine.config import EngineConfig
from shoal.sim.engine.memory import Commit, Item, Memory, Table, Volume
from shoal.sim.engine.parts.sources import Batch, Source, check_source, open_source

__all__ = ["IngestComponent", "IngestWork", "open_ingest", "reread"]

#: The event-time column of a stream that has none of its own.
INGEST_TIME = "_ts"


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The numbers by which one source commit judges its tuples."""

    step: int
    watermark: int
    ahead_limit: int
    stamp: int


@dataclass(slots=True)
class _Judged:
    """What became of a batch."""

    ok: list[Item]
    late: list[Item]
    dead: list[tuple[str, str, object]]
    highest: dict[str, Instant]
    volume: Volume | None
    late_rows: int
    dead_rows: int

    @property
    def ok_rows(self) -> int:
        return len(self.ok) if self.volume is None else self.volume.rows

    @property
    def highest_ok(self) -> Instant | None:
        if self.volume is not None:
            return self.volume.latest if self.volume.rows else None
        return max((item[0] for item in self.ok), default=None)


@dataclass(frozen=True, slots=True)
class IngestWork:
    """A step about to run: what it read and when it began."""

    batch: Batch
    verdict: _Verdict
    judged: _Judged
    clock: Instant


class IngestComponent:
    """One source stream on one peer."""

    kind = "ingest"

    def __init__(
        self,
        spec: Ingest,
        table: Table,
        dead: Table,
        source: Source,
        *,
        epoch: int,
        weight: float,
        config: EngineConfig,
    ) -> None:
        self.spec = spec
        self.instance = spec.instance
        self.table = table
        self.epoch = epoch
        self.weight = weight
        self.running = False
        self.look_at: Instant = 0
        #: Everything that the source had at this instant is committed.
        self.looked: Instant = 0
        self._dead = dead
        self._dead_epoch = dead.take_over()
        self._source = source
        self._config = config
        self._wait = config.poll_first
        self._rule = WatermarkRule.of(
            lateness=spec.stream.lateness, idle_advances=spec.stream.idle_advances
        )
        #: What this owner has committed; the table may have another owner by now.
        self.transactions = dict(table.transactions)
        self.step = table.step
        self._clocks = SplitClocks.restored(self.transactions, self._rule)

    @property
    def position(self) -> int:
        return self.transactions.get("in/source", 0)

    def look(self, now: Instant) -> IngestWork | None:
        """The next step, read and judged; None if the source has nothing."""
        batch = self._source.next_batch(self.position, now)
        if batch is None:
            return None
        clock = max(now, self._clocks.clock or now)
        watermark = self._clocks.watermark
        verdict = _Verdict(
            step=self.step + 1,
            watermark=ALWAYS if watermark is None else watermark,
            ahead_limit=self._clocks.ahead_limit(self._rule, clock),
            stamp=max(clock, self.transactions.get("evmax", ALWAYS) + 1),
        )
        return IngestWork(batch, verdict, _judge(batch, self.spec.stream, verdict), clock)

    def found_nothing(self, now: Instant) -> Commit | None:
        """Look again a little later; meanwhile the watermark may move by itself."""
        self.looked = now
        self.look_at = now + self._wait
        self._wait = min(self._config.poll_most, 2 * self._wait)
        waiting = self._source.waiting(self.position)
        clocks = self._clocks.after_silence(self._rule, waiting=waiting, now=now)
        if clocks is None or clocks.watermark is None:
            return None
        facts = {"wm": clocks.watermark, "rows": 0, "in/from": self.position}
        known = self.transactions
        facts |= {key: known[key] for key in ("in/source", "evmax") if key in known}
        done = self._append({**clocks.changes(self._clocks), **facts}, rows=0, items=(), wall=now)
        self._clocks = clocks
        return done

    def commit(self, work: IngestWork, began: Instant, now: Instant) -> Commit:
        """Dead letters first, then the step; afterwards the source may forget what it brought."""
        judged, batch = work.judged, work.batch
        if judged.dead_rows:
            self._bury(work, now)
        clocks = self._clocks.advanced(
            self._rule,
            judged.highest,
            waiting=self._source.waiting(batch.upto),
            now=work.clock,
        )
        before = self.transactions
        totals = {"in": batch.rows, "late": judged.late_rows, "dead": judged.dead_rows}
        verdict = work.verdict
        changes = {
            **clocks.changes(self._clocks),
            "judge/watermark": verdict.watermark,
            "judge/ahead": verdict.ahead_limit,
            "judge/stamp": verdict.stamp,
            **{f"n/{key}": before.get(f"n/{key}", 0) + n for key, n in totals.items()},
            "in/from": batch.after,
            "in/source": batch.upto,
            "rows": judged.ok_rows,
        }
        if clocks.watermark is not None:
            changes["wm"] = clocks.watermark
        known = [t for t in (before.get("evmax"), judged.highest_ok) if t is not None]
        if known:
            changes["evmax"] = max(known)
        stored = self.spec.stream.store
        items = judged.volume if judged.volume is not None else tuple(judged.ok)
        done = self._append(
            changes,
            rows=judged.ok_rows,
            items=items if stored or judged.volume is not None else None,
            late=tuple(judged.late) if stored else (),
            wall=now,
        )
        self._clocks = clocks
        self._source.release(batch.upto)
        if not self._source.waiting(batch.upto):
            self.looked = began
        self._wait = self._config.poll_first
        self.look_at = 0
        return done

    def _bury(self, work: IngestWork, now: Instant) -> None:
        dead = self._dead
        if dead.transactions.get("of") == work.verdict.step:
            return
        letters = Commit(
            epoch=self._dead_epoch,
            step=dead.step + 1,
            transactions={"of": work.verdict.step, "in/source": work.batch.upto},
            rows=work.judged.dead_rows,
            items=tuple(
                (now, number, {"reason": reason, "content": content, "split": split})
                for number, (reason, split, content) in enumerate(work.judged.dead)
            ),
            wall=now,
        )
        dead.append(letters)

    def _append(
        self,
        changes: dict[str, int],
        *,
        rows: int,
        items: tuple[Item, ...] | Volume | None,
        wall: Instant,
        late: tuple[Item, ...] = (),
    ) -> Commit:
        done = Commit(
            epoch=self.epoch,
            step=self.step + 1,
            transactions=changes,
            rows=rows,
            items=items,
            late=late,
            wall=wall,
        )
        self.table.append(done)
        self.step = done.step
        self.transactions.update(changes)
        return done


def _judge(batch: Batch, stream: StreamDef, verdict: _Verdict) -> _Judged:
    """ok, late or dead: malformed, without event time, or too far ahead of the clock."""
    out = _Judged([], [], [], {}, None, 0, 0)
    ordinal = 0
    for split, content in batch.parts:
        if isinstance(content, Volume):
            _judge_volume(out, split, content, verdict)
            continue
        for found in content:
            ordinal += 1
            _judge_one(out, split, found, ordinal - 1, stream, verdict)
    return out


def _judge_volume(out: _Judged, split: str, content: Volume, verdict: _Verdict) -> None:
    """Volumes are judged whole, by their latest event time."""
    if content.latest > verdict.ahead_limit:
        out.dead_rows += content.rows
        return
    out.highest[split] = max(content.latest, out.highest.get(split, content.latest))
    if content.latest < verdict.watermark:
        out.late_rows += content.rows
        return
    known = out.volume
    if known is None:
        out.volume = content
        return
    out.volume = Volume(
        known.rows + content.rows,
        min(known.earliest, content.earliest),
        max(known.latest, content.latest),
    )


def _judge_one(
    out: _Judged,
    split: str,
    found: Mapping[str, Any] | str,
    ordinal: int,
    stream: StreamDef,
    verdict: _Verdict,
) -> None:
    reason = ""
    at: Instant | None = None
    if isinstance(found, str):
        reason = "malformed"
    else:
        at = found.get(stream.timestamp) if stream.timestamp else verdict.stamp
        if at is None:
            reason = "without event time"
        elif at > verdict.ahead_limit:
            reason = "ahead of the clock"
    if reason or at is None or isinstance(found, str):
        out.dead.append((reason, split, found))
        out.dead_rows += 1
        return
    values = {column.name: found.get(column.name) for column in stream.columns}
    if not stream.timestamp:
        values[INGEST_TIME] = at
    item = (at, tuple_id(step=verdict.step, ordinal=ordinal), values)
    out.highest[split] = max(at, out.highest.get(split, at))
    if at < verdict.watermark:
        out.late.append(item)
        out.late_rows += 1
    else:
        out.ok.append(item)


def open_ingest(
    memory: Memory, spec: Ingest, *, weight: float, now: Instant, config: EngineConfig
) -> IngestComponent:
    """Become the owner of the stream's table; it is created where there is none."""
    table = memory.table(spec.instance)
    check_source(spec.stream.source)
    epoch = table.take_over()
    if "started" not in table.transactions:
        first = {"started": now, "rows": 0}
        table.append(
            Commit(epoch=epoch, step=table.step + 1, transactions=first, rows=0, items=(), wall=now)
        )
    return IngestComponent(
        spec,
        table,
        memory.table(f"{spec.instance}.dead"),
        open_source(memory, spec.instance, spec.stream, config),
        epoch=epoch,
        weight=weight,
        config=config,
    )


def reread(
    memory: Memory, instance: str, stream: StreamDef, commit: Commit, config: EngineConfig
) -> tuple[Item, ...]:
    """The `ok` tuples of a commit that does not hold them, read again and judged as recorded."""
    known = commit.transactions
    if "in/source" not in known or "judge/ahead" not in known:
        return ()
    source = open_source(memory, instance, stream, config)
    verdict = _Verdict(
        step=commit.step,
        watermark=known["judge/watermark"],
        ahead_limit=known["judge/ahead"],
        stamp=known["judge/stamp"],
    )
    return tuple(_judge(source.batch(known["in/from"], known["in/source"]), stream, verdict).ok)
