"""What is started, once; and in which order it stops."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from shoal.cli.running import Running
from shoal.cli.selections import Selections, stream_instance
from shoal.dataplane import commands as c
from shoal.kernel.errors import LocalError, UserError
from shoal.query.catalog import StreamDef
from tests.property.streams import READINGS
from tests.unit.cli.engine import CELLS, HOT, HOTTER, SEVEN

INTO = {"kind": "console", "options": {"rows": "3"}, "delivery": "hot-1"}


class Desk:
    """Remembers commands; what is in `gone` does not run here."""

    def __init__(self) -> None:
        self.asked: list[c.Command] = []
        self.gone: list[str] = []

    def __call__(self, command: c.Command) -> Mapping[str, object]:
        self.asked.append(command)
        if isinstance(command, c.Stop) and command.instance in self.gone:
            raise LocalError("does not run here")
        return {"cells": CELLS.get(command.probe)} if isinstance(command, c.Analyze) else {}

    def started(self) -> list[str]:
        return [a.component.instance for a in self.asked if isinstance(a, c.Start)]

    def stopped(self) -> list[str]:
        return [a.instance for a in self.asked if isinstance(a, c.Stop)]


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def selections(desk: Desk) -> Selections:
    return Selections({}, desk, functions=())


@pytest.fixture
def running(desk: Desk, selections: Selections) -> Running:
    streams: dict[str, StreamDef] = {}
    selections.streams = streams
    made = Running(streams, selections, desk)
    made.start_stream(READINGS)
    return made


def body(into: object) -> dict[str, object]:
    pieces = [{"instance": "select-1", "version": 1, "columns": ["ts"]}]
    return {"stream": "readings", "pieces": pieces, "into": into}


def test_a_component_is_started_once(running: Running, desk: Desk, selections: Selections) -> None:
    first = running.start_select(selections.parse(HOT))
    assert running.start_select(selections.parse(HOTTER)) == first
    second = running.start_select(selections.parse(SEVEN))
    assert desk.started() == [stream_instance(READINGS), first, second]


def test_readers_stop_before_what_they_read(
    running: Running, desk: Desk, selections: Selections
) -> None:
    """Who was fenced off has stopped already; deliveries go on."""
    names = [running.start_select(selections.parse(text)) for text in (HOT, SEVEN)]
    running.start_deliver("deliver-x")
    desk.gone = [names[0]]
    running.stop_stream(READINGS)
    assert desk.stopped() == [*names, stream_instance(READINGS)]
    with pytest.raises(UserError, match="not known"):
        selections.parse(HOT)
    running.start_stream(READINGS)
    running.start_select(selections.parse(HOT))
    assert desk.started()[-2:] == [stream_instance(READINGS), names[0]]


def test_every_book_of_deliveries_goes_on(running: Running, desk: Desk, tmp_path: Path) -> None:
    running.start_delivers(tmp_path / "none")
    for name in ("deliver-b", "deliver-a"):
        (tmp_path / name).mkdir()
    running.start_delivers(tmp_path)
    running.start_deliver("deliver-a")
    assert desk.started()[1:] == ["deliver-a", "deliver-b"]


def test_sinks_are_registered_and_asked(running: Running, desk: Desk) -> None:
    running.deliver({"hot": body(INTO), "quiet": body(None)})
    running.of_sink(c.EndDelivery, body(INTO))
    running.of_sink(c.ResumeDelivery, body(None))
    (added,) = [a for a in desk.asked if isinstance(a, c.AddDeliveries)]
    assert [one.query for one in added.deliveries] == ["hot"]
    assert desk.started()[-1] == added.instance == f"deliver-{stream_instance(READINGS)}"
    assert desk.asked[-1] == c.EndDelivery(instance=added.instance, delivery="hot-1")
