"""The states of gossip and what moves between them; docs/protocols/gossip.svg is drawn from it.

    holding     started; broadcasts wait for a first comparison, so that their versions are above
                all that this peer can know
    free        broadcasts are accepted at once
    in doubt    away for long; what is held may have been removed (compare.py)

Everything else is the same in the three running states.
"""

from collections.abc import Mapping
from enum import StrEnum

from shoal.control.gossip.compare import COMPARE
from shoal.control.gossip.messages import (
    MESSAGES,
    QUESTIONS,
    Broadcast,
    Buckets,
    Compare,
    Facts,
    Give,
    RouteLost,
    Routes,
    Same,
    Spread,
    Summary,
    Taken,
)
from shoal.control.gossip.spread import RETRY
from shoal.kernel.events import Started, Stopping, Unreachable

__all__ = ["BATCH", "DECIDED", "HOLD", "IGNORED", "ILLEGAL", "TABLE", "Input", "State"]

BATCH = "gossip/batch"
HOLD = "gossip/hold"

#: The class of a message, a question or an event, or the name of a timer.
Input = type | str


class State(StrEnum):
    """Whether what this peer holds is to be trusted, and with it the versions it would give."""

    IDLE = "idle"
    HOLDING = "holding"
    FREE = "free"
    DOUBT = "in doubt"
    STOPPED = "stopped"


_RUNNING = (State.HOLDING, State.FREE, State.DOUBT)

#: What every running state does alike, by input: the method.
_ALIKE: Mapping[Input, str] = {
    Spread: "_spread",
    Taken: "_taken",
    Compare: "_compare",
    Same: "_same",
    Buckets: "_buckets",
    Summary: "_summary",
    Give: "_given",
    Facts: "_facts",
    Routes: "_routed",
    RouteLost: "_route_lost",
    Unreachable: "_unreachable",
    RETRY: "_retry",
    COMPARE: "_compare_timer",
    BATCH: "_batch_timer",
}
#: (state, input) to (next state, method); None where the method decides.
TABLE: Mapping[tuple[State, Input], tuple[State | None, str]] = {
    (State.IDLE, Started): (State.HOLDING, "_started"),
    **{(state, one): (None, name) for state in _RUNNING for one, name in _ALIKE.items()},
    (State.HOLDING, Broadcast): (State.HOLDING, "_wait"),
    (State.FREE, Broadcast): (State.FREE, "_broadcast"),
    (State.DOUBT, Broadcast): (State.DOUBT, "_wait"),
    (State.HOLDING, HOLD): (State.FREE, "_release"),
    (State.DOUBT, HOLD): (State.DOUBT, "_release"),
    **{(state, Stopping): (State.STOPPED, "_stopping") for state in _RUNNING},
}
IGNORED: Mapping[tuple[State, Input], str] = {
    (State.FREE, HOLD): "the host had it in hand when a comparison was over",
    (State.IDLE, Unreachable): "nothing was sent yet",
    (State.IDLE, Stopping): "nothing was begun",
    **{
        (State.STOPPED, one): "this peer has said good-bye"
        for one in (*_ALIKE, HOLD, Stopping)
        if one is not Facts
    },
}
ILLEGAL: Mapping[tuple[State, Input], str] = {
    **{
        (State.IDLE, one): "a peer is started before anything else"
        for one in (*_ALIKE, Broadcast, HOLD)
        if one is not Unreachable
    },
    **{(state, Started): "a peer is started once" for state in (*_RUNNING, State.STOPPED)},
    **{(State.STOPPED, one): "the peer answers for it" for one in QUESTIONS},
}
#: Where TABLE leaves the next state to the method: what it may be, if it is another.
DECIDED: Mapping[tuple[State, Input], tuple[State, ...]] = {
    **{
        (state, message): (state, State.DOUBT)
        for state in (State.HOLDING, State.FREE)
        for message in MESSAGES.values()
    },
    **{
        (state, message): (state, State.FREE, State.DOUBT)
        for state in (State.HOLDING, State.DOUBT)
        for message in (Same, Buckets, Give)
    },
    (State.DOUBT, COMPARE): (State.DOUBT, State.FREE),
}
