"""The machine among others: everybody hears it, once; late joiners; batches; bounds; refusals."""

from dataclasses import replace
from typing import Any

import pytest

from shoal.control.gossip.config import GossipConfig
from shoal.control.gossip.machine import GossipMachine
from shoal.control.gossip.messages import (
    Accepted,
    Broadcast,
    Buckets,
    Fact,
    FactList,
    Facts,
    Give,
    Heard,
    RouteLost,
    Routes,
    Spread,
    Version,
)
from shoal.control.gossip.table import State
from shoal.kernel.effects import Answer, Effect, Send, SetTimer, Tell
from shoal.kernel.errors import LocalError, RemoteError, UserError
from shoal.kernel.events import Asked, Received, Started, Stopping, TimerFired, Unreachable
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import HOUR, MINUTE, SECOND
from shoal.sim.baselines.still import Still

CONFIG = GossipConfig()
#: Spreading alone: nobody compares within a test.
LONG = 1_000_000 * HOUR
SLOW = replace(CONFIG, compare_every_us=LONG, removed_life_us=30 * LONG)
NAMES = [f"p{number}" for number in range(40)]
ME = Contact("me", "me:1", 1)
OTHER = Contact("other", "other:1", 1)


def alone(config: GossipConfig = CONFIG) -> GossipMachine:
    """A machine that has started, alone, and accepts broadcasts."""
    machine = GossipMachine(ME, config, Rng(1))
    machine.handle(Started({}), 0)
    machine.handle(TimerFired("gossip/hold"), 0)
    return machine


def answers(effects: list[Effect]) -> list[Any]:
    return [effect.result for effect in effects if isinstance(effect, Answer)]


def news(effects: list[Effect]) -> list[Any]:
    return [effect.news for effect in effects if isinstance(effect, Tell)]


def settled(config: GossipConfig = SLOW, **options: Any) -> Still:
    still = Still(NAMES, config=config, **options)
    still.settle()
    return still


def holders(still: Still, key: str = "q1") -> list[str]:
    return [name for name in still.living if ("query", key) in still.facts(name)]


def test_G1_a_whole_ring_hears_it_once() -> None:
    still = settled()
    still.ask("p7", Broadcast("query", "q1", b"x"))
    still.run(still.now + SECOND)
    assert holders(still) == still.living
    assert still.sent == {"Spread": 39, "Taken": 39}
    assert max(still.hops.values()) <= 4


@pytest.mark.parametrize("seed", range(6))
def test_G2_every_living_peer_hears_it_whoever_is_dead(seed: int) -> None:
    still = settled(seed=seed)
    for name in Rng(seed, "dead").sample(NAMES, 15):
        still.dead[name] = None
    still.ask(still.living[0], Broadcast("query", "q1", b"x"))
    still.run(still.now + 2 * MINUTE)
    assert holders(still) == still.living
    assert "Compare" not in still.sent


@pytest.mark.parametrize("seed", range(4))
def test_G2_every_peer_hears_it_though_messages_are_lost(seed: int) -> None:
    still = settled(config=CONFIG, seed=seed)
    still.loss = 0.2
    still.ask("p3", Broadcast("query", "q1", b"x"))
    still.run(still.now + 3 * MINUTE)
    assert holders(still) == still.living


def test_facts_that_come_close_together_are_one_message_each_hop() -> None:
    still = settled()
    for number in range(20):
        still.ask("p7", Broadcast("query", f"q{number}", b"x"))
    still.run(still.now + SECOND)
    assert still.sent["Spread"] == 39
    assert all(len(still.facts(name)) == 20 for name in NAMES)


def test_large_facts_go_out_before_the_message_is_full() -> None:
    still = settled()
    for number in range(40):
        still.ask("p7", Broadcast("query", f"q{number}", bytes(16_000)))
    still.run(still.now + SECOND)
    assert still.sent["Spread"] == 3 * 39
    assert all(len(still.facts(name)) == 40 for name in NAMES)


