"""What a worker hands back to the engine's thread after one piece of work."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.log.writer import Commit

__all__ = ["Laps", "Phase", "StepFailed", "StepOutcome", "first_words", "wall_stamp"]

#: The name of a condition in a message of Spark, such as [DIVIDE_BY_ZERO].
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\]")


class Laps:
    """Seconds by phase of one piece of work, and the phase that it is in."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self.phase = "plan"
        self.seconds: dict[str, float] = {}

    def enter(self, phase: str) -> None:
        """The phase so far ends here, and this one begins."""
        self.leave()
        self.phase = phase

    def leave(self) -> None:
        """The time since the last call was spent on the present phase."""
        now = time.perf_counter()
        self.seconds[self.phase] = self.seconds.get(self.phase, 0.0) + now - self._started
        self._started = now

    def total(self) -> float:
        """Seconds so far."""
        self.leave()
        return sum(self.seconds.values())


Phase = str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """A component's step, committed."""

    instance: str
    commit: Commit
    rows_in: int
    rows_out: int
    rows_history: int = 0
    roster_rows: int = 0
    roster_version: int = 0
    source_committed: int = 0
    busy: float = 0.0
    seconds: Mapping[str, float] = field(default_factory=dict, hash=False)
    counters: Mapping[str, int] = field(default_factory=dict, hash=False)
    group: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailed:
    """A component's step did not happen. `phase` says how far it got: plan, job or commit.

    `fenced`: another owner has the component. `cause` keeps the exception for the log of errors.
    """

    instance: str
    phase: Phase
    cause: Exception
    fenced: bool = False

    @property
    def reason(self) -> str:
        """What it says, in one line."""
        return first_words(self.cause)


_TRACEBACK = "Traceback (most recent call last)"
_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Warning)\b")


def first_words(error: BaseException) -> str:
    """The line of an error that says what is wrong; Spark's are long, and begin with Py4J's."""
    lines = [line.strip(" :") for line in str(error).splitlines() if line.strip(" :")]
    if _TRACEBACK in lines:
        # A function in Python raised: its own last word, not the worker's.
        lines = [line for line in lines if _RAISED.match(line)][-1:] or lines
    found = [(line, _CONDITION.search(line)) for line in lines]
    telling = [line[match.start() :] for line, match in found if match] or lines[:1]
    return telling[0][:500] if telling else repr(error)


def wall_stamp() -> dict[str, str]:
    """The wall time of a commit, from which latencies are measured; for its metadata."""
    return {"wall": str(time.time_ns() // 1000)}
