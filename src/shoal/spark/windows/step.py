"""One step of panes, of coarser panes, or of a roll-up: one Spark job, one segment, one commit.

    panes      the tuples of some commits ─▶ partials
    coarser    finer panes whose coarser one the watermark has passed ─▶ partials
    roll-up    panes of the windows that are due ─▶ windows ─▶ the rows' results

How far a coarser step or a roll-up gets is decided here, from what lies in the panes' table:
a jump of the watermark is done in pieces. Where nothing lies there, there is no job.

Promises   L1 L2  the segment of a step becomes visible in one commit, under its number.
           Q2     what is computed is a function of the table and the event time alone.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from shoal.dataplane.commands import RollUp
from shoal.dataplane.rows import RosterRow
from shoal.kernel.errors import Fenced
from shoal.kernel.ids import ORDINAL_BITS
from shoal.kernel.time import Instant
from shoal.log.root import Root
from shoal.log.segment import Segment, write_segment
from shoal.log.types import arrow_type
from shoal.log.writer import Writer
from shoal.query.windows import plan as signatures
from shoal.query.windows.plan import PANE, WINDOW_END
from shoal.query.windows.shape import Window
from shoal.spark.outcome import Laps, StepFailed, StepOutcome, wall_stamp
from shoal.spark.select import step as select_step
from shoal.spark.select.bisect import Guilty, bisect
from shoal.spark.select.step import Rosters, SelectWork
from shoal.spark.windows.due import Due, Wanted, cut, span_of, wanted_of
from shoal.spark.windows.plan import Shapes, coarser_frame, panes_frame, windows_frame
from shoal.spark.windows.shelf import WHOLE, Shelf, look, tasks_for

__all__ = [
    "ROWS_COMBINED",
    "CoarserWork",
    "KnownShapes",
    "PanesWork",
    "RollUpWork",
    "find_guilty",
    "make_coarser",
    "make_panes",
    "panes_schema",
    "roll_up",
]

#: Rows that one step combines, unless one window alone has more: some seconds of one core, and
#: memory for as many results. A guess.
ROWS_COMBINED = 2_000_000
#: Roll-ups whose shapes are kept as frames.
SHAPES_KEPT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PanesWork:
    """A step that groups tuples: what to make of them, and who commits it."""

    instance: str
    panes: signatures.Panes
    writer: Writer
    timestamp: str
    rows_in: int
    #: False: a partial for each tuple, because grouping saves little.
    grouped: bool
    transactions: Mapping[str, int] = field(hash=False)
    source_committed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoarserWork:
    """A step that merges finer panes: those that are due, or a first part of them."""

    instance: str
    panes: signatures.Panes
    writer: Writer
    due: Due
    source_committed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RollUpWork:
    """A step of a roll-up; of one row's history where there is a `fill`."""

    spec: RollUp
    select: SelectWork
    due: Due
    fill: str


class KnownShapes:
    """Shapes as frames, kept until the rows change; a component hands over the same tuple."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[tuple[RosterRow, ...], Shapes]] = {}

    def of(self, session: SparkSession, work: RollUpWork) -> Shapes:
        """The shapes of the work's rows."""
        name, rows = work.spec.instance, work.select.rows
        if work.fill:
            return Shapes(session, work.spec.roll_up, rows)
        known = self._kept.get(name)
        if known is None or known[0] is not rows:
            known = (rows, Shapes(session, work.spec.roll_up, rows))
            if len(self._kept) >= SHAPES_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[name] = known
        return known[1]


# Panes


def make_panes(
    session: SparkSession, work: PanesWork, tuples: Callable[[], DataFrame]
) -> StepOutcome | StepFailed:
    """One step over a range of tuples."""
    clock = Laps()
    try:
        frame = tuples().coalesce(tasks_for(session, work.rows_in))
        panes = panes_frame(frame, work.panes, timestamp=work.timestamp, grouped=work.grouped)
        clock.enter("job")
        rows = panes.toArrow()
        return _committed(work, rows, work.transactions, clock, rows_in=work.rows_in)
    except Exception as error:  # noqa: BLE001 - a worker hands every failure to the engine
        return _failed(work.instance, clock, error)


def make_coarser(session: SparkSession, root: Root, work: CoarserWork) -> StepOutcome | StepFailed:
    """One step over the finer panes that are due."""
    clock = Laps()
    try:
        length = work.panes.pane
        tumbling = Window(length=length, slide=length, offset=0)
        wanted = (Wanted(window=tumbling, after=work.due.done, upto=work.due.reached),)
        shelf = look(root, work.due.instance)
        upto = cut(wanted, work.due, shelf.extents, copies=1, rows_max=ROWS_COMBINED)
        span = span_of(wanted, work.due.done, upto)
        finer = None if span is None else shelf.frame(session, work.panes, *span)
        rows = panes_schema(work.panes).empty_table()
        rows_in = 0
        if span is not None and finer is not None:
            rows_in = shelf.rows(*span)
            frame = coarser_frame(session, finer, work.panes, *span)
            clock.enter("job")
            rows = frame.toArrow()
        return _committed(work, rows, work.due.facts(upto), clock, rows_in=rows_in)
    except Exception as error:  # noqa: BLE001 - a worker hands every failure to the engine
        return _failed(work.instance, clock, error)


