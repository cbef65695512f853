"""Windows as arithmetic: which there are, when they are due, and the pane that divides them.

    Window(length=600 s, slide=60 s, offset=0)      [0:00, 0:10), [0:01, 0:11), ...

A window is [end - length, end); ends are offset + k * slide + length, for every whole k.
Instants are integer microseconds; windows are aligned to the epoch unless they have an offset.

Promises   Q1  a window is due once its end is at or below the watermark, and exactly once: `ends`
           of neighbouring intervals do not overlap and leave nothing out.
"""

from dataclasses import dataclass

from shoal.kernel.errors import LocalError
from shoal.kernel.time import DAY, HOUR, MILLISECOND, MINUTE, SECOND, Instant

__all__ = ["INSTANT", "LADDER", "Window", "pane_start"]

#: Lengths of panes, ascending. Each divides the next, so coarser panes are made of finer ones.
LADDER = (
    MILLISECOND,
    10 * MILLISECOND,
    100 * MILLISECOND,
    SECOND,
    10 * SECOND,
    MINUTE,
    10 * MINUTE,
    HOUR,
    DAY,
)
#: The length of a pane that is one instant (DISTINCT without a window; odd microseconds).
INSTANT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """RANGE (here `length`), SLIDE and offset of a query's windows, in microseconds."""

    length: int
    slide: int
    offset: int

    def validate(self) -> None:
        """Raise LocalError unless 0 < slide <= length and 0 <= offset < slide."""
        if not (0 < self.slide <= self.length and 0 <= self.offset < self.slide):
            raise LocalError(f"window {self} is none", detail="0 < slide <= length, offset < slide")

    @property
    def pane(self) -> int:
        """The longest pane of the ladder that divides every window's start and end."""
        fits = [
            length
            for length in LADDER
            if not (self.length % length or self.slide % length or self.offset % length)
        ]
        return fits[-1] if fits else INSTANT

    def ends(self, after: Instant, upto: Instant) -> range:
        """The ends of windows with after < end <= upto, ascending."""
        first = self._end_number(after) + 1
        last = self._end_number(upto)
        base = self.offset + self.length
        return range(base + first * self.slide, base + last * self.slide + 1, self.slide)

    def _end_number(self, instant: Instant) -> int:
        """The greatest k whose window's end is at or before the instant."""
        return (instant - self.offset - self.length) // self.slide


def pane_start(instant: Instant, length: int) -> Instant:
    """The start of the pane that holds the instant; panes are aligned to the epoch."""
    return instant - instant % length
