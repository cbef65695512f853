"""The tables are total: every state has something to say about every input."""

import itertools

from shoal.control.gossip.machine import GossipMachine
from shoal.control.gossip.messages import MESSAGES, QUESTIONS, RouteLost, Routes
from shoal.control.gossip.table import DECIDED, IGNORED, ILLEGAL, TABLE, State
from shoal.kernel.events import Started, Stopping, Unreachable

INPUTS = (
    *MESSAGES.values(),
    *QUESTIONS,
    Started,
    Stopping,
    Unreachable,
    Routes,
    RouteLost,
    *(f"gossip/{timer}" for timer in ("retry", "compare", "batch", "hold")),
)


def test_every_pair_stands_in_exactly_one_table() -> None:
    for state, what in itertools.product(State, INPUTS):
        found = [(state, what) in table for table in (TABLE, IGNORED, ILLEGAL)]
        assert found.count(True) == 1, (state, what)
    assert len(TABLE) + len(IGNORED) + len(ILLEGAL) == len(State) * len(INPUTS)


def test_every_method_is_there_and_decisions_are_of_the_table() -> None:
    assert all(callable(getattr(GossipMachine, name)) for _, name in TABLE.values())
    assert all(TABLE[pair][0] is None for pair in DECIDED)
