"""What is to be done next: the choice of the next turn. Decides, runs nothing.

Every component that is not at work and has something to read is ready; the scheduler says whose
turn it is; selects that stand at the same place of the same stream go together. Tables are cared
for (checkpoints, compaction) when there is nothing else to do, and at the latest after so many
steps.
"""

from shoal.dataplane.scheduler import ATTEMPTS_BEFORE_BISECTION
from shoal.kernel.errors import ShoalError
from shoal.kernel.time import MILLISECOND, Instant
from shoal.log.leases import Leases
from shoal.log.reader import PastHorizon
from shoal.log.writer import Writer
from shoal.spark.deliver.crew import Crew
from shoal.spark.floor import Floor, Part
from shoal.spark.ingest.component import IngestComponent
from shoal.spark.select.component import SelectComponent
from shoal.spark.select.index import probe_of
from shoal.spark.turns import (
    BisectTurn,
    Care,
    CoarserTurn,
    DeliverTurn,
    HousekeepTurn,
    IngestTurn,
    PanesTurn,
    RollUpTurn,
    SelectTurn,
    TogetherTurn,
    Turn,
    UnreadTurn,
)
from shoal.spark.windows.panes import CoarserComponent, PanesComponent
from shoal.spark.windows.rollup import RollUpComponent
from shoal.spark.windows.shelf import held_at

__all__ = ["CARE_AFTER", "CARE_LATEST", "GROUP_MOST", "Chooser"]

#: Members of one step group at most.
GROUP_MOST = 128
#: Steps of a table after which it is cared for when the peer is idle, and when it never is.
CARE_AFTER = 20
CARE_LATEST = 60
#: How often the commits of other peers' streams are looked for.
TAIL_EVERY = 20 * MILLISECOND


