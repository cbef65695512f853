"""What a machine of `control/` is to the peer that owns it.

A machine has a name. Its timers, its persisted keys and the things in its notes begin with it
(`ring/probe`). It is given
    - every `Started` and `Stopping`;
    - `Received` with a message of its table, `Asked` with a question of its table;
    - `TimerFired` of its timers, `Unreachable` of any peer;
    - news of siblings, translated into its own events by `peer/bridges.py`.

For a message that no rule allows it raises RemoteError, and is then as it was before: it judges
first and changes after. It raises nothing else, whatever a message says.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from shoal.kernel.effects import Effect
from shoal.kernel.time import Instant

__all__ = ["Machine"]


class Machine(Protocol):
    """A pure state machine."""

    #: First part of its timers and keys, and its place in the views.
    name: str
    #: Its messages by tag, and its questions.
    messages: Mapping[int, type[Struct]]
    questions: Sequence[type[Struct]]

    def handle(self, event: Struct, now: Instant) -> Sequence[Effect]:
        """Take an event in; return what is to be done about it, in order."""
        ...

    def validate(self) -> None:
        """Raise LocalError if an invariant does not hold."""
        ...

    def view(self) -> Struct:
        """A read-only picture of its state; holds no reference into it."""
        ...
