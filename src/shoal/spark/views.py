"""Pictures of components and steps for whoever looks from outside: plain data, no references."""

from collections.abc import Mapping

from shoal.dataplane.reports import ComponentView, StepDone
from shoal.dataplane.rows import ALWAYS
from shoal.dataplane.scheduler import Turn
from shoal.kernel.time import Instant
from shoal.log.entries import RETAINED
from shoal.spark.floor import Part
from shoal.spark.ingest.component import IngestComponent
from shoal.spark.outcome import StepOutcome
from shoal.spark.select.component import SelectComponent
from shoal.spark.select.rostered import Rostered

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
    served = component if isinstance(component, Rostered) else None
    ingest = component if isinstance(component, IngestComponent) else None
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
        lag=0 if isinstance(component, IngestComponent) else component.lag,
        watermark=_watermark(component),
        roster_rows=0 if served is None else served.row_count,
        roster_version=0 if served is None else served.version,
        failures=turn.failures,
        reason=reason if turn.failures else unread,
        looked=0 if ingest is None else ingest.looked,
        cost=cost,
        rates=rates,
        retained=writer.transactions.get(RETAINED, 0),
        whole=_whole(component),
        counters={key[2:]: value for key, value in writer.transactions.items() if key[:2] == "n/"},
    )


def _watermark(component: Part) -> Instant | None:
    """How far event time has come; a roll-up may be further than its newest commit says."""
    if isinstance(component, IngestComponent):
        return component.writer.transactions.get("wm")
    return component.watermark


def _whole(component: Part) -> Instant | None:
    if isinstance(component, IngestComponent | SelectComponent):
        return None
    return None if component.whole == ALWAYS else component.whole


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
