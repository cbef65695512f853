"""Panes and windows as plans: tuples to panes, panes to coarser panes, panes to windows.

    tuples ─ always ─ group by (pane, keys, filters) ─▶ panes
    panes ─ meet the shapes ─ one row for each due window ─ group by (shape, end, keys) ─▶ windows

A roster of shapes stands for the WHERE constants and the geometry of windows, so rows that share
both are combined once. The windows then meet the real roster as tuples do (select/plan.py): the
shape's number is a key, HAVING the condition. All numbers of a step come as arrays from scalar
subqueries, so the text of the plan, and its code, stays the same from step to step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from shoal.dataplane.rows import FOREVER, RosterRow
from shoal.kernel.time import Instant
from shoal.query.catalog import quote
from shoal.query.windows.plan import (
    ERRORS,
    PANE,
    SHAPE,
    TIME,
    WINDOW_END,
    WINDOW_START,
    Grouped,
    Panes,
    Partial,
    RollUp,
    Shape,
)
from shoal.spark.constants import constants
from shoal.spark.select.index import Member
from shoal.spark.select.plan import MATCH, Meeting
from shoal.spark.select.roster import build as build_roster
from shoal.spark.select.roster import slot
from shoal.spark.windows.due import Wanted, wanted_of

__all__ = ["Shapes", "coarser_frame", "panes_frame", "windows_frame"]

#: What a shape's windows are, as constants of its stand-in after those of WHERE: ends are
#: `base` and whole slides, and those in (after, upto] are wanted.
_GEOMETRY = ("number", "length", "slide", "base", "after", "upto")


def panes_frame(tuples: DataFrame, panes: Panes, *, timestamp: str, grouped: bool) -> DataFrame:
    """The panes of these tuples; not `grouped`: one for each tuple, which means the same."""
    named = tuples.alias("s")
    if panes.always:
        named = named.where(panes.always)
    instant = f"unix_micros(s.{quote(timestamp)})"
    groups = [_pane(instant, panes.pane), *(_as(g.expression, g.name) for g in _groups(panes))]
    errors = f"coalesce({panes.errors}, FALSE)" if panes.errors else "FALSE"
    if not grouped:
        each = [_as(part.each, part.name, part.type) for part in _partials(panes)]
        return named.select(*groups, *each, _as(f"CAST({errors} AS BIGINT)", ERRORS))
    made = [_as(part.make, part.name, part.type) for part in _partials(panes)]
    return named.groupBy(*groups).agg(*made, _as(f"count_if({errors})", ERRORS))


def coarser_frame(
    session: SparkSession, finer: DataFrame, panes: Panes, start: Instant, end: Instant
) -> DataFrame:
    """The panes of this length that begin in [start, end), from finer ones."""
    begins = "unix_micros(_p)"
    within = finer.select("*", constants(session, [start, end]).scalar().alias("_c"))
    within = within.where(f"{begins} >= _c[0] AND {begins} < _c[1]")
    names = [F.col(quote(group.name)) for group in _groups(panes)]
    merged = [_as(part.merge, part.name, part.type) for part in _partials(panes)]
    groups = [_pane(begins, panes.pane), *names]
    return within.groupBy(*groups).agg(*merged, _as(f"sum({ERRORS})", ERRORS))


class Shapes:
    """The shapes of some rows, ready to meet panes. Made when the rows change.

    A shape stands in the roster like a query, its windows among its constants:
    parameters (100, <number>, <length>, <slide>, <base>, <after>, <upto>), see `_GEOMETRY`.
    """

    def __init__(self, session: SparkSession, roll_up: RollUp, rows: Sequence[RosterRow]) -> None:
        panes, where = roll_up.panes, roll_up.where
        columns = (*(key.name for key in panes.keys), *_partial_names(panes), ERRORS)
        shapes = tuple(
            RosterRow(
                query="",
                version=1,
                parameters=(*shape.parameters, *_geometry(shape, wanted)),
                columns=columns,
                since=-1,
            )
            for shape, wanted in wanted_of(rows).items()
        )
        signature = replace(where, holes=(*where.holes, *["BIGINT"] * len(_GEOMETRY)))
        member = Member(instance="shapes", signature=signature, rows=shapes)
        slots = {
            name: f"p.{slot(len(where.holes) + n, 'BIGINT')}" for n, name in enumerate(_GEOMETRY)
        }
        self.meeting = Meeting(build_roster(session, [member]), timestamp=PANE, also=_bounds(slots))


def _geometry(shape: Shape, wanted: Wanted) -> tuple[int, ...]:
    window = shape.window
    base = (window.offset + window.length) % window.slide
    return (shape.number, window.length, window.slide, base, wanted.after, wanted.upto)


def _bounds(p: Mapping[str, str]) -> list[str]:
    """The due ends e of a pane's windows are those in (_x, _y], a slide apart."""
    begin = "unix_micros(s._p)"
    earliest = f"s._c[2] + {p['length']} - 1"
    return [
        f"{p['number']} AS {SHAPE}",
        f"{p['length']} AS _length",
        f"{p['slide']} AS _slide",
        f"{p['base']} AS _base",
        f"greatest({begin}, s._c[0], {earliest}, {p['after']}) AS _x",
        f"least({begin} + {p['length']}, s._c[1], {p['upto']}) AS _y",
    ]


