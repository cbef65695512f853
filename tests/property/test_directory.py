"""The directory against a dumb twin: a plain dict with perfect knowledge.

Peers publish, withdraw, crash, stop, stand still and start again (with the disk they had, an older
one, or none) while messages are lost, doubled and overtake each other. Under it all the checker of
the simulator watches; when it is over, what everybody finds under every key is what the twin says.

The ring is a still one (`tests/still_ring.py`), so that what is found wrong is the directory's.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from shoal.control.directory.config import DirectoryConfig
from shoal.control.directory.machine import DirectoryMachine
from shoal.control.directory.messages import (
    Find,
    Found,
    Ident,
    OfferRecord,
    Publish,
    Record,
    StreamRecord,
    Withdraw,
    ident_of,
)
from shoal.kernel.keys import Contact, key_of_name
from shoal.kernel.rng import Rng
from shoal.kernel.time import MILLISECOND, SECOND
from shoal.peer.peer import Peer
from shoal.sim.checkers.directory import DirectoryChecker
from shoal.sim.checkers.honest import HonestChecker
from shoal.sim.network import Weather
from shoal.sim.node import DOWN, PAUSED, UP, Node
from shoal.sim.world import World
from tests.still_ring import StillRing

CONFIG = replace(
    DirectoryConfig(),
    renew_period=4 * SECOND,
    lease=24 * SECOND,
    suspect_lease=13 * SECOND,
    tombstone_life=60 * SECOND,
    beat_period=1 * SECOND,
    sync_period=3 * SECOND,
    vouch_life=9 * SECOND,
    learning_max=10 * SECOND,
    items_max=3,
)
PEERS = 5
KEYS = ("aes", "flow")
ROUGH = Weather(loss=0.1, duplicate=0.2, reorder=0.2, reorder_ms=3_000, heavy=0.01)
#: After the last trouble: every lease of the dead has ended, every owner has renewed.
SETTLED = CONFIG.lease + 6 * SECOND

peers = st.integers(0, PEERS - 1)
names = st.sampled_from(KEYS)
steps = st.one_of(
    st.tuples(st.just("publish"), peers, names, st.integers(0, 1)),
    st.tuples(st.just("withdraw"), peers, names, st.integers(0, 1)),
    st.tuples(st.just("crash"), peers, st.sampled_from(["same", "old", "empty"]), st.just(0)),
    st.tuples(st.just("stop"), peers, st.just(""), st.just(0)),
    st.tuples(st.just("start"), peers, st.just(""), st.just(0)),
    st.tuples(st.just("pause"), peers, st.just(""), st.just(0)),
    st.tuples(st.just("resume"), peers, st.just(""), st.just(0)),
    st.tuples(st.just("wait"), st.integers(1, 12), st.just(""), st.just(0)),
)


class Twin:
    """A mesh and, beside it, the dict."""

    def __init__(self, seed: int) -> None:
        self.roster: list[Contact] = []
        self.truth: dict[Ident, Record] = {}
        self.found: dict[int, Any] = {}
        self.world = World(
            seed,
            self._build,
            weather=ROUGH,
            checkers=[HonestChecker(), DirectoryChecker(CONFIG)],
            validate_every=1,
        )
        for _ in range(PEERS):
            self.start(self.world.add_host())
        self.world.run_for(2 * SECOND)

    def _build(self, me: Contact, seeds: Sequence[str], rng: Rng) -> Peer:
        ring = StillRing(me, self.roster, look_every=500 * MILLISECOND)
        directory = DirectoryMachine(me, CONFIG, rng.split("directory"))
        return Peer(me, [ring, directory], story_lines_max=20)

    def do(self, what: str, number: int, word: str, variant: int) -> None:
        """One step; those that make no sense now are left out."""
        if what == "wait":
            self.world.run_for(number * SECOND)
            return
        node = self.world.nodes[number]
        if what == "start" and node.state == DOWN:
            self.start(node)
        elif what == "resume" and node.state == PAUSED:
            self.resume(node)
        elif what not in ("start", "resume") and node.state == UP:
            getattr(self, what)(node, word, variant)
        self.world.run_for(50 * MILLISECOND)

    def publish(self, node: Node, word: str, variant: int) -> None:
        record = made(node.contact, word, variant)
        self.truth[ident_of(record)] = record
        self.world.ask(node, Publish((record,)), self)

    def withdraw(self, node: Node, word: str, variant: int) -> None:
        ident = ident_of(made(node.contact, word, variant))
        self.truth.pop(ident, None)
        self.world.ask(node, Withdraw((ident,)), self)

    def start(self, node: Node) -> None:
        self.world.start(node, [])
        self.roster.append(node.contact)

    def crash(self, node: Node, disk: str, _variant: int) -> None:
        if len(self.roster) <= 2:
            return
        node.disk.remember()
        self.world.crash(node)
        if disk == "old":
            node.disk.restore()
        elif disk == "empty":
            self.world.rename(node)
        self.gone(node)

    def stop(self, node: Node, _word: str, _variant: int) -> None:
        if len(self.roster) > 2:
            self.world.stop(node)
            self.gone(node)

    def pause(self, node: Node, _word: str, _variant: int) -> None:
        self.world.disturb("pause")
        self.world.pause(node)

    def resume(self, node: Node) -> None:
        self.world.resume(node)
        self.world.undisturb("pause")

    def gone(self, node: Node) -> None:
        """Its records end with it."""
        self.world.mark("lost")
        self.roster[:] = [one for one in self.roster if one.name != node.contact.name]
        for ident in [ident for ident in self.truth if ident.owner == node.contact.name]:
            del self.truth[ident]

    def settle(self) -> None:
        """Trouble is over; afterwards everybody is asked about everything."""
        for node in self.world.nodes:
            if node.state == PAUSED:
                self.resume(node)
        self.world.network.calm(Weather())
        self.world.calm()
        self.world.run_for(SETTLED)
        self.world.settle()
        for node in self.world.running():
            assert node.peer is not None
            machine = node.peer.machines["directory"]
            assert isinstance(machine, DirectoryMachine)
            machine.audit()
            for word in KEYS:
                request = self.world.ask(node, Find(key_of_name(word)), self)
                self.found[request] = (node.name, word)
        self.world.run_for(5 * SECOND)
        self.world.finish()

    def answered(self, node: Node, request: int, result: Struct) -> None:
        """Compare what was found in the end with the dict."""
        if request in self.found:
            name, word = self.found.pop(request)
            key = key_of_name(word)
            right = tuple(
                record for ident, record in sorted(self.truth.items()) if ident.key == key
            )
            assert result == Found(key, right), f"{name} asked for {word}"

    def lost(self, node: Node, request: int) -> None:
        """The peer has ended before it answered; nobody minds."""


def made(owner: Contact, word: str, variant: int) -> Record:
    """One of the records that a peer may have under a key."""
    key = key_of_name(word)
    return StreamRecord(key, owner, "thing") if variant else OfferRecord(key, owner, word)


@pytest.mark.slow
@settings(max_examples=60)
@given(seed=st.integers(0, 1 << 30), story=st.lists(steps, max_size=25))
def test_R1_D1_everybody_finds_what_the_dict_says(
    seed: int, story: list[tuple[str, int, str, int]]
) -> None:
    """Whatever happened before."""
    twin = Twin(seed)
    for step in story:
        twin.do(*step)
    twin.settle()
    assert not twin.found, "questions that nobody has answered"