def test_G2_a_late_joiner_hears_everything_from_its_neighbours() -> None:
    still = settled(config=CONFIG)
    still.dead["p5"] = None
    for number in range(10):
        still.ask("p7", Broadcast("query", f"q{number}", b"x"))
        still.ask("p7", Broadcast("query", f"q{number}", None if number % 2 else b"y"))
    still.run(still.now + 30 * SECOND)
    del still.dead["p5"]
    still.give("p5", Routes(None, (), ()))
    still.give("p5", Routes(None, tuple(still.contacts[:3]), ()))
    still.run(still.now + 10 * SECOND)
    assert still.machines["p5"].digest == still.machines["p7"].digest
    assert {name: fact.body for name, fact in still.facts("p5").items()} == {
        ("query", f"q{number}"): None if number % 2 else b"y" for number in range(10)
    }


def test_G3_two_writers_at_once_end_with_one_version_everywhere() -> None:
    still = settled()
    still.ask("p7", Broadcast("query", "q1", b"from p7"))
    still.ask("p9", Broadcast("query", "q1", b"from p9"))
    still.run(still.now + SECOND)
    assert [still.facts(name)["query", "q1"].body for name in NAMES] == [b"from p9"] * 40


def test_what_is_heard_is_told_once_and_in_versions_that_rise() -> None:
    still = settled()
    told: dict[str, list[Version]] = {}

    def heard(me: Contact, effect: Any) -> None:
        if isinstance(effect, Tell) and isinstance(effect.news, Heard):
            told.setdefault(me.name, []).append(effect.news.version)

    still.heard = heard
    for number in range(5):
        still.ask(f"p{number}", Broadcast("query", "q1", f"{number}".encode()))
        still.run(still.now + SECOND)
    for name in NAMES:
        assert [version.counter for version in told[name]] == [1, 2, 3, 4, 5]


def test_a_row_of_peers_that_lack_a_fact_ends_in_a_broadcast() -> None:
    """In a row alone it would take 200 comparisons one after the other."""
    names = [f"p{number}" for number in range(200)]
    still = Still(names, config=replace(SLOW, rows_max=4))
    still.settle()
    machine = still.machines["p0"]
    fact = Fact("query", "q1", Version(9, "x", 1), b"x")
    still.give("p0", Received(OTHER, Give(0, (fact,))))
    assert machine.version_of("query", "q1") == fact.version
    still.run(still.now + 10 * SECOND)
    assert [name for name in names if ("query", "q1") in still.facts(name)] == names
    assert still.sent["Spread"] > 0


def test_two_halves_that_meet_tell_each_other_everything_within_seconds() -> None:
    """Each of two neighbouring halves knows a hundred facts that the other has never heard of."""
    still = Still([f"p{number}" for number in range(200)], config=CONFIG)
    still.settle()
    for place, contact in enumerate(still.contacts):
        store = still.machines[contact.name]._store
        for number in range(100):
            name, writer = f"{place // 100}/{number}", f"w{place // 100}"
            store.take(Fact("query", name, Version(number + 1, writer, 1), b"x"), still.now)
    met = [still.contacts[place].name for place in (99, 199)]
    for name in met:
        still.give(name, Routes(None, (), ()))
        still.give(name, still._routed[name])
    still.run(still.now + 5 * SECOND)
    assert len(dict.fromkeys(machine.digest for machine in still.machines.values())) == 1
    assert len(still.facts("p0")) == 200


def test_broadcasts_wait_until_a_first_comparison_and_keep_their_order() -> None:
    machine = GossipMachine(ME, CONFIG, Rng(1))
    machine.handle(Started({}), 0)
    assert answers(machine.handle(Asked(1, Broadcast("query", "q1", b"a")), 0)) == []
    assert answers(machine.handle(Asked(2, Broadcast("query", "q1", b"b")), 0)) == []
    effects = machine.handle(TimerFired("gossip/hold"), CONFIG.hold_us)
    versions = [one.version.counter for one in answers(effects)]
    assert versions == [1, 2]
    assert [one.body for one in news(effects)] == [b"a", b"b"]


