"""Reports are data: complete, unchangeable, and usable as keys although they hold mappings."""

from dataclasses import FrozenInstanceError
from typing import get_args

import pytest

from shoal.dataplane import reports as r


def test_every_report_is_in_the_union() -> None:
    listed = [n for n in r.__all__ if n not in ("Report", "ComponentView", "EngineView")]
    assert sorted(kind.__name__ for kind in get_args(r.Report)) == sorted(listed)


def step(instance: str) -> r.StepDone:
    return r.StepDone(
        instance=instance,
        kind="select",
        epoch=1,
        step=2,
        positions={"readings": 7},
        rows_in=10,
        rows_out=3,
        rows_history=0,
        roster_rows=1,
        roster_version=1,
        watermark=None,
        committed=5,
        source_committed=4,
        busy=0.1,
        seconds={"job": 0.1},
        counters={"late": 1},
        group=1,
    )


def test_a_report_is_data() -> None:
    assert {step("a"): 1}[step("a")] == 1
    assert step("a") != step("b")
    with pytest.raises(FrozenInstanceError):
        step("a").step = 3  # type: ignore[misc]