def panes_schema(panes: signatures.Panes) -> pa.Schema:
    """The columns of a panes table."""
    return pa.schema(
        [
            *((column.name, arrow_type(column.type)) for column in panes.columns()),
            ("_step", pa.int64()),
            ("_id", pa.int64()),
        ]
    )


def _committed(
    work: PanesWork | CoarserWork,
    rows: pa.Table,
    transactions: Mapping[str, int],
    clock: Laps,
    *,
    rows_in: int,
) -> StepOutcome:
    """Write the panes as one segment, and commit."""
    clock.enter("write")
    segments = _written(work, rows)
    clock.enter("commit")
    info = wall_stamp() | {"source": str(work.source_committed)}
    commit = work.writer.commit(
        step=work.writer.step + 1, segments=segments, transactions=transactions, info=info
    )
    clock.leave()
    return StepOutcome(
        instance=work.instance,
        commit=commit,
        rows_in=rows_in,
        rows_out=rows.num_rows,
        source_committed=work.source_committed,
        busy=sum(clock.seconds.values()),
        seconds=clock.seconds,
    )


def _written(work: PanesWork | CoarserWork, rows: pa.Table) -> list[Segment]:
    if not rows.num_rows:
        return []
    writer, size = work.writer, rows.num_rows
    step = writer.step + 1
    rows = rows.sort_by(PANE)
    rows = rows.append_column("_step", pa.repeat(pa.scalar(step, pa.int64()), size))
    first = step << ORDINAL_BITS
    rows = rows.append_column("_id", pa.array(range(first, first + size), pa.int64()))
    rows = rows.cast(panes_schema(work.panes))
    return [write_segment(writer.table, rows, epoch=writer.epoch, step=step, part=0, partition={})]


def _failed(instance: str, clock: Laps, error: Exception) -> StepFailed:
    fenced = isinstance(error, Fenced)
    return StepFailed(instance=instance, phase=clock.phase, cause=error, fenced=fenced)


# Roll-ups


@dataclass(frozen=True, slots=True)
class _Piece:
    """What one step of a roll-up does: windows up to an instant, and the panes they cover."""

    shelf: Shelf
    upto: Instant
    span: tuple[Instant, Instant] | None


def roll_up(
    session: SparkSession,
    root: Root,
    work: RollUpWork,
    *,
    rosters: Rosters,
    shapes: KnownShapes,
    commits: Executor,
) -> Sequence[StepOutcome | StepFailed]:
    """One step over the windows that are due."""
    clock = Laps()
    select = work.select
    rows_in = 0
    try:
        piece = _piece(root, work)
        panes = _panes_of(session, work, piece)
        facts = {work.fill: piece.upto}
        if not work.fill:
            facts = work.due.facts(piece.upto) | {WHOLE: piece.shelf.whole}
        select = replace(select, transactions={**select.transactions, **facts})
        computed = select_step.nothing([select])
        if panes is not None and piece.span is not None:
            rows_in = piece.shelf.rows(*piece.span)
            known = shapes.of(session, work)
            computed = select_step.compute(
                session,
                rosters,
                [select],
                lambda: _windows(session, work, piece, known, panes),
                timestamp=WINDOW_END,
                clock=clock,
            )
    except Exception as error:  # noqa: BLE001 - a worker hands every failure to the engine
        return [_failed(work.select.instance, clock, error)]
    if work.fill:
        select = replace(select, rows_history=rows_in)
    return select_step.commit_all([select], computed, rows_in=rows_in, commits=commits, clock=clock)


def find_guilty(session: SparkSession, root: Root, work: RollUpWork) -> Guilty:
    """The rows that make the step fail, by their constants of WHERE or of HAVING."""

    def survives(rows: Sequence[RosterRow]) -> Exception | None:
        try:
            piece = _piece(root, work)
            panes = _panes_of(session, work, piece)
            if panes is None:
                return None
            if not rows:
                panes.write.format("noop").mode("overwrite").save()
                return None
            shapes = Shapes(session, work.spec.roll_up, rows)
            return select_step.survives(
                session,
                work.select,
                rows,
                lambda: _windows(session, work, piece, shapes, panes),
                timestamp=WINDOW_END,
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            return error

    return bisect(work.select.instance, work.select.rows, survives)


def _piece(root: Root, work: RollUpWork) -> _Piece:
    """How far this step goes: all that is due, unless that is too much at once."""
    shelf = look(root, work.spec.input)
    wanted = tuple(wanted_of(work.select.rows).values())
    windows = dict.fromkeys(one.window for one in wanted)
    # Rows that are found by a key share the panes among them; others look at all of them.
    every = not work.spec.roll_up.where.keys
    copies = -(-len(wanted) // max(1, len(windows))) if every else 1
    upto = cut(wanted, work.due, shelf.extents, copies=copies, rows_max=ROWS_COMBINED)
    span = span_of(wanted, work.due.done, upto)
    return _Piece(shelf, upto, span)


def _panes_of(session: SparkSession, work: RollUpWork, piece: _Piece) -> DataFrame | None:
    if piece.span is None:
        return None
    return piece.shelf.frame(session, work.spec.roll_up.panes, *piece.span)


def _windows(
    session: SparkSession, work: RollUpWork, piece: _Piece, shapes: Shapes, panes: DataFrame
) -> DataFrame:
    return windows_frame(
        session,
        panes,
        work.spec.roll_up,
        shapes,
        after=work.due.done,
        upto=piece.upto,
        whole=piece.shelf.whole,
    )
