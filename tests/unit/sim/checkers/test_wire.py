"""Messages that do not survive the wire are found where they are sent."""

from collections.abc import Sequence

import pytest
from msgspec import Struct

from shoal.kernel.effects import Send
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND
from shoal.sim.checkers.checker import Violation
from shoal.sim.checkers.wire import WireChecker
from shoal.sim.node import Node
from shoal.sim.world import World
from shoal.wire.frames import FRAME_BYTES_MAX
from tests.unit.sim.toy import Ping, Pong, toy_peer

TO = Contact("p1", "host1:1", 1)
NODE = Node(0, Rng(1, "host/0"))


class Loose(Struct, frozen=True, array_like=True):
    """A message whose field comes back as another type."""

    numbers: Sequence[int]


class Long(Struct, frozen=True, array_like=True):
    """A message that can be too long for a frame."""

    text: str


def check(message: Struct) -> None:
    checker = WireChecker(every=1, messages={1: Ping, 2: Loose, 3: Long})
    checker.after_event(NODE, message, [Send(TO, message)])


def test_messages_that_come_back_as_they_were() -> None:
    check(Ping(7))
    check(Long("short"))
    check(Loose([1, 2]))


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (Pong(1), "has no tag"),
        (Loose((1, 2)), "comes back as"),
        (Long("x" * FRAME_BYTES_MAX), "too long"),
        (Ping("seven"), "cannot be read"),  # type: ignore[arg-type]
    ],
)
def test_messages_that_do_not_are_found(message: Struct, said: str) -> None:
    with pytest.raises(Violation, match=said):
        check(message)


def test_the_first_of_each_kind_is_looked_at_and_then_one_in_so_many() -> None:
    checker = WireChecker(every=10, messages={0x0E01: Ping, 0x0E02: Pong})
    world = World(1, toy_peer, checkers=[checker])
    for index in range(2):
        world.start(world.add_host(), [f"host{1 - index}:1"])
    world.run_for(30 * SECOND)
    assert checker.figures() == {"message_kinds": 2.0}
