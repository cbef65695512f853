"""A machine that is watched: every event, and whether its effects keep the contract.

For tests. Wrap a machine in `Checked` and it validates after each event and fails when
    - a timer, a persisted key or the thing of a note does not begin with the machine's name;
    - a message is sent that is not in its table, or an answer is given twice or unasked;
    - an effect is of no known kind, or time goes back;
    - its state changes in a way that its tables, and so its diagram, do not show.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any

from msgspec import Struct

from shoal.kernel.effects import (
    Answer,
    CancelTimer,
    Command,
    Effect,
    Note,
    Persist,
    Send,
    SetTimer,
    Tell,
)
from shoal.kernel.errors import RemoteError
from shoal.kernel.events import Asked, Received, TimerFired
from shoal.kernel.time import Instant
from shoal.peer.machine import Machine
from tools.diagrams import Chart, Input, charts

__all__ = ["Checked"]

Watch = Callable[[Machine, Struct, Sequence[Effect], Instant, str], None]


class Checked:
    """The machine inside, with its contract checked at every event."""

    def __init__(self, inner: Machine, watch: Watch | None = None) -> None:
        self.inner = inner
        self._watch = watch
        self._open: dict[int, None] = {}
        self._kinds = dict.fromkeys(inner.messages.values())
        self._now = 0
        self._chart = _chart_of(inner)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def messages(self) -> Mapping[int, type[Struct]]:
        return self.inner.messages

    @property
    def questions(self) -> Sequence[type[Struct]]:
        return self.inner.questions

    def handle(self, event: Struct, now: Instant) -> Sequence[Effect]:
        assert now >= self._now, "time went back"
        self._now = now
        before = getattr(self.inner, "state", None)
        if isinstance(event, Asked):
            self._open[event.request] = None
        try:
            effects = self.inner.handle(event, now)
        except RemoteError:
            self.inner.validate()  # what is refused leaves no trace
            raise
        for effect in effects:
            self._check(effect)
        self.inner.validate()
        after = getattr(self.inner, "state", None)
        if self._chart is not None:
            self._check_move(before, event, after)
        if self._watch is not None:
            moved = ""
            if isinstance(after, Enum) and isinstance(before, Enum) and after is not before:
                moved = f"{before.value} -> {after.value}"
            self._watch(self.inner, event, effects, now, moved)
        return effects

    def validate(self) -> None:
        self.inner.validate()

    def view(self) -> Struct:
        return self.inner.view()

    def _check(self, effect: Effect) -> None:
        match effect:
            case Send(message=message):
                assert type(message) in self._kinds, f"{message} is not in the table"
            case (
                SetTimer(timer=name)
                | CancelTimer(timer=name)
                | Persist(key=name)
                | Note(thing=name)
            ):
                self._named(name)
            case Answer(request=request):
                assert request in self._open, f"{effect} answers what is not open"
                del self._open[request]
            case Tell() | Command():
                pass
            case _:
                raise AssertionError(f"{effect!r} is no effect")

    def _check_move(self, before: Any, event: Struct, after: Any) -> None:
        """What happened to the state is what the tables say."""
        chart = self._chart
        assert chart is not None
        pair = (before, _input(chart, event))
        if pair in chart.table:
            allowed = (*chart.targets(pair), *(to for start, to in chart.other if start is before))
        else:
            assert pair in chart.ignored, f"{pair} is illegal, or not in the tables"
            allowed = (before,)
        assert after in allowed, f"{pair} leads to {after!r}; the tables say {allowed}"

    def _named(self, name: str) -> None:
        first = name.partition("/")[0]
        assert first == self.inner.name, f"{name!r} does not begin with {self.inner.name!r}"


def _chart_of(machine: Machine) -> Chart | None:
    """The tables of a machine, if it has any: its package has a chart of its name."""
    package = type(machine).__module__.rpartition(".")[0]
    return next((one for one in _charts() if one.module.rpartition(".")[0] == package), None)


@cache
def _charts() -> list[Chart]:
    return charts()


def _input(chart: Chart, event: Struct) -> Input:
    """What stands in the tables for an event: a message, a question, a timer, or itself."""
    match event:
        case Received(message=message):
            return type(message)
        case Asked(question=question):
            return type(question)
        case TimerFired(timer=timer) if TimerFired not in chart.inputs:
            return timer
        case _:
            return type(event)