class Chooser:
    """Finds the next turn on a floor."""

    def __init__(self, floor: Floor, crew: Crew) -> None:
        self._floor = floor
        self._crew = crew
        self._tail_at: Instant = 0

    def next_due(self, now: Instant) -> Instant | None:
        """When there may be something to do without any event."""
        looks = [
            part.look_at
            for part in self._floor.parts.values()
            if isinstance(part, IngestComponent) and not part.running
        ]
        others = (self._floor.scheduler.waiting_until(now), self._crew.next_due(now))
        return min([*looks, *(due for due in others if due is not None)], default=None)

    def next_turn(self, now: Instant) -> Turn | None:
        """The next turn, its components marked as running; None if nothing is ready."""
        if now >= self._tail_at:
            self._tail_at = now + TAIL_EVERY
            self._floor.tail(now, self._leased)
        turn = self._care(now, after=CARE_LATEST) or self._step(now)
        turn = turn or self._care(now, after=CARE_AFTER)
        if turn is not None and not isinstance(turn, DeliverTurn):
            for instance in turn.instances:
                self._floor.parts[instance].running = True
        return turn

    def _step(self, now: Instant) -> Turn | None:
        parts = self._floor.parts
        ready = [name for name, part in parts.items() if self._is_ready(part, now)]
        candidates = [*ready, *self._crew.ready(now)]
        while name := self._floor.scheduler.next(candidates, now):
            if name not in self._crew:
                return self._turn_or_why(parts[name], ready, now)
            work = self._crew.next_work(name, now)
            if work is not None:
                return DeliverTurn(instances=(name,), work=work)
            self._floor.scheduler.idle(name)
            candidates.remove(name)
        return None

    def _is_ready(self, component: Part, now: Instant) -> bool:
        if component.running:
            return False
        if isinstance(component, IngestComponent):
            return component.look_at <= now and not self._awaited(component)
        try:
            return component.ready
        except ShoalError:
            # What cannot be read is this component's failure, at its own turn.
            return True

    def _awaited(self, ingest: IngestComponent) -> bool:
        """Whether a reader should first come to the head, to take part in the next step."""
        if ingest.spec.stream.store:
            return False
        return any(
            part.running or part.filling or part.position != ingest.writer.step
            for part in self._floor.readers(ingest)
        )

    def _ingest_turn(self, component: IngestComponent, now: Instant) -> Turn:
        readers = [] if component.spec.stream.store else self._floor.readers(component)
        readers = _in_order(readers[:GROUP_MOST])
        if not readers:
            return IngestTurn(instances=(component.instance,), ingest=component.ingest, now=now)
        self._floor.undecided |= dict.fromkeys(part.instance for part in readers)
        return TogetherTurn(
            instances=(component.instance, *(part.instance for part in readers)),
            ingest=component.ingest,
            works=tuple(part.work_at_head() for part in readers),
            now=now,
        )

    def _turn_or_why(self, component: Part, ready: list[str], now: Instant) -> Turn:
        """The component's turn; what cannot be read is its failure, and nobody else's."""
        try:
            return self._turn(component, ready, now)
        except ShoalError as error:
            return UnreadTurn(instances=(component.instance,), cause=error, row=None)

    def _turn(self, component: Part, ready: list[str], now: Instant) -> Turn:
        match component:
            case IngestComponent():
                return self._ingest_turn(component, now)
            case PanesComponent():
                return self._panes_turn(component)
            case CoarserComponent():
                return CoarserTurn(instances=(component.instance,), work=component.work())
            case RollUpComponent():
                return self._roll_up_turn(component)
            case SelectComponent():
                return self._select_turn(component, ready, now)

    def _panes_turn(self, component: PanesComponent) -> Turn:
        read = component.next_range()
        assert read is not None, component.instance
        return PanesTurn(
            instances=(component.instance,),
            input=self._floor.inputs[component.spec.input],
            read=read,
            work=component.work(read),
        )

    def _roll_up_turn(self, component: RollUpComponent) -> Turn:
        names = (component.instance,)
        if component.fill_is_due:
            row, tries = component.fill_row, component.fill_failures
            suspects = tries >= ATTEMPTS_BEFORE_BISECTION
            return RollUpTurn(
                instances=names, work=component.fill_work(), fill=row, suspects=suspects
            )
        suspects = self._floor.scheduler.suspects_rows(component.instance)
        return RollUpTurn(instances=names, work=component.work(), fill=None, suspects=suspects)

    def _select_turn(self, component: SelectComponent, ready: list[str], now: Instant) -> Turn:
        read = component.next_range()
        if read is None or (component.filling and component.fill_is_next()):
            return self._fill_turn(component)
        alone = self._floor.scheduler.turn(component.instance).alone
        members = [component] if alone else self._group(component, ready, now)
        works = tuple(member.work(read) for member in members)
        shared = self._floor.inputs[component.spec.input]
        if self._floor.scheduler.suspects_rows(component.instance):
            return BisectTurn(
                instances=(component.instance,),
                input=shared,
                read=read,
                work=works[0],
                fill=None,
            )
        return SelectTurn(
            instances=tuple(member.instance for member in members),
            input=shared,
            read=read,
            works=works,
            fill=None,
        )

    def _fill_turn(self, component: SelectComponent) -> Turn:
        try:
            row, read = component.next_fill()
        except PastHorizon as error:
            row = component.fill_row
            return UnreadTurn(instances=(component.instance,), cause=error, row=row)
        work = component.fill_work(row, read)
        shared = self._floor.inputs[component.spec.input]
        names = (component.instance,)
        if component.fill_failures >= ATTEMPTS_BEFORE_BISECTION:
            return BisectTurn(instances=names, input=shared, read=read, work=work, fill=row)
        return SelectTurn(instances=names, input=shared, read=read, works=(work,), fill=row)

    def _group(
        self, first: SelectComponent, ready: list[str], now: Instant
    ) -> list[SelectComponent]:
        """The selects that stand where this one stands: they read the same range in one job."""
        others = [self._floor.parts[name] for name in ready if name != first.instance]
        members = [
            other
            for other in others
            if isinstance(other, SelectComponent)
            and other.spec.input == first.spec.input
            and other.position == first.position
            and not self._floor.scheduler.turn(other.instance).alone
            and self._floor.scheduler.turn(other.instance).retry_at <= now
        ]
        return _in_order([first, *members[: GROUP_MOST - 1]])

    def _care(self, now: Instant, *, after: int) -> HousekeepTurn | None:
        """Care for a table that has had so many steps since the last time."""
        for instance, steps in self._floor.uncared.items():
            part = self._floor.parts[instance]
            if steps < after or part.running:
                continue
            self._floor.uncared[instance] = 0
            retain = part.spec.stream.retain
            watermark = part.writer.transactions.get("wm")
            cares = [self._care_of(part.writer, watermark, retain, now)]
            readers = self._floor.reader_names(instance) if retain else []
            self._floor.undecided |= dict.fromkeys(readers)
            source = None
            if isinstance(part, IngestComponent):
                cares.append(self._care_of(part.ingest.dead, now, retain, now))
                source = None if part.spec.stream.store else part.ingest.source
            return HousekeepTurn(
                instances=(instance,),
                cares=tuple(cares),
                readers=tuple(readers),
                source=source,
            )
        return None

    def _care_of(self, writer: Writer, reached: Instant | None, retain: int, now: Instant) -> Care:
        before = None
        if retain and reached is not None:
            needed = self._floor.needs_from(writer.instance)
            before = min(reached - retain, reached if needed is None else needed)
        return Care(
            writer=writer,
            horizon=self._horizon_of_all(writer.instance, now),
            before=before,
        )

    def _horizon_of_all(self, instance: str, now: Instant) -> int | None:
        """The lowest position that any reader needs; those elsewhere hold leases."""
        leases = Leases(self._floor.root.folder("readers", instance))
        found = (self._needed(instance), leases.horizon(now))
        return min((position for position in found if position is not None), default=None)

    def _leased(self, instance: str) -> int | None:
        """The position for a lease: below it are no panes that a window here still covers."""
        position = self._needed(instance)
        needed = self._floor.needs_from(instance)
        if position is None or needed is None:
            return position
        return min(position, held_at(self._floor.root, instance, needed))

    def _needed(self, instance: str) -> int | None:
        """The lowest position that a reader here needs."""
        found = (self._floor.horizon(instance), self._crew.horizon(instance))
        return min((position for position in found if position is not None), default=None)


def _in_order(members: list[SelectComponent]) -> list[SelectComponent]:
    """Members that probe alike side by side: they end in one part of the roster, with one probe.

    The order does not change while the members do not, so their roster is built once.
    """
    return sorted(members, key=lambda member: (probe_of(member.spec.signature), member.instance))
