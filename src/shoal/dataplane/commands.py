"""What control may ask of an engine. Commands are data; an engine answers each one once.

    Start, TakeOver   run a component here; both end with this engine as its only owner (L3)
    Stop              let go of it; its table stays as it is
    AddRows           queries join a component
    ReplaceRow        a query changes; from one instant on its new row counts, maybe elsewhere
    DropRow           a query ends
    SetKeep           a query looks at a smaller share of the tuples, or at all again
    Analyze           let the engine type an expression

`Start` creates the component's table where there is none; `TakeOver` refuses if there is none,
because then there is nothing to take over and the caller's picture is wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.dataplane.rows import RosterRow
from shoal.kernel.time import Instant
from shoal.query.catalog import StreamDef
from shoal.query.selection import Signature

__all__ = [
    "AddRows",
    "Analyze",
    "Command",
    "Component",
    "Deliver",
    "DropRow",
    "Ingest",
    "ReplaceRow",
    "Select",
    "SetKeep",
    "Sink",
    "Start",
    "Stop",
    "TakeOver",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """Copy a source into the log, or index it (STORE NONE)."""

    instance: str
    stream: StreamDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """Serve all selections of one signature over one stream."""

    instance: str
    input: str
    stream: StreamDef
    signature: Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Where results go: kind is files, delta, jsonl or console; options as text."""

    kind: str
    options: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """Carry one query's results from its component's table to its sink, from a step on."""

    instance: str
    input: str
    query: str
    #: The event-time column: results of one commit are ordered by it, then by `_id` (O1).
    timestamp: str
    sink: Sink
    after: int


Component = Ingest | Select | Deliver


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Run a component here; its table is created where there is none."""

    component: Component
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """Run a component whose table must be there already."""

    component: Component
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Let go of a component; its table stays as it is."""

    instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddRows:
    """Add rows; `begin` None means from now on (the interval rule), else an instant.

    An instant in the past is back-filled by steps of its own, or refused where history no
    longer holds it.
    """

    instance: str
    rows: tuple[RosterRow, ...]
    begin: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceRow:
    """End the query's newest row in one component and go on with `row`, maybe in another."""

    source: str
    target: str
    row: RosterRow


@dataclass(frozen=True, slots=True, kw_only=True)
class DropRow:
    """End a query: what is due within the lateness still appears, unless `now`."""

    instance: str
    query: str
    now: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SetKeep:
    """Let a query look at a share of the tuples; 1.0 is all of them."""

    instance: str
    query: str
    keep: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Analyze:
    """Evaluate a probe (query/draft.py), one row of texts; answers its cells."""

    probe: str


Command = Start | TakeOver | Stop | AddRows | ReplaceRow | DropRow | SetKeep | Analyze