def test_alone_a_fact_waits_for_somebody_to_be_told() -> None:
    machine = alone()
    machine.handle(Asked(1, Broadcast("query", "q1", b"a")), 0)
    assert machine.handle(TimerFired("gossip/batch"), 5_000) == []
    assert machine.state is State.FREE
    effects = machine.handle(Routes(OTHER, (OTHER,), ()), HOUR)
    spreads = [one for one in effects if isinstance(one, Send) and isinstance(one.message, Spread)]
    assert [one.to for one in spreads] == [OTHER]


def test_facts_of_a_topic_are_answered_at_once() -> None:
    machine = alone()
    machine.handle(Asked(1, Broadcast("query", "b", b"x")), 0)
    machine.handle(Asked(2, Broadcast("query", "a", b"x")), 0)
    machine.handle(Asked(3, Broadcast("query", "c", None)), 0)
    (found,) = answers(machine.handle(Asked(4, Facts("query")), 0))
    assert isinstance(found, FactList)
    assert [fact.key for fact in found.facts] == ["a", "b"]
    assert answers(machine.handle(Asked(5, Facts("other")), 0)) == [FactList(())]


@pytest.mark.parametrize(
    ("question", "what"),
    [
        (Broadcast("", "q", b""), "topic"),
        (Broadcast("t" * 33, "q", b""), "topic"),
        (Broadcast("query", "", b""), "key has 1 to 128"),
        (Broadcast("query", "q" * 129, b""), "key has 1 to 128"),
        (Broadcast("query", "q", bytes(16_385)), "too large"),
    ],
)
def test_what_cannot_be_broadcast_is_refused_with_a_reason(question: Broadcast, what: str) -> None:
    (refusal,) = answers(alone().handle(Asked(1, question), 0))
    assert isinstance(refusal, UserError)
    assert what in str(refusal)


def test_a_full_store_refuses_new_names_and_takes_new_versions() -> None:
    machine = alone(replace(CONFIG, facts_max=1))
    machine.handle(Asked(1, Broadcast("query", "q1", b"x")), 0)
    (refusal,) = answers(machine.handle(Asked(2, Broadcast("query", "q2", b"x")), 0))
    assert isinstance(refusal, UserError)
    assert "no room" in str(refusal)
    (accepted,) = answers(machine.handle(Asked(3, Broadcast("query", "q1", b"y")), 0))
    assert accepted == Accepted(Version(2, "me", 1))


def test_a_store_that_filled_up_while_broadcasts_waited_refuses_them() -> None:
    machine = GossipMachine(ME, replace(CONFIG, facts_max=1), Rng(1))
    machine.handle(Started({}), 0)
    machine.handle(Asked(1, Broadcast("query", "q1", b"x")), 0)
    machine.handle(Asked(2, Broadcast("query", "q2", b"x")), 0)
    first, second = answers(machine.handle(TimerFired("gossip/hold"), 0))
    assert isinstance(first, Accepted)
    assert isinstance(second, UserError)


def test_what_no_honest_peer_says_is_refused_and_changes_nothing() -> None:
    machine = alone()
    good = Fact("query", "q1", Version(1, "x", 1), b"x")
    bad = Fact("query", "q2", Version(1 << 52, "x", 1), b"x")
    for message in (Spread("x", 1, 1, ME.key, ME.key, (good, bad), 1), Give(1, (good, bad))):
        with pytest.raises(RemoteError, match="counter"):
            machine.handle(Received(OTHER, message), 0)
    large = [Fact("query", f"q{n}", Version(1, "x", 1), bytes(100_000)) for n in range(7)]
    with pytest.raises(RemoteError, match="too large together"):
        machine.handle(Received(OTHER, Give(1, tuple(large))), 0)
    with pytest.raises(RemoteError, match="64 buckets"):
        machine.handle(Received(OTHER, Buckets(1, (0,), 1)), 0)
    assert machine.digest == 0


