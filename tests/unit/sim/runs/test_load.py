"""The workload: rates, records that come back after a restart, and questions that stay open."""

from typing import Any, ClassVar

import pytest

from shoal.control.directory.messages import Find, OfferRecord, Publish, Watch, Withdraw, ident_of
from shoal.control.gossip.messages import Broadcast
from shoal.control.ring.messages import Located, Lookup
from shoal.kernel.effects import Answer
from shoal.kernel.errors import UserError
from shoal.kernel.events import Asked
from shoal.kernel.keys import Contact, key_of_name
from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND
from shoal.peer.peer import Peer
from shoal.sim.runs.load import Load
from shoal.sim.runs.scenario import Workload
from shoal.sim.world import Failed, World

EVERYTHING = Workload(
    lookups_per_s=5.0,
    records_per_peer=2,
    changes_per_s=2.0,
    finds_per_s=3.0,
    watches=2,
    broadcasts_per_s=1.0,
)


class OracleMachine:
    """Answers every question at once, or never."""

    name = "oracle"
    messages: ClassVar[Any] = {}
    questions = (Lookup, Publish, Withdraw, Find, Watch, Broadcast)
    silent = False
    asked: ClassVar[list[tuple[str, Any]]] = []

    def __init__(self, me: Contact) -> None:
        self.me = me

    def handle(self, event: Any, now: int) -> list[Any]:
        if type(event) is not Asked:
            return []
        self.asked.append((self.me.name, event.question))
        if self.silent:
            return []
        if type(event.question) is Lookup:
            owner = None if event.question.key[0] < 64 else self.me
            return [Answer(event.request, Located(event.question.key, owner, 3))]
        if type(event.question) is Find:
            return [Answer(event.request, UserError("no"))]
        return [Answer(event.request, event.question)]

    def validate(self) -> None:
        pass

    def view(self) -> Any:
        return Lookup(b"")


def loaded(workload: Workload, *, silent: bool = False) -> tuple[World, Load, list[Any]]:
    asked: list[Any] = []
    heard: list[str] = []

    def factory(me: Contact, seeds: Any, rng: Rng) -> Peer:
        machine = OracleMachine(me)
        machine.silent = silent
        machine.asked = asked  # type: ignore[misc]
        return Peer(me, [machine], story_lines_max=1)

    load = Load(workload, Rng(1, "load"), asked=heard.append)
    world = World(1, factory, checkers=[load])
    for _ in range(4):
        world.start(world.add_host(), [])
    world.run_for(2 * SECOND)
    load.begin(world.now + 100 * SECOND)
    return world, load, asked


def test_questions_come_at_their_rates_and_end() -> None:
    world, load, asked = loaded(EVERYTHING)
    world.run_for(200 * SECOND)
    count = {
        kind: sum(type(question) is kind for _, question in asked)
        for kind in (Lookup, Find, Broadcast, Watch)
    }
    assert 430 < count[Lookup] < 570
    assert 240 < count[Find] < 360
    assert 70 < count[Broadcast] < 130
    assert count[Watch] == 2
    assert load.figures()["lookups"] == count[Lookup]
    assert load.figures()["hops_mean"] == 3.0
    assert 0.15 < load.figures()["lookups_unanswered"] / count[Lookup] < 0.35
    assert load.figures()["answers_errors"] == count[Find]


def test_every_peer_publishes_its_records_at_its_start_and_again_after_a_restart() -> None:
    world, _, asked = loaded(Workload(records_per_peer=3))
    first = {name: question for name, question in asked if type(question) is Publish}
    assert sorted(first) == ["p0", "p1", "p2", "p3"]
    assert all(len(question.records) == 3 for question in first.values())
    world.crash(world.nodes[1])
    world.start(world.nodes[1], [])
    world.run_for(2 * SECOND)
    name, again = asked[-1]
    assert name == "p1"
    assert [ident_of(r) for r in again.records] == [ident_of(r) for r in first["p1"].records]
    assert all(record.owner.incarnation == 2 for record in again.records)


def test_what_was_withdrawn_is_not_published_again() -> None:
    world, _, asked = loaded(Workload(records_per_peer=2, changes_per_s=5.0))
    world.run_for(50 * SECOND)
    gone = {i for name, q in asked if type(q) is Withdraw and name == "p0" for i in q.idents}
    assert gone
    world.crash(world.nodes[0])
    before = len(asked)
    world.start(world.nodes[0], [])
    world.run_for(2 * SECOND)
    published = [q for name, q in asked[before:] if name == "p0" and type(q) is Publish]
    idents = {ident_of(record) for record in published[0].records}
    assert not idents & gone


def test_an_offer_stands_under_the_key_of_its_operator() -> None:
    _, _, asked = loaded(Workload(records_per_peer=30))
    records = [record for _, q in asked if type(q) is Publish for record in q.records]
    offers = [record for record in records if type(record) is OfferRecord]
    assert len(offers) > 10
    assert all(record.key == key_of_name(record.operator) for record in offers)


def test_a_question_that_stays_open_is_a_violation() -> None:
    world, _, _ = loaded(Workload(lookups_per_s=1.0), silent=True)
    with pytest.raises(Failed, match="is open for") as caught:
        world.run_for(100 * SECOND)
    assert 30 * SECOND < caught.value.at < 40 * SECOND


def test_a_question_to_a_peer_that_ends_is_closed() -> None:
    world, load, _ = loaded(Workload(lookups_per_s=1.0), silent=True)
    world.run_for(10 * SECOND)
    for node in world.nodes:
        world.crash(node)
    world.run_for(100 * SECOND)
    assert load.counts["lost with their peer"] == load.counts["asked Lookup"] > 0


def test_a_paused_peer_may_take_longer() -> None:
    world, load, _ = loaded(Workload(lookups_per_s=1.0))
    for node in world.nodes:
        world.pause(node)
    world.run_for(60 * SECOND)
    assert load.figures()["lookups"] == 0.0


def test_time_in_which_a_peer_was_slow_does_not_count_against_it() -> None:
    """It has all of its time from when it keeps up again; after that it is judged all the same."""
    world, _, _ = loaded(Workload(lookups_per_s=1.0), silent=True)
    for node in world.nodes:
        world.slow_down(node, 1_000)
    world.run_for(20 * SECOND)
    for node in world.nodes:
        world.slow_down(node, 0)
    with pytest.raises(Failed, match="is open for 30 s") as caught:
        world.run_for(100 * SECOND)
    assert 50 * SECOND < caught.value.at < 60 * SECOND


def test_whoever_waits_for_questions_hears_of_them() -> None:
    heard: list[str] = []
    load = Load(Workload(lookups_per_s=5.0), Rng(1, "load"), asked=heard.append)
    world = World(
        1, lambda me, seeds, rng: Peer(me, [OracleMachine(me)], story_lines_max=1), checkers=[load]
    )
    world.start(world.add_host(), [])
    load.begin(10 * SECOND)
    world.run_for(10 * SECOND)
    assert heard
    assert list(dict.fromkeys(heard)) == ["Lookup"]
