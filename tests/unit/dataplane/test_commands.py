"""Commands are data: nobody can change one on its way, and no kind of them is forgotten."""

from dataclasses import FrozenInstanceError
from typing import Any, get_args

import pytest

from shoal.dataplane import commands as c
from tests.property.streams import READINGS

_PARTS = ("Command", "Component", "Delivery", "Sink")


def test_every_command_is_in_the_union() -> None:
    components = get_args(c.Component)
    listed = [getattr(c, name) for name in c.__all__ if name not in _PARTS]
    commands = [kind for kind in listed if kind not in components]
    assert sorted(kind.__name__ for kind in get_args(c.Command)) == sorted(
        kind.__name__ for kind in commands
    )


@pytest.mark.parametrize("name", [n for n in c.__all__ if n not in ("Command", "Component")])
def test_no_command_can_be_changed_or_hold_more(name: str) -> None:
    kind: Any = getattr(c, name)
    assert kind.__dataclass_params__.frozen
    assert "__slots__" in vars(kind)


def test_a_command_is_compared_by_what_it_says_and_can_be_a_key() -> None:
    def start(path: str) -> c.AddDeliveries:
        sink = c.Sink(kind="jsonl", options={"path": path})
        one = c.Delivery(
            delivery="hot-1",
            query="hot",
            version=1,
            input="select-1",
            columns=READINGS.columns,
            timestamp="ts",
            sink=sink,
        )
        return c.AddDeliveries(instance="deliver-1", deliveries=(one,))

    assert {start("/x"): 1}[start("/x")] == 1
    assert start("/x") != start("/y")
    stop = c.Stop(instance="a")
    with pytest.raises(FrozenInstanceError):
        stop.instance = "b"  # type: ignore[misc]