def test_a_new_version_is_above_all_that_was_seen_of_any_fact() -> None:
    machine = alone()
    seen = Fact("query", "q1", Version(70, "x", 1), b"x")
    machine.handle(Received(OTHER, Give(1, (seen,))), 0)
    (accepted,) = answers(machine.handle(Asked(1, Broadcast("other", "y", b"x")), 0))
    assert accepted.version.counter == 71


def test_G4_an_absence_and_its_end_are_noticed_by_the_machine() -> None:
    """After two hours of silence it asks before it says anything; broadcasts wait again."""
    machine = alone()
    machine.handle(Routes(OTHER, (OTHER,), ()), 0)
    machine.handle(Received(OTHER, Give(1, (Fact("query", "q1", Version(1, "x", 1), b"x"),))), 0)
    machine.handle(Received(OTHER, Give(1, ())), 2 * HOUR)
    assert machine.state is State.DOUBT
    assert answers(machine.handle(Asked(1, Broadcast("query", "q2", b"x")), 2 * HOUR)) == []
    assert answers(machine.handle(TimerFired("gossip/hold"), 2 * HOUR + CONFIG.hold_us)) != []


def test_stopping_lets_nothing_behind_that_was_accepted() -> None:
    machine = alone()
    machine.handle(Routes(OTHER, (OTHER,), ()), 0)
    machine.handle(Asked(1, Broadcast("query", "q1", b"x")), 0)
    effects = machine.handle(Stopping(), 1)
    assert any(isinstance(one, Send) and isinstance(one.message, Spread) for one in effects)


def test_hints_about_peers_go_to_the_duties() -> None:
    machine = alone()
    third = Contact("third", "third:1", 1)
    machine.handle(Routes(OTHER, (OTHER, third), ()), 0)
    machine.handle(Asked(1, Broadcast("query", "q1", b"x")), 0)
    machine.handle(TimerFired("gossip/batch"), 5_000)
    assert machine.view().open == 2
    machine.handle(Unreachable(OTHER), 6_000)
    machine.handle(RouteLost(third), 7_000)
    machine.handle(Unreachable(Contact("", "somewhere:1", 0)), 7_000)
    assert machine.view().repairs >= 2


def test_a_peer_that_comes_back_is_no_suspect_any_more() -> None:
    machine = alone()
    machine.handle(Routes(OTHER, (OTHER,), ()), 0)
    machine.handle(Unreachable(OTHER), 0)
    back = Contact("other", "other:1", 2)
    machine.handle(Routes(back, (back,), ()), 1)
    machine.handle(Asked(1, Broadcast("query", "q1", b"x")), 1)
    (spread,) = [
        one
        for one in machine.handle(TimerFired("gossip/batch"), 5_001)
        if isinstance(one, Send) and isinstance(one.message, Spread)
    ]
    assert spread.message.token != 0


def test_own_broadcasts_wait_while_there_are_too_many_duties() -> None:
    machine = alone(replace(CONFIG, duties_max=1))
    machine.handle(Routes(OTHER, (OTHER,), ()), 0)
    for request in (1, 2):
        machine.handle(Asked(request, Broadcast("query", f"q{request}", b"x")), request * SECOND)
        effects = machine.handle(TimerFired("gossip/batch"), request * SECOND + 5_000)
    assert SetTimer("gossip/batch", 2 * SECOND + 5_000 + CONFIG.ack_us) in effects
    assert machine.view().open == 1


@pytest.mark.parametrize(
    "event",
    [TimerFired("gossip/other"), Asked(1, Heard("a", "b", Version(1, "x", 1), None)), Heard],
)
def test_what_is_not_of_gossip_is_our_defect(event: Any) -> None:
    with pytest.raises(LocalError):
        alone().handle(event, 0)


def test_validate_finds_broadcasts_that_wait_for_nothing() -> None:
    machine = alone()
    machine.validate_all()
    machine._waiting.append((1, Broadcast("query", "q1", b"x")))
    with pytest.raises(LocalError, match="wait"):
        machine.validate()
