"""The rows of a roster: one row is one version of one query in one component.

A row says which tuples belong to its query, and how many of them it looks at. Three intervals
bound it, each for its own reason (DESIGN.md section 7):

    event time   start < ts <= until     what the user asked for; the only one users see
    input step   since < step <= cut     which commits of the input this row is live for; makes
                                         a repeated step give the same answer (promise Q2)
    keep         the share of tuples that the row looks at; less than one only while shedding

A row of a roll-up stands for windows instead of tuples: the event time that counts is the window's
end, and its input step the first at which the watermark had reached that end.

A row is never changed in place: a change is a new row with the same (query, version), and the
last one written counts.
"""

import math
from dataclasses import dataclass

from shoal.kernel.errors import LocalError
from shoal.kernel.time import Instant
from shoal.query.selection import Value
from shoal.query.windows.plan import Shape

__all__ = ["ALWAYS", "FOREVER", "RosterRow", "Value"]

#: Before every instant, and after every instant and step: intervals without an end.
ALWAYS = -(1 << 62)
FOREVER = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class RosterRow:
    """One version of one query in one component.

    RosterRow(query='hot', version=1, parameters=(7, 3.5), columns=('ts', 'kwh'),
              start=1_700_000_000_000_000, until=FOREVER, since=41, cut=FOREVER, keep=1.0)
    """

    query: str
    version: int
    parameters: tuple[Value, ...]
    columns: tuple[str, ...]
    start: Instant = ALWAYS
    until: Instant = FOREVER
    since: int = 0
    cut: int = FOREVER
    keep: float = 1.0
    weight: float = 1.0
    #: Why the row is not served; empty while it is.
    suspended: str = ""
    #: Commits of the input up to this one are served by back-fill; 0 where there is none. With a
    #: shape: windows that end at or before this instant.
    fill: int = 0
    #: In a roll-up: the windows, and the constants of WHERE; their number is the first parameter.
    shape: Shape | None = None

    @property
    def identity(self) -> tuple[str, int]:
        return (self.query, self.version)

    def validate(self) -> None:
        """Raise if the row contradicts itself."""
        if not 0.0 < self.keep <= 1.0:
            raise LocalError(
                f"roster row {self.identity} keeps {self.keep}",
                detail="keep is a share of the tuples, above 0 and at most 1",
            )
        if not 0.0 < self.weight < math.inf:
            raise LocalError(
                f"roster row {self.identity} weighs {self.weight}",
                detail="a weight is a number above 0",
            )
        if self.shape is None and self.fill > self.since:
            raise LocalError(
                f"roster row {self.identity} is back-filled to step {self.fill}",
                detail=f"it is live since step {self.since}: both would serve the same tuples",
            )
