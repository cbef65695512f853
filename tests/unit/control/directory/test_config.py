"""Numbers that contradict each other are refused when a peer is built, not when they hurt."""

from dataclasses import replace

import pytest

from shoal.control.directory.config import HAVE_BYTES_MAX, ITEM_BYTES_REST, DirectoryConfig
from shoal.control.directory.messages import Have, Push
from shoal.control.directory.policy import INCARNATION_MAX
from shoal.kernel.errors import LocalError
from shoal.kernel.events import AWAY
from shoal.kernel.time import SECOND
from shoal.peer.messages import MESSAGES
from shoal.wire.codec import Codec
from shoal.wire.frames import FRAME_BYTES_MAX
from tests.unit.control.directory.pieces import item, offer


def test_the_numbers_as_they_are_fit_together() -> None:
    DirectoryConfig().check()


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("copies", 0, "copies"),
        ("lease", 60 * SECOND, "lease is too short"),
        ("suspect_lease", 26 * SECOND, "suspect_lease"),
        ("tombstone_life", 100 * SECOND, "tombstone_life"),
        ("push_timeout", 2 * SECOND, "less than copying"),
        ("learning_max", 20 * SECOND, "learning_max"),
        ("vouch_life", 20 * SECOND, "vouch_life"),
        ("watch_lease", 20 * SECOND, "watch_lease"),
        ("items_max", 5_000, "items_max"),
        ("haves_max", 100_000, "haves_max"),
        ("beat_period", 0, "beat_period"),
        ("beat_period", 20 * SECOND, "beat_period"),
    ],
)
def test_what_contradicts_itself_is_named(name: str, value: int, what: str) -> None:
    with pytest.raises(LocalError, match=what):
        replace(DirectoryConfig(), **{name: value}).check()


def test_a_withdrawal_is_remembered_until_no_host_hands_on_what_was_before_it() -> None:
    short = replace(
        DirectoryConfig(),
        renew_period=4 * SECOND,
        lease=24 * SECOND,
        suspect_lease=12 * SECOND,
        beat_period=SECOND,
        tombstone_life=24 * SECOND + AWAY,
    )
    short.check()
    with pytest.raises(LocalError, match="hands on what waited"):
        replace(short, tombstone_life=24 * SECOND + AWAY - 1).check()


def test_the_largest_message_fits_a_frame() -> None:
    """The bytes that `check` reckons with are those that the codec makes."""
    config = DirectoryConfig()
    name = "n" * config.name_bytes_max
    record = offer(name, name, load=0.125, life=INCARNATION_MAX - 1)
    largest = item(record, INCARNATION_MAX - 1, left=INCARNATION_MAX - 1)
    codec = Codec(MESSAGES)
    data = codec.encode(Push(1 << 60, record.key, (largest,) * config.items_max), 1)
    assert len(data) <= config.items_max * (ITEM_BYTES_REST + 3 * config.name_bytes_max) + 100
    assert len(data) < FRAME_BYTES_MAX
    have = Have((1 << 64) - 1, INCARNATION_MAX, INCARNATION_MAX, 1)
    assert len(Codec({1: Have}).encode(have, 1)) - 16 <= HAVE_BYTES_MAX
