"""Numbers that do not fit together are refused when a peer is built, not when they hurt."""

from dataclasses import replace

import pytest

from shoal.control.gossip.config import GossipConfig
from shoal.kernel.errors import LocalError
from shoal.kernel.time import HOUR, MINUTE, SECOND
from shoal.wire.frames import FRAME_BYTES_MAX


def test_the_numbers_as_they_are_fit_together() -> None:
    GossipConfig().check()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ack_us", 0),
        ("ack_us", 2 * MINUTE),
        ("tries", 0),
        ("suspect_us", SECOND // 2),
        ("watch_us", -1),
        ("batch_us", 2 * SECOND),
        ("compare_soon_us", 0),
        ("compare_every_us", 5 * SECOND),
        ("compare_tries", 11),
        ("rows_max", 1),
        ("hold_us", -1),
        ("removed_life_us", 5 * MINUTE),
        ("message_bytes_max", 16_384),
        ("message_bytes_max", FRAME_BYTES_MAX),
        ("facts_max", 0),
        ("facts_max", 1 << 20),
        ("waves_max", 0),
        ("duties_max", 0),
    ],
)
def test_a_number_out_of_range_is_named(name: str, value: int) -> None:
    with pytest.raises(LocalError, match=name):
        replace(GossipConfig(), **{name: value}).check()


def test_away_is_half_of_what_is_remembered() -> None:
    """Whoever was away for less has missed no removal that its neighbours have forgotten."""
    assert replace(GossipConfig(), removed_life_us=HOUR).away_us == HOUR // 2
