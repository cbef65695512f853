"""The result of reading a windowed query: panes and roll-up to share, a row of its own. Types only.

    text      SELECT zone, avg(kwh) * 1.1 AS mean FROM readings
              WHERE meter < 100 AND kwh IS NOT NULL
              GROUP BY zone, window(ts, '10 minutes', '1 minute') HAVING avg(kwh) > 3.5
    panes     keys (k0 = s.`zone`), filters (f0 = s.`meter`), always (s.`kwh` IS NOT NULL),
              measures (a0 = avg of s.`kwh`: partials a0_s and a0_n), pane of 1 min
    where     a Signature over panes' columns:    (s.`f0` < p.`p0`), parameters (100,)
    having    a Signature over windows' columns:  (s.`_shape` = p.`p0`) AND (s.`a0` > p.`p1`)
    window    Window(length=600 s, slide=60 s, offset=0)
    outputs   zone: s.`k0`, mean: (s.`a0` * 1.1)

Columns of a panes table:  `_p` (the pane's start), keys, filters, partials, `_errors`, `_step`,
                           `_id`
Columns of a roll-up's:    `_query`, `_version`, `window_start`, `window_end`, keys, measures,
                           `_time` (end less a microsecond), `_errors`, `_step`, `_id`

Promises   plain data: it can be compared, hashed, and written as JSON; no constant that WHERE or
           HAVING compares with is inside `Panes` or `RollUp`, so queries that differ in those only
           share both. Constants in keys, arguments and FILTER are part of the text.
Not here   making them from text; running them (`spark/windows/`).
"""

from dataclasses import dataclass

from shoal.kernel.ids import instance_of, key_of
from shoal.query.catalog import Column
from shoal.query.selection import Selection, Signature, Value
from shoal.query.windows.shape import Window

__all__ = [
    "ERRORS",
    "PANE",
    "SHAPE",
    "TIME",
    "WINDOW_END",
    "WINDOW_START",
    "Grouped",
    "Measure",
    "Output",
    "Panes",
    "Partial",
    "Projected",
    "RollUp",
    "Shape",
    "Windowed",
]

#: Start of a pane, TIMESTAMP.
PANE = "_p"
#: Tuples of a pane, or of a window, for which an argument or a key could not be computed, BIGINT.
ERRORS = "_errors"
#: Number of a window's shape, BIGINT; only between merging and the roster.
SHAPE = "_shape"
WINDOW_START, WINDOW_END = "window_start", "window_end"
#: Event time of a window's row: its end less one microsecond.
TIME = "_time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped:
    """An expression over `s.<column>` of the tuple that panes are grouped by; it never throws."""

    name: str
    expression: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """A column of panes: `make` aggregates tuples (over `s.<column>`), `merge` panes.

    `merge` is an aggregate over panes' columns, and may read any partial of its measure: a merged
    mean needs the counts. `each` is what `make` gives for one tuple alone, as an expression over
    it that is no aggregate and never throws; "" where there is none (a sketch), and then tuples
    are always grouped.

    Partial(name='a0_s', type='DOUBLE', make='sum(CAST(s.`kwh` AS DOUBLE))', merge='sum(`a0_s`)',
            each='CAST(s.`kwh` AS DOUBLE)')
    """

    name: str
    type: str
    make: str
    merge: str
    each: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """An aggregate: what panes keep of it, and its value as an expression over merged partials.

    `final` never throws; where the value cannot be computed (an overflow) it is NULL.
    """

    name: str
    type: str
    partials: tuple[Partial, ...]
    final: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panes:
    """The signature of a panes component: `pane` microseconds long, no constants.

    `always` and `errors` are conditions over `s.<column>`, "" if there is none: tuples that count
    at all; tuples for which something could not be computed. `reads` is the canonical name of what
    it reads.
    """

    stream: str
    reads: str
    pane: int
    keys: tuple[Grouped, ...]
    filters: tuple[Grouped, ...]
    always: str
    errors: str
    measures: tuple[Measure, ...]
    name: str

    @property
    def key(self) -> str:
        """The SHA-1 of the name: 40 hexadecimal digits."""
        return key_of(self.name)

    @property
    def instance(self) -> str:
        """The identity of the component that makes them."""
        return instance_of("panes", self.name)

    def columns(self) -> tuple[Column, ...]:
        """Columns of the panes table, but for `_step` and `_id`."""
        partials = [partial for measure in self.measures for partial in measure.partials]
        return (
            Column(name=PANE, type="TIMESTAMP"),
            *(Column(name=part.name, type=part.type) for part in (*self.keys, *self.filters)),
            *(Column(name=part.name, type=part.type) for part in partials),
            Column(name=ERRORS, type="BIGINT"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RollUp:
    """The signature of a roll-up over these panes: what is filtered, merged and compared.

    `where` reads the panes' filter columns as `s.f<n>`; `having` reads `s._shape`, the window's
    bounds, keys and measures; its first hole is the shape's number.
    """

    panes: Panes
    where: Signature
    having: Signature
    name: str

    @property
    def key(self) -> str:
        """The SHA-1 of the name: 40 hexadecimal digits."""
        return key_of(self.name)

    @property
    def instance(self) -> str:
        """The identity of the component that runs it."""
        return instance_of("rollup", self.name)

    def columns(self) -> tuple[Column, ...]:
        """Columns of the results table, but for `_query`, `_version`, `_step` and `_id`."""
        return (
            Column(name=WINDOW_START, type="TIMESTAMP"),
            Column(name=WINDOW_END, type="TIMESTAMP"),
            *(Column(name=key.name, type=key.type) for key in self.panes.keys),
            *(Column(name=measure.name, type=measure.type) for measure in self.panes.measures),
            Column(name=TIME, type="TIMESTAMP"),
            Column(name=ERRORS, type="BIGINT"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What rows share whose windows are combined once: the windows and the constants of WHERE."""

    window: Window
    parameters: tuple[Value, ...]

    @property
    def number(self) -> int:
        """64 bits that name it: the same on every peer and in every run."""
        text = f"{self.window.length} {self.window.slide} {self.window.offset} {self.parameters!r}"
        return int(key_of(text)[:16], 16) - (1 << 63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A column of a query's result: its name, and an expression over the columns of the table."""

    name: str
    expression: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Windowed:
    """One windowed query: what it shares, and what is its own."""

    roll_up: RollUp
    shape: Shape
    #: Of HAVING, after the shape's number.
    parameters: tuple[Value, ...]
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Projected:
    """One query without windows: its selection, and its select list over the selected columns."""

    selection: Selection
    outputs: tuple[Output, ...]