def windows_frame(
    session: SparkSession,
    panes: DataFrame,
    roll_up: RollUp,
    shapes: Shapes,
    *,
    after: Instant,
    upto: Instant,
    whole: Instant,
) -> DataFrame:
    """The windows that end in (after, upto]: the results' columns, `_shape`, `_step` and `_id`."""
    numbers = constants(session, [after, upto, whole]).scalar().alias("_c")
    met = shapes.meeting.results(panes.select("*", numbers))
    if MATCH in met.columns:
        met = met.where(MATCH)
    names = [quote(key.name) for key in roll_up.panes.keys]
    carried = [*names, *(quote(name) for name in _partial_names(roll_up.panes)), ERRORS]
    first = "_x + _slide - pmod(_x - _base, _slide)"
    last = "_y - pmod(_y - _base, _slide)"
    spread = met.where(f"{first} <= {last}").selectExpr(
        *carried, SHAPE, "_length", f"explode(sequence({first}, {last}, _slide)) AS _end"
    )
    merged = [_as(p.merge, p.name, p.type) for p in _partials(roll_up.panes)]
    groups = [SHAPE, "_length", "_end", *names]
    windows = spread.groupBy(*groups).agg(*merged, _as(f"sum({ERRORS})", ERRORS))
    # A hash passes over NULL, and would take one key's NULL for another's.
    identity = [SHAPE, "_end", *(part for name in names for part in (name, f"isnull({name})"))]
    return windows.select(
        _as("timestamp_micros(_end - _length)", WINDOW_START),
        _as("timestamp_micros(_end)", WINDOW_END),
        *names,
        *(_as(m.final, m.name, m.type) for m in roll_up.panes.measures),
        _as("timestamp_micros(_end - 1)", TIME),
        ERRORS,
        SHAPE,
        _as(f"xxhash64({', '.join(identity)})", "_id"),
        # Rows go by event time alone (rollup.py), so every window is of a step that all have.
        _as(f"{FOREVER}L", "_step"),
    )


def _pane(instant: str, length: int) -> Column:
    return F.expr(f"timestamp_micros({instant} - pmod({instant}, {length})) AS {PANE}")


def _as(expression: str, name: str, kind: str = "") -> Column:
    text = f"CAST({expression} AS {kind})" if kind else expression
    return F.expr(text).alias(name)


def _groups(panes: Panes) -> list[Grouped]:
    return [*panes.keys, *panes.filters]


def _partials(panes: Panes) -> list[Partial]:
    return [partial for measure in panes.measures for partial in measure.partials]


def _partial_names(panes: Panes) -> list[str]:
    return [partial.name for partial in _partials(panes)]
