"""Settings that cannot work are refused."""

from dataclasses import replace

import pytest

from shoal.control.ring.config import RingConfig
from shoal.kernel.errors import UserError
from shoal.kernel.time import SECOND


def test_the_defaults_keep_what_the_design_asks() -> None:
    config = RingConfig()
    config.check()
    assert config.round_period <= 2 * SECOND
    assert config.successors_max >= 16


@pytest.mark.parametrize(
    "change",
    [
        {"successors_max": 1},
        {"successors_max": 65},
        {"round_jitter": 0.6},
        {"timeout_min": 2 * SECOND},
        {"timeout_max": 3 * SECOND},
        {"suspicion": SECOND // 2},
        {"silence": 4 * SECOND},
        {"lookups_max": 0},
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(UserError):
        replace(RingConfig(), **change).check()
