"""An engine that only remembers what it was asked, and a mesh on it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.cli.local import Mesh
from shoal.dataplane import commands as c
from shoal.dataplane.reports import ComponentView, EngineView
from shoal.kernel.errors import UserError
from shoal.log.root import Root
from shoal.query.windows.draft import parse_query
from tests.property.spark_types import query_answers
from tests.property.streams import READINGS

__all__ = [
    "CELLS",
    "HOT",
    "HOTTER",
    "SCHEMA",
    "SEVEN",
    "TWICE",
    "Engine",
    "again",
    "engine",
    "view",
]

SCHEMA = "ts TIMESTAMP, meter INT, kwh DOUBLE"
HOT = "SELECT ts, kwh FROM readings WHERE kwh > 3.5"
HOTTER = "SELECT ts, kwh FROM readings WHERE kwh > 4.5"
SEVEN = "SELECT ts, meter FROM readings WHERE meter = 7"
TWICE = "SELECT ts, kwh * 2 AS twice FROM readings WHERE kwh > 3.5"
CELLS = {
    draft.probe: query_answers(draft)
    for draft in (parse_query(text, READINGS) for text in (HOT, SEVEN, TWICE))
}


class Engine:
    """Answers what an engine answers, and refuses one kind of command at will."""

    def __init__(self, session: object, root: Root, *, owner: str) -> None:
        self.asked: list[c.Command] = []
        self.refuses: type = type(None)
        self.closed = False
        #: Who is behind, look by look; the last for ever.
        self.behind: list[ComponentView | None] = [None]
        #: What it says it runs.
        self.components: list[ComponentView] = []

    def call(self, command: c.Command, *, timeout: float) -> Mapping[str, object]:
        if isinstance(command, self.refuses):
            raise UserError("no room")
        self.asked.append(command)
        match command:
            case c.Analyze():
                if command.probe not in CELLS:
                    raise UserError("not that", detail="[DATATYPE_MISMATCH] no such > here")
                return {"cells": tuple(CELLS[command.probe])}
            case c.Start():
                return {"rows": ()}
            case _:
                return {}

    def of(self, kind: type) -> list[Any]:
        return [command for command in self.asked if isinstance(command, kind)]

    def announce(self, instance: str) -> None:
        """Nobody reads."""

    def lagging(self, asked: int) -> ComponentView | None:
        worst = self.behind[0]
        self.behind = self.behind[1:] or self.behind
        return worst

    def view(self) -> EngineView:
        return EngineView(components=tuple(self.components), cycle_seconds=0.25, threads=1, steps=0)

    def wait(self, seen: int, *, timeout: float) -> int:
        return seen + 1

    def close(self) -> None:
        self.closed = True


def again(root: Path) -> Mesh:
    session: Any = None
    return Mesh(Root.open(root), session, owns_session=False)


def engine(mesh: Mesh) -> Engine:
    found: Any = mesh._engine
    return found  # type: ignore[no-any-return]


def view(kind: str, *, lag: int, looked: int) -> ComponentView:
    """A component as an engine shows it."""
    return ComponentView(
        instance=f"{kind}-1",
        kind=kind,
        state="waiting",
        epoch=1,
        step=1,
        positions={},
        lag=lag,
        watermark=None,
        roster_rows=0,
        roster_version=0,
        failures=1,
        reason="the disk is full",
        looked=looked,
        retained=0,
        rates={},
        cost={},
        counters={},
    )
