"""Whole peers on a network that loses nothing: the ring, records and facts of twenty."""

import dataclasses

import pytest

from shoal.control.directory.messages import (
    Find,
    Found,
    Publish,
    Published,
    StreamRecord,
    Withdraw,
    Withdrawn,
    ident_of,
)
from shoal.control.gossip.messages import Accepted, Broadcast, FactList, Facts, Spread
from shoal.control.ring.messages import Located, Lookup
from shoal.kernel.errors import LocalError
from shoal.kernel.keys import Contact, between, key_of_name
from shoal.kernel.rng import Rng
from shoal.kernel.time import MINUTE, SECOND
from shoal.peer.build import PeerConfig, build_machines, build_peer
from shoal.peer.peer import State
from shoal.peer.standing import StandingConfig
from tests.perfect import PerfectNetwork

COUNT = 20
NAMES = [f"p{number}" for number in range(COUNT)]


@pytest.fixture(scope="module")
def settled() -> PerfectNetwork:
    """Twenty peers that joined one after the other, a minute later."""
    net = PerfectNetwork(seed=1)
    for name in NAMES:
        net.start(name, *NAMES[: name != NAMES[0]])
        net.run_for(SECOND // 4)
    net.run_for(MINUTE)
    return net


def owner_of(name: str, peers: list[str]) -> str:
    """Who owns the key of a name: by looking at all keys, as no peer can."""
    places = sorted((key_of_name(peer), peer) for peer in peers)
    low = places[-1][0]
    for place, peer in places:
        if between(low, key_of_name(name), place):
            return peer
        low = place
    raise AssertionError("a ring without a place")


def locate(net: PerfectNetwork, name: str, thing: str) -> tuple[str, int]:
    """Where a peer finds a thing, and in how many hops."""
    found = net.ask(name, Lookup(key_of_name(thing)))
    assert isinstance(found, Located)
    assert found.owner is not None
    return found.owner.name, found.hops


def find(net: PerfectNetwork, name: str, thing: str) -> list[str]:
    """Who is recorded under a thing, as a peer sees it."""
    found = net.ask(name, Find(key_of_name(thing)))
    assert isinstance(found, Found)
    return [record.owner.name for record in found.records]


def bodies(net: PerfectNetwork, name: str, topic: str) -> list[bytes | None]:
    """The facts of a topic that a peer holds."""
    found = net.ask(name, Facts(topic))
    assert isinstance(found, FactList)
    return [fact.body for fact in found.facts]


def record_of(net: PerfectNetwork, name: str, thing: str) -> StreamRecord:
    """A peer's record that it produces a stream."""
    return StreamRecord(key_of_name(thing), net.peers[name].me, f"ingest-{name}")


@pytest.mark.slow
def test_every_look_up_is_right(settled: PerfectNetwork) -> None:
    """From everywhere, for many keys, against the one who sees all."""
    hops = []
    for number in range(COUNT):
        thing = f"stream {number}"
        for name in NAMES[number % 3 :: 3]:
            owner, count = locate(settled, name, thing)
            assert owner == owner_of(thing, NAMES)
            hops.append(count)
    assert sum(hops) / len(hops) < 4


@pytest.mark.slow
def test_records_are_found_by_all_until_they_are_withdrawn(settled: PerfectNetwork) -> None:
    """Two peers produce one stream; one of them stops doing so."""
    for name in ("p4", "p9"):
        done = settled.ask(name, Publish((record_of(settled, name, "meters"),)))
        assert isinstance(done, Published)
        assert (done.stored, done.waiting) == (1, 0)
    assert [sorted(find(settled, name, "meters")) for name in NAMES] == [["p4", "p9"]] * COUNT
    gone = settled.ask("p4", Withdraw((ident_of(record_of(settled, "p4", "meters")),)))
    assert isinstance(gone, Withdrawn)
    settled.run_for(5 * SECOND)
    assert [find(settled, name, "meters") for name in NAMES] == [["p9"]] * COUNT


@pytest.mark.slow
def test_a_broadcast_reaches_everybody_once(settled: PerfectNetwork) -> None:
    """N - 1 messages carry it; its removal does the same."""
    before = settled.sent[Spread]
    assert isinstance(settled.ask("p3", Broadcast("query", "q1", b"text")), Accepted)
    settled.run_for(5 * SECOND)
    assert [bodies(settled, name, "query") for name in NAMES] == [[b"text"]] * COUNT
    assert settled.sent[Spread] - before == COUNT - 1
    settled.ask("p7", Broadcast("query", "q1", None))
    settled.run_for(5 * SECOND)
    assert [bodies(settled, name, "query") for name in NAMES] == [[]] * COUNT
    assert settled.sent[Spread] - before == 2 * (COUNT - 1)


@pytest.mark.slow
def test_idle_peers_say_little(settled: PerfectNetwork) -> None:
    """A mesh in which nothing happens costs a few messages per peer and second."""
    before = settled.sent.total()
    settled.run_for(MINUTE)
    assert (settled.sent.total() - before) / COUNT / 60 < 5


@pytest.mark.slow
def test_peers_that_go_take_nothing_with_them() -> None:
    """One leaves, two crash; the others agree on the ring, the records and the facts."""
    net = PerfectNetwork(seed=2)
    names = NAMES[:10]
    for name in names:
        net.start(name, *names[: name != names[0]])
        net.run_for(SECOND // 4)
    net.run_for(MINUTE)
    net.ask("p0", Publish((record_of(net, "p0", "meters"),)))
    net.ask("p0", Broadcast("query", "q1", b"text"))
    net.run_for(SECOND)
    net.stop("p1")
    first = owner_of("meters", [name for name in names if name not in ("p0", "p1")])
    gone = [first, *[name for name in ("p2", "p3", "p4") if name != first][:1]]
    for name in gone:
        net.crash(name)
    net.run_for(2 * MINUTE)
    left = [name for name in names if name in net.peers]
    assert len(left) == 7
    assert [find(net, name, "meters") for name in left] == [["p0"]] * 7
    assert [bodies(net, name, "query") for name in left] == [[b"text"]] * 7
    assert [locate(net, name, "x")[0] for name in left] == [owner_of("x", left)] * 7


def test_a_peer_has_the_three_machines_in_order() -> None:
    """The ring first: the others stand on it. Each draws from its own stream."""
    me = Contact("p1", "h:1", 1)
    machines = build_machines(me, PeerConfig(), Rng(1))
    assert [machine.name for machine in machines] == ["ring", "directory", "gossip"]
    peer = build_peer(me, PeerConfig(), Rng(1))
    assert list(peer.machines) == ["ring", "directory", "gossip"]
    assert peer.state is State.NEW


def test_a_config_is_checked_before_anything_is_built() -> None:
    """Also what no part can see alone."""
    config = PeerConfig()
    config.check()
    assert config.joining("a:1", "b:2").ring.seeds == ("a:1", "b:2")
    ring = dataclasses.replace(config.ring, successors_max=config.directory.copies - 1)
    for wrong in (
        dataclasses.replace(config, story_lines_max=0),
        dataclasses.replace(config, standing=StandingConfig(forgive_s=0)),
        dataclasses.replace(config, ring=ring),
    ):
        with pytest.raises(LocalError):
            build_peer(Contact("p1", "h:1", 1), wrong, Rng(1))
