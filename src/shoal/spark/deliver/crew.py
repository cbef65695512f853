"""The deliver components of an engine: what the desk asks of them, in one place.

Only the engine's thread comes here. Sinks are written by threads of their own, because a sink may
stall for as long as it likes; their number is fixed, and a write that waits for one is slow too.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from shoal.dataplane import commands as c
from shoal.dataplane.contract import Answer
from shoal.dataplane.progress import Progress
from shoal.dataplane.reports import ComponentView, Failed, FencedOff, Report, StepDone
from shoal.dataplane.scheduler import Scheduler
from shoal.kernel.errors import Fenced, LocalError
from shoal.kernel.time import Instant
from shoal.log.root import Root
from shoal.spark.deliver.component import DeliverComponent
from shoal.spark.deliver.step import Delivered, DeliverWork
from shoal.spark.deliver.upkeep import Kept, UpkeepWork
from shoal.spark.feed import Feed

__all__ = ["SINK_THREADS", "Crew"]

#: Threads that write to sinks; they wait for disks more than they compute.
SINK_THREADS = 8


class Crew:
    """All deliver components that run here."""

    def __init__(
        self,
        root: Root,
        scheduler: Scheduler,
        progress: Progress,
        *,
        feed_of: Callable[[str], Feed],
        report: Callable[[Report], None],
    ) -> None:
        self._root = root
        self._scheduler = scheduler
        self._progress = progress
        self._feed_of = feed_of
        self._report = report
        self._pool = ThreadPoolExecutor(SINK_THREADS, thread_name_prefix="shoal-sink")
        self._components: dict[str, DeliverComponent] = {}

    def __contains__(self, instance: str) -> bool:
        return instance in self._components

    def answer(self, command: c.Command) -> Answer | None:
        """Carry a command out if it is for a deliver component; None if it is not."""
        match command:
            case c.Start(component=c.Deliver()) | c.TakeOver(component=c.Deliver()):
                return self._start(command.component.instance, weight=command.weight)
            case c.Stop() if command.instance in self._components:
                return self._stop(command.instance)
            case c.AddDeliveries():
                self._component(command.instance).add(command.deliveries)
                return {}
            case c.EndDelivery():
                self._component(command.instance).end(command.delivery)
                return {}
            case c.ResumeDelivery():
                return {"step": self._component(command.instance).resume(command.delivery)}
            case _:
                return None

    def _start(self, instance: str, *, weight: float) -> Answer:
        """Take the component's book over, and go on where it stands."""
        if instance in self._components:
            raise LocalError(f"component {instance} runs here already")
        component = DeliverComponent(
            instance, self._root, feed_of=self._feed_of, report=self._report, pool=self._pool
        )
        self._components[instance] = component
        self._scheduler.add(instance, weight=weight)
        return {"epoch": component.book.epoch}

    def _stop(self, instance: str) -> Answer:
        """Let go of a component; writes under way end, and are repeated by the next owner."""
        del self._components[instance]
        self._scheduler.remove(instance)
        self._progress.forget(instance)
        return {}

    def _component(self, instance: str) -> DeliverComponent:
        component = self._components.get(instance)
        if component is None:
            raise LocalError(f"component {instance} does not run here as a deliver")
        return component

    def ready(self, now: Instant) -> list[str]:
        """The components that have something to do."""
        return [name for name, part in self._components.items() if part.ready(now)]

    def next_due(self, now: Instant) -> Instant | None:
        """When one will have something to do without any event."""
        dues = (part.next_due(now) for part in self._components.values() if not part.running)
        return min((due for due in dues if due is not None), default=None)

    def next_work(self, instance: str, now: Instant) -> DeliverWork | UpkeepWork | None:
        """The component's next piece of work; None if nothing was left in it."""
        component = self._components[instance]
        work = component.next_work(now)
        component.running = work is not None
        return work

    def finished(
        self, work: DeliverWork | UpkeepWork, outcomes: Sequence[object], now: Instant
    ) -> None:
        """Take in what a piece of work gave."""
        component = self._components.get(work.instance)
        if component is None:
            return
        component.running = False
        for outcome in outcomes:
            match work, outcome:
                case DeliverWork(), Delivered():
                    self._scheduler.ran(work.instance, busy=sum(outcome.seconds.values()))
                    if not self._fenced(work.instance, outcome.failed.values()):
                        component.stepped(work, outcome, now)
                        self._tell(component, work, outcome, now)
                case UpkeepWork(), Kept(error=None):
                    component.kept(outcome.over)
                case UpkeepWork(), Kept(error=Exception() as error):
                    if not self._fenced(work.instance, [error]):
                        self._upkeep_failed(component, error, now)

    def _tell(
        self, component: DeliverComponent, work: DeliverWork, outcome: Delivered, now: Instant
    ) -> None:
        """Report the step, if it brought anybody forward; what it took is learned."""
        behind = len(outcome.failed) + len(outcome.slow)
        if behind == len(work.members):
            return
        done = StepDone(
            instance=work.instance,
            kind=component.kind,
            epoch=work.book.epoch,
            step=work.upto,
            positions={work.table: work.upto},
            rows_in=outcome.rows_in,
            rows_out=outcome.rows,
            rows_history=0,
            roster_rows=len(work.members),
            roster_version=0,
            watermark=None,
            committed=now,
            source_committed=work.source_committed,
            busy=sum(outcome.seconds.values()),
            seconds=outcome.seconds,
            counters={},
            group=1,
        )
        self._progress.observe(done, now)
        self._report(done)

    def _fenced(self, instance: str, errors: Iterable[Exception]) -> bool:
        """Stop the component here if another owner has it; whether that is so."""
        reasons = [str(error) for error in errors if isinstance(error, Fenced)]
        if reasons:
            self._stop(instance)
            self._report(FencedOff(instance=instance, reason=reasons[0]))
        return bool(reasons)

    def _upkeep_failed(self, component: DeliverComponent, error: Exception, now: Instant) -> None:
        due = component.next_due(now) or now
        reason = f"upkeep: {error}"
        self._report(Failed(instance=component.instance, attempts=1, reason=reason, retry_at=due))

    def horizon(self, instance: str) -> int | None:
        """The lowest position of this table that a delivery here still needs."""
        found = (part.horizon(instance) for part in self._components.values())
        return min((position for position in found if position is not None), default=None)

    def views(self, now: Instant) -> tuple[ComponentView, ...]:
        """Pictures of the components, and of each delivery that is not well."""
        return tuple(
            replace(
                view,
                cost=self._progress.cost(view.instance),
                rates=self._progress.rates(view.instance, now),
            )
            for part in self._components.values()
            for view in part.views()
        )

    def close(self) -> None:
        """End when the writes under way have."""
        self._components.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)
