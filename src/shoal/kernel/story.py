"""Stories: what happened to a thing, in order, each line with its cause.

    at          event  because      thing     what
    12.000350    4711  p3#209       ring      successor p9 -> p4

Every event that a peer handles has a number, and whatever it makes the peer send carries that
number. `because` names the event of the other peer (or of this one) that led here, so one story
can be followed from peer to peer back to where it began.
"""

from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from shoal.kernel.time import Instant

__all__ = ["Line", "Story"]


class Line(Struct, frozen=True, gc=False):
    """One line of a story."""

    at: Instant
    event: int
    because: str
    thing: str
    what: str

    def __str__(self) -> str:
        seconds, micros = divmod(self.at, 1_000_000)
        because = self.because or "-"
        return f"{seconds}.{micros:06d} #{self.event} {because} {self.thing}: {self.what}"


class Story:
    """The newest lines of one peer; older ones are forgotten and counted."""

    def __init__(self, lines_max: int) -> None:
        self._lines: deque[Line] = deque(maxlen=lines_max)
        self.told = 0

    def tell(self, line: Line) -> None:
        """Add a line."""
        self._lines.append(line)
        self.told += 1

    @property
    def forgotten(self) -> int:
        """How many lines are no longer here."""
        return self.told - len(self._lines)

    def __iter__(self) -> Iterator[Line]:
        return iter(tuple(self._lines))

    def of(self, thing: str) -> tuple[Line, ...]:
        """The lines about one thing and its parts: `ring` has the part `ring/probe`."""
        part = f"{thing}/"
        return tuple(
            line for line in self._lines if line.thing == thing or line.thing.startswith(part)
        )
