"""Whatever a peer with a certificate says to gossip: refused, or handled within bounds.

A message is refused with RemoteError and leaves no trace, or the machine goes on: it validates, all
it says fits into frames, and what it holds stays below its limits.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from shoal.control.gossip.config import GossipConfig
from shoal.control.gossip.machine import GossipMachine
from shoal.control.gossip.messages import (
    MESSAGES,
    Broadcast,
    Buckets,
    Compare,
    Entry,
    Fact,
    Give,
    RouteLost,
    Routes,
    Same,
    Spread,
    Summary,
    Taken,
    Version,
    Want,
)
from shoal.kernel.effects import Effect, Send, SetTimer
from shoal.kernel.errors import RemoteError
from shoal.kernel.events import Asked, Received, Started, TimerFired, Unreachable
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import HOUR
from shoal.wire.codec import Codec

PEERS = [Contact(f"p{number}", f"p{number}:1", 1) for number in range(6)]
ME = PEERS[0]
CONFIG = GossipConfig(facts_max=20, waves_max=5, duties_max=30)

contacts = st.sampled_from(PEERS)
places = st.one_of(st.sampled_from([one.key for one in PEERS]), st.binary(min_size=20, max_size=20))
names = st.sampled_from(["p0", "p1", "p2", "x", "", "\U0001f41f" * 128])
counts = st.one_of(st.integers(0, 5), st.sampled_from([1_000_000_001, 1 << 40, 1 << 53]))
topics = st.sampled_from(["query", "t"])
versions = st.builds(Version, counts, names, counts)
bodies = st.one_of(st.none(), st.binary(max_size=4), st.just(bytes(50_000)))
facts = st.builds(Fact, topics, names, versions, bodies, counts, counts)
some = st.lists(facts, max_size=4).map(tuple)
prints = st.lists(st.integers(0, 1 << 63), min_size=63, max_size=64).map(tuple)
entries = st.lists(st.builds(Entry, topics, names, versions), max_size=6).map(tuple)
wants = st.lists(st.builds(Want, topics, names, st.booleans()), max_size=6).map(tuple)
buckets = st.lists(st.integers(0, 63), max_size=64).map(tuple)
lost = st.lists(names, max_size=40).map(tuple)
messages: st.SearchStrategy[Struct] = st.one_of(
    st.builds(Spread, names, counts, counts, places, places, some, counts, lost),
    st.builds(Taken, counts),
    st.builds(Compare, counts, st.integers(0, 1 << 63)),
    st.builds(Same, counts),
    st.builds(Buckets, counts, prints, counts),
    st.builds(Summary, counts, buckets, entries),
    st.builds(Give, counts, some, wants, st.booleans()),
)
events: st.SearchStrategy[Any] = st.one_of(
    st.builds(Received, contacts, messages),
    st.builds(Received, contacts, messages),
    st.just("timers"),
    st.builds(Unreachable, contacts),
    st.builds(RouteLost, contacts),
    st.builds(Routes, contacts, st.lists(contacts, max_size=3).map(tuple), st.just(())),
    st.builds(Asked, st.integers(1, 1), st.builds(Broadcast, topics, names, bodies)),
)
waits = st.sampled_from([0, 1_000, 600_000, 40_000_000, HOUR])


@pytest.mark.slow
@given(st.lists(st.tuples(events, waits), max_size=25))
def test_whatever_is_said_it_is_refused_or_handled_within_bounds(
    story: list[tuple[Any, int]],
) -> None:
    machine = GossipMachine(ME, CONFIG, Rng(1))
    codec = Codec(MESSAGES)
    timers: dict[str, int] = {}
    now = 0

    def take(event: Struct) -> None:
        try:
            effects = machine.handle(event, now)
        except RemoteError:
            effects = []
        machine.validate_all()
        keep(effects)

    def keep(effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SetTimer):
                timers[effect.timer] = effect.at
            elif isinstance(effect, Send):
                codec.encode(effect.message, 1)  # LocalError if it is too long

    take(Started({}))
    take(Routes(PEERS[1], tuple(PEERS[1:4]), tuple(PEERS[4:])))
    for event, wait in story:
        now += wait
        if event == "timers":
            for timer in [name for name, at in timers.items() if at <= now]:
                del timers[timer]
                take(TimerFired(timer))
        else:
            take(event)
    view = machine.view()
    assert view.facts <= 20
    assert view.open <= 30 + 2 * len(PEERS)
    assert len(machine._spreading._waves) <= 5
