"""The joined table: no tag twice, every tag in its owner's range, every machine's table in it."""

import pytest
from msgspec import Struct

from shoal.kernel.errors import LocalError
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.peer.build import PeerConfig, build_machines
from shoal.peer.messages import MESSAGES, RANGES, joined


class One(Struct, frozen=True, array_like=True):
    """A message."""


class Two(Struct, frozen=True, array_like=True):
    """Another message."""


def test_what_the_machines_of_a_peer_take_is_what_crosses_the_wire() -> None:
    """Nothing is sent that nobody takes, nothing is taken that cannot be sent."""
    machines = build_machines(Contact("p1", "h:1", 1), PeerConfig(), Rng(1))
    taken = {tag: kind for machine in machines for tag, kind in machine.messages.items()}
    assert taken == MESSAGES
    assert sum(len(machine.messages) for machine in machines) == len(MESSAGES)


def test_tags_belong_to_their_owners() -> None:
    """One can tell from a tag whose message it is."""
    for tag, kind in MESSAGES.items():
        assert kind.__module__ == f"shoal.control.{RANGES[tag >> 8]}.messages"


@pytest.mark.parametrize(
    "tables",
    [
        {"ring": {0x0201: One}},
        {"ring": {0x0101: One, 0x0102: One}},
        {"ring": {0x0101: One}, "gossip": {0x0301: One}},
        {"nobody": {0x0901: Two}},
    ],
    ids=["another's range", "one message twice", "in two machines", "no range"],
)
def test_a_table_that_would_mislead_is_refused(
    tables: dict[str, dict[int, type[Struct]]],
) -> None:
    """When Shoal is imported, not when a peer misreads another."""
    with pytest.raises(LocalError):
        joined(tables)
