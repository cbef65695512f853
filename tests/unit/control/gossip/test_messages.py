"""Messages survive the wire, versions are ordered alike everywhere, and bounds hold."""

import itertools
from collections.abc import Callable

import pytest
from msgspec import Struct

from shoal.control.gossip.messages import (
    COUNTER_MAX,
    MESSAGES,
    NAME_CHARS_MAX,
    QUESTIONS,
    Buckets,
    Compare,
    Entry,
    Fact,
    Give,
    Same,
    Spread,
    Summary,
    Taken,
    Version,
    Want,
)
from shoal.kernel.errors import RemoteError
from shoal.kernel.keys import key_of_name
from shoal.wire.codec import Codec
from shoal.wire.frames import FrameReader

VERSION = Version(7, "p1", 2)
FACT = Fact("query", "q1", VERSION, b"select")
LOW, HIGH = key_of_name("p2"), key_of_name("p3")

EXAMPLES: list[Struct] = [
    Spread("p1", 1, 2, LOW, HIGH, (FACT, Fact("query", "q2", VERSION, None, 17, 3)), 4, ("p9",)),
    Taken(2),
    Compare(3, (1 << 64) - 1),
    Same(3),
    Buckets(3, tuple(range(64)), 1_000_000),
    Summary(3, (0, 63), (Entry("query", "q1", VERSION),)),
    Give(3, (FACT,), (Want("query", "q2", False),), True),
]


def decoded(message: Struct) -> Struct:
    codec = Codec(MESSAGES)
    (one,) = FrameReader().feed(codec.encode(message, 1))
    return codec.decode(one)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_a_message_survives_the_wire(message: Struct) -> None:
    assert decoded(message) == message


def test_every_message_has_an_example_and_a_tag_of_gossip() -> None:
    assert [type(message) for message in EXAMPLES] == list(MESSAGES.values())
    assert all(tag >> 8 == 3 for tag in MESSAGES)
    assert len(QUESTIONS) == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: Spread("p1", 1, 2, LOW[:-1], HIGH, (), 1),
        lambda: Spread("p1", 1, -2, LOW, HIGH, (), 1),
        lambda: Spread("p" * (NAME_CHARS_MAX + 1), 1, 2, LOW, HIGH, (), 1),
        lambda: Give(1, (Fact("query", "q", Version(COUNTER_MAX + 1, "p1", 1), None),)),
        lambda: Give(1, (Fact("t" * 33, "q", VERSION, None),)),
        lambda: Buckets(1, tuple(range(65)), 1),
        lambda: Summary(1, (64,), ()),
    ],
)
def test_what_is_out_of_bounds_is_the_senders_mistake(make: Callable[[], Struct]) -> None:
    with pytest.raises(RemoteError, match="cannot be read"):
        decoded(make())


def test_versions_have_one_order() -> None:
    """Counter first, then the writer, then its incarnation; never a draw between two writers."""
    versions = [Version(*parts) for parts in itertools.product((1, 2), ("p1", "p2"), (1, 2))]
    backwards = versions[::-1]
    assert sorted(backwards) == versions
    assert len(dict.fromkeys(versions)) == len(versions)


def test_a_fact_is_about_its_topic_and_key() -> None:
    assert FACT.name == ("query", "q1")
