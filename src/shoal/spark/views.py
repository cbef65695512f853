"""Pictures of components and steps for whoever looks from outside: plain data, no references."""

from collections.abc import Mapping

from shoal.dataplane.reports import ComponentView, StepDone
from shoal.dataplane.scheduler import Turn
from shoal.log.entries import RETAINED
from shoal.spark.floor import Part
from shoal.spark.ingest.component import IngestComponent
from shoal.spark.outcome import StepOutcome
from shoal.spark.select.component import SelectComponent

__all__ = ["component_view", "step_done"]


def component_view(
    component: Part,
    turn: Turn,
    *,
    reason: str,
    unread: str,
    cost: Mapping[str, float],
    rates: Mapping[str, float],
) -> ComponentView:
    """A component as it stands; `unread` says why its input cannot be read."""
    writer = component.writer
    select = component if isinstance(component, SelectComponent) else None
    failing = bool(turn.failures or unread)
    return ComponentView(
        instance=component.instance,
        kind=component.kind,
        state="failing" if failing else "running" if component.running else "waiting",
        epoch=writer.epoch,
        step=writer.step,
        positions={
            key[3:]: value for key, value in writer.transactions.items() if key[:3] == "in/"
        },
        lag=0 if select is None else select.lag,
        watermark=writer.transactions.get("wm"),
        roster_rows=0 if select is None else select.row_count,
        roster_version=0 if select is None else select.version,
        failures=turn.failures,
        reason=reason if turn.failures else unread,
        looked=component.looked if isinstance(component, IngestComponent) else 0,
        cost=cost,
        rates=rates,
        retained=writer.transactions.get(RETAINED, 0),
        counters={key[2:]: value for key, value in writer.transactions.items() if key[:2] == "n/"},
    )


def step_done(component: Part, outcome: StepOutcome) -> StepDone:
    """What is reported of a step."""
    commit = outcome.commit
    return StepDone(
        instance=outcome.instance,
        kind=component.kind,
        epoch=commit.epoch,
        step=commit.step,
        positions={
            key[3:]: value for key, value in commit.transactions.items() if key[:3] == "in/"
        },
        rows_in=outcome.rows_in,
        rows_out=outcome.rows_out,
        rows_history=outcome.rows_history,
        roster_rows=outcome.roster_rows,
        roster_version=outcome.roster_version,
        watermark=commit.transactions.get("wm"),
        committed=int(commit.info.get("wall", 0)),
        source_committed=outcome.source_committed,
        busy=outcome.busy,
        seconds=outcome.seconds,
        counters=outcome.counters,
        group=outcome.group,
    )
