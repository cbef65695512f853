"""Every number has a bound, and numbers that contradict each other are refused."""

from dataclasses import fields, replace

import pytest

from shoal.host.config import HostConfig, NetConfig
from shoal.kernel.errors import LocalError


def test_the_defaults_fit() -> None:
    HostConfig().check()


@pytest.mark.parametrize("name", [one.name for one in fields(NetConfig)])
def test_no_number_of_connections_is_nothing(name: str) -> None:
    with pytest.raises(LocalError):
        replace(NetConfig(), **{name: 0}).check()


@pytest.mark.parametrize(
    "changed",
    [
        {"dial_s": 1.0},
        {"waiting_bytes_max": 1_000},
        {"strangers_per_address_max": 1_000},
        {"dial_again_min_s": 100.0},
        {"sweep_s": 60.0},
    ],
)
def test_what_contradicts_itself(changed: dict[str, float]) -> None:
    with pytest.raises(LocalError):
        HostConfig(net=replace(NetConfig(), **changed)).check()


@pytest.mark.parametrize("changed", [{"inbox_bytes_max": 10}, {"drain_s": 0.0}])
def test_what_contradicts_itself_in_the_loop(changed: dict[str, float]) -> None:
    with pytest.raises(LocalError):
        replace(HostConfig(), **changed).check()
