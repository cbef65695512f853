"""The paper's dissemination, held against what can be counted by hand and what was measured."""

import pytest

from shoal.kernel.keys import KEY_BITS, key_of_name
from shoal.kernel.rng import Rng
from shoal.sim.baselines.dhtjoin import METHODS, Outcome, Reduce, flood, partition
from shoal.sim.baselines.still import Tables, tables_of

PEERS = 1_024
#: Peers at equal distances: fingers are exactly 1, 2, 4, ... 512 places ahead.
FULL = tables_of([(place << (KEY_BITS - 10)).to_bytes(20) for place in range(PEERS)], 16)
RANDOM = tables_of(sorted(key_of_name(f"p{number}") for number in range(256)), 16)


def flooded(method: str, tables: list[Tables] = FULL, *dead: int) -> Outcome:
    return flood(tables, method, origin=3, dead=dict.fromkeys(dead), rng=Rng(1))


@pytest.mark.parametrize(
    ("method", "messages", "hops"),
    [
        ("successor", 1_024, 1_023),
        ("succ+pred", 1_025, 512),
        ("m/2 largest", 4_480, 66),
        ("m fingers", 9_728, 10),
        ("m fingers+pred", 10_659, 8),
        ("m_OPT (b)", 10_052, 8),
        ("m_OPT (c)", 9_103, 8),
    ],
)
def test_on_the_full_ring_as_it_was_measured_before(method: str, messages: int, hops: int) -> None:
    """An independent prototype found the same numbers; everybody is reached."""
    outcome = flooded(method)
    assert outcome == Outcome(PEERS, PEERS, messages, messages - (PEERS - 1), hops)


def test_the_literal_reading_of_the_optimisation_reaches_hardly_anybody() -> None:
    """The intersection of two finger tables is almost empty: reading (a) cannot be meant."""
    outcome = flooded("m_OPT (a)")
    assert (outcome.reached, outcome.messages, outcome.hops) == (12, 22, 1)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_counts_every_message_once(method: str) -> None:
    """Each message is the first at somebody, redundant, or went to a dead peer."""
    whole, some = flooded(method, RANDOM), flooded(method, RANDOM, 7, 8, 9)
    assert whole.messages == whole.redundant + whole.reached - 1
    assert some.messages >= some.redundant + some.reached - 1
    assert some.reached <= some.living == 253


def test_a_peer_never_sends_back_to_whoever_it_heard_from() -> None:
    """Two peers: one message, and no answer to it."""
    two = tables_of(sorted(key_of_name(name) for name in ("a", "b")), 16)
    outcome = flood(two, "m fingers+pred", origin=0, dead={}, rng=Rng(1))
    assert (outcome.messages, outcome.reached) == (1, 2)


def test_reductions_take_messages_away_and_nobody() -> None:
    all_of_it = flooded("m fingers+pred", RANDOM)
    sender, path = flooded("m_OPT (b)", RANDOM), flooded("m_OPT (c)", RANDOM)
    assert all_of_it.messages > sender.messages > path.messages
    assert all_of_it.hit == sender.hit == path.hit == 1.0
    assert [reduce for _, reduce in METHODS.values()].count(Reduce.NOT) == 7


def test_partition_without_repair_is_exact_and_brittle() -> None:
    assert partition(FULL, origin=3, dead={}) == Outcome(PEERS, PEERS, PEERS - 1, 0, 10)
    dead = dict.fromkeys(place for place in Rng(1).sample(range(PEERS), 51) if place != 3)
    outcome = partition(FULL, origin=3, dead=dead)
    assert outcome.hit < 0.95
    assert outcome.redundant == 0


def test_the_same_seed_gives_the_same_figures() -> None:
    for method in ("fanout 2", "m/2 random"):
        assert flooded(method, RANDOM) == flooded(method, RANDOM)
