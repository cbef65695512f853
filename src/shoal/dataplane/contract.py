"""The contract of an engine: what any engine must do with commands, and how it reports.

An engine owns components. It runs their steps on its own and promises, for each of them:

    L1 L2 L3   its commits are whole, numbered without gap or repeat, and fenced by epoch
    Q1 Q2 Q3   results are the SQL's over the tuples of each row's intervals, whatever the step
               boundaries, crashes, owners and other rows were
    S3         late, malformed, shed and failing tuples are counted

tests/conformance/engine_suite.py says the same as tests; every engine must pass it. It leaves out
what deliveries do: an engine without sinks refuses them, and only Spark's has any.
"""

from collections.abc import Mapping
from typing import Protocol

from shoal.dataplane.commands import Command
from shoal.dataplane.reports import EngineView, Report

__all__ = ["Answer", "Engine"]

#: What a command answers: plain data, such as {"roster": 12, "start": 1700000000000000}.
Answer = Mapping[str, object]


class Engine(Protocol):
    """Whatever runs components."""

    def call(self, command: Command, *, timeout: float) -> Answer:
        """Carry out one command; durable when it returns. Raises UserError or LocalError."""
        ...

    def announce(self, instance: str) -> None:
        """Something may have been added to what this component reads."""
        ...

    def reports(self) -> tuple[Report, ...]:
        """What happened since the last call, oldest first."""
        ...

    def view(self) -> EngineView:
        """The engine's present state."""
        ...

    def close(self) -> None:
        """End after the steps that are running; lose nothing."""
        ...
