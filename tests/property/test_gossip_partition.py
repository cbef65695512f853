"""Interval partition against a dumb twin: whatever the tables, everybody once, and it ends.

The twin walks the ring: all peers between two places. Tables are random but right about the
successor; who is dead is random, and nobody knows it.
"""

from collections import Counter, deque
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.control.gossip.config import GossipConfig
from shoal.control.gossip.messages import Broadcast, Fact, Version
from shoal.control.gossip.policy import Order, assign, order_of
from shoal.control.gossip.state import Store
from shoal.kernel.keys import Contact, Key, key_of_name
from shoal.kernel.time import HOUR, MINUTE
from shoal.sim.baselines.still import Still

LONG = 1_000_000 * HOUR
SLOW = GossipConfig(compare_every_us=LONG, removed_life_us=30 * LONG)


@st.composite
def rings(draw: st.DrawFn) -> tuple[list[Contact], list[Order]]:
    """Peers in the ring's order, and what each knows: its successor, and any others."""
    count = draw(st.integers(2, 24))
    first = draw(st.integers(0, 1_000))
    contacts = [Contact(f"n{first + number}", "", 1) for number in range(count)]
    contacts.sort(key=lambda contact: contact.key)
    orders = []
    for place, contact in enumerate(contacts):
        known = draw(st.lists(st.sampled_from(contacts), max_size=8))
        orders.append(order_of(contact.key, [contacts[(place + 1) % count], *known]))
    return contacts, orders


@pytest.mark.slow
@given(rings(), st.integers(0, 23))
def test_G1_every_peer_is_given_the_facts_once_whatever_else_is_known(
    ring: tuple[list[Contact], list[Order]], start: int
) -> None:
    contacts, orders = ring
    order_at = {order.me: order for order in orders}
    origin = contacts[start % len(contacts)]
    given_to: Counter[str] = Counter()
    queue: deque[tuple[Key, Key, Key]] = deque([(origin.key, origin.key, origin.key)])
    while queue:
        me, low, high = queue.popleft()
        for share in assign(order_at[me], low, high, {}):
            given_to[share.to.name] += 1
            queue.append((share.to.key, share.low, share.high))
        assert sum(given_to.values()) <= len(contacts), "it does not end"
    others = [contact.name for contact in contacts if contact is not origin]
    assert given_to == dict.fromkeys(others, 1)


@pytest.mark.slow
@given(rings(), st.data())
def test_parts_and_the_places_between_them_make_up_the_interval(
    ring: tuple[list[Contact], list[Order]], data: st.DataObject
) -> None:
    """Also with absent peers, and where the interval begins elsewhere: nothing falls between."""
    contacts, orders = ring
    order = data.draw(st.sampled_from(orders))
    low, high = (key_of_name(data.draw(st.text(max_size=3))) for _ in range(2))
    if data.draw(st.booleans()):
        low = order.me
    names = [contact.name for contact in contacts]
    absent = dict.fromkeys(data.draw(st.lists(st.sampled_from(names), max_size=6)))
    shares = assign(order, low, high, absent)
    parts = [share for share in shares if not share.copy]
    assert all(share.to.name not in absent for share in parts)
    assert all(share.to.name in absent for share in shares if share.copy)
    assert all(before.high == after.low for before, after in pairwise(parts))
    if parts:
        assert parts[-1].high == high
        assert parts[0].low in (low, parts[0].to.key)


@pytest.mark.slow
@given(st.integers(0, 1 << 20), st.integers(2, 40), st.floats(0.0, 0.6))
def test_G2_every_living_peer_is_reached_though_nobody_repairs_a_table(
    seed: int, count: int, share: float
) -> None:
    still = Still([f"n{seed}.{number}" for number in range(count)], config=SLOW, seed=seed)
    still.settle()
    names = [contact.name for contact in still.contacts]
    dead = still.rng.sample(names, min(int(count * share), 15))  # one less than successors known
    still.dead.update(dict.fromkeys(dead))
    still.ask(still.rng.choice(still.living), Broadcast("query", "q1", b"x"))
    still.run(still.now + 5 * MINUTE)
    assert [name for name in still.living if ("query", "q1") not in still.facts(name)] == []
    assert all(
        not machine.view().open
        for machine in still.machines.values()
        if machine.me.name in still.living
    )


_FACTS = st.builds(
    lambda key, counter, writer, removed: Fact(
        "t", key, Version(counter, writer, 1), None if removed else f"{counter}{writer}".encode()
    ),
    st.sampled_from("abc"),
    st.integers(1, 4),
    st.sampled_from(("p1", "p2")),
    st.booleans(),
)


@pytest.mark.slow
@given(st.lists(_FACTS, max_size=12), st.randoms(use_true_random=False))
def test_G3_two_stores_that_saw_the_same_in_any_order_are_the_same(
    facts: list[Fact], random: object
) -> None:
    """The twin is a dict of maxima. One version has one body, as honest writers see to it."""
    bodies: dict[tuple[str, Version], Fact] = {}
    told = [bodies.setdefault((fact.key, fact.version), fact) for fact in facts]
    mixed = list(told)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    one, other = (Store(facts_max=99, removed_life_us=HOUR, row_us=1) for _ in range(2))
    twin: dict[str, Fact] = {}
    for fact in told:
        one.take(fact, 0)
        if fact.key not in twin or twin[fact.key].version < fact.version:
            twin[fact.key] = fact
    for fact in mixed:
        other.take(fact, 0)
    assert sorted(one, key=lambda fact: fact.key) == [twin[key] for key in sorted(twin)]
    assert one.digest == other.digest
    assert one.differing(other.prints) == []
    one.validate_all()
    other.validate_all()
