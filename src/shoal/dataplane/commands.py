"""What control may ask of an engine. Commands are data; an engine answers each one once.

    Start, TakeOver   run a component here; both end with this engine as its only owner (L3)
    Stop              let go of it; its table stays as it is
    AddRows           queries join a component
    ReplaceRow        a query changes; from one instant on its new row counts, maybe elsewhere
    DropRow           a query ends
    SetKeep           a query looks at a smaller share of the tuples, or at all again
    SetWeight         a query has another share of the peer's time
    Analyze           let the engine type an expression
    AddDeliveries     results of queries go to sinks, or go on with another version
    EndDelivery       a query has ended; its sink gets what is still due, and then no more
    ResumeDelivery    try a sink again that was suspended because it failed

`Start` creates the component's table where there is none; `TakeOver` refuses if there is none,
because then there is nothing to take over and the caller's picture is wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.dataplane.projection import Projection
from shoal.dataplane.rows import RosterRow
from shoal.kernel.time import Instant
from shoal.query.catalog import Column, StreamDef
from shoal.query.selection import Signature
from shoal.query.windows import plan
from shoal.query.windows.plan import Output

__all__ = [
    "AddDeliveries",
    "AddRows",
    "Analyze",
    "Command",
    "Component",
    "Deliver",
    "Delivery",
    "DropRow",
    "EndDelivery",
    "Ingest",
    "Panes",
    "ReplaceRow",
    "ResumeDelivery",
    "RollUp",
    "Select",
    "SetKeep",
    "SetWeight",
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
class Panes:
    """Group a stream's tuples into panes; with `merges` the input is the table of finer panes.

    Finer panes have the same keys, filters, conditions and measures, and a length that divides.
    """

    instance: str
    input: str
    stream: StreamDef
    panes: plan.Panes
    merges: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RollUp:
    """Serve all windows over the panes that the input holds; rows join it as they join a select."""

    instance: str
    input: str
    stream: StreamDef
    roll_up: plan.RollUp


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Where results go: kind is files, delta, jsonl or console; options as text."""

    kind: str
    options: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """Carry results of queries to their sinks; the instance names one log of their positions.

    Deliveries that stand at the same step of one table are one piece of work.
    """

    instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One version of a query, in one table, on its way to a sink.

    `delivery` stays the same over the versions of a query; a query that takes the name of a
    dropped one is another delivery. `outputs` are the select list over `columns`, none where it
    is the columns themselves.
    """

    delivery: str
    query: str
    version: int
    input: str
    columns: tuple[Column, ...]
    #: The event-time column: results of one commit are ordered by it, then by `_id` (O1).
    timestamp: str
    sink: Sink
    outputs: tuple[Output, ...] = ()

    @property
    def projection(self) -> Projection:
        """What the sink gets of the table."""
        return Projection(columns=self.columns, outputs=self.outputs)


Component = Ingest | Select | Panes | RollUp | Deliver


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
    """End the query's newest row in one component and go on with `row`, maybe in another.

    What `SetKeep` said last goes on too: `row.keep` is not looked at. What the target refuses
    leaves the old row as it was.
    """

    source: str
    target: str
    row: RosterRow


@dataclass(frozen=True, slots=True, kw_only=True)
class DropRow:
    """End a query: what is due within the lateness still appears, unless `now`.

    With `now` nothing of any of its versions in this component is served after the next step.
    """

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
class SetWeight:
    """Let a query weigh more or less where the peer has more to do than it can; 1.0 is usual."""

    instance: str
    query: str
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Analyze:
    """Evaluate a probe (query/draft.py), one row of texts; answers its cells."""

    probe: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddDeliveries:
    """Carry these; what was known already goes on where it was, the rest from now on."""

    instance: str
    deliveries: tuple[Delivery, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndDelivery:
    """End a delivery when all that is due has arrived."""

    instance: str
    delivery: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeDelivery:
    """Go on with a delivery that was suspended, from where it stands."""

    instance: str
    delivery: str


Command = (
    Start
    | TakeOver
    | Stop
    | AddRows
    | ReplaceRow
    | DropRow
    | SetKeep
    | SetWeight
    | Analyze
    | AddDeliveries
    | EndDelivery
    | ResumeDelivery
)
