"""Sketches: which sizes state which errors, and what is refused. What they find: on Spark."""

import re
from decimal import Decimal

import pytest

from shoal.kernel.errors import UserError
from shoal.query.selection import Value
from shoal.query.windows.sketches import distinct, quantile, rankable


def registers(*fixed: Value) -> int:
    made = distinct("`a0_d`", "x", "", fixed).make
    found = re.fullmatch(r"hll_sketch_agg\(.*, (\d+)\)", made)
    assert found is not None
    return int(found[1])


def size(*fixed: Value) -> int:
    sketch = quantile("`a0_k`", "x", "BIGINT", "", fixed)
    made = re.fullmatch(r"kll_sketch_agg_bigint\(.*, (\d+)\)", sketch.make)
    merged = re.fullmatch(r"kll_merge_agg_bigint\(`a0_k`, (\d+)\)", sketch.merge)
    assert made is not None
    assert merged is not None
    assert made[1] == merged[1]
    return int(made[1])


def test_the_error_of_a_count_gives_its_registers() -> None:
    assert registers() == 12
    assert registers(0.39) == 4
    assert registers(0.05) == 9
    assert registers(Decimal("0.01")) == 14
    assert registers(0.001) == 21


@pytest.mark.parametrize("error", [0, 0.0001, 0.4, 2, -1, float("nan")])
def test_an_error_that_no_sketch_has_is_refused(error: float) -> None:
    with pytest.raises(UserError, match="error of approx_count_distinct is out of range"):
        registers(error)


def test_the_accuracy_of_a_percentile_gives_its_size() -> None:
    assert size(0.5) == 1000
    assert size(0.5, 1) == 8
    assert size(0.5, 100) == 269
    assert size(0.5, 10_000) == 30_565
    assert size(0.5, 20_000) < 65_536


@pytest.mark.parametrize("accuracy", [0, -5, 50_000, float("nan"), float("inf")])
def test_an_accuracy_that_no_sketch_has_is_refused(accuracy: float) -> None:
    with pytest.raises(UserError, match="accuracy of approx_percentile is out of range"):
        size(0.5, accuracy)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_between_0_and_1(share: float) -> None:
    with pytest.raises(UserError, match="share of approx_percentile is out of range"):
        size(share)


@pytest.mark.parametrize("value", [None, "0.5", True])
def test_a_share_is_a_number(value: Value) -> None:
    with pytest.raises(UserError, match="has to be a number"):
        size(value)


def test_what_can_be_ranked() -> None:
    yes = ("INT", "FLOAT", "DECIMAL(18,4)", "DATE", "TIMESTAMP")
    no = ("DECIMAL(19,4)", "STRING", "BINARY", "BOOLEAN")
    assert all(rankable(type_) for type_ in yes)
    assert not any(rankable(type_) for type_ in no)
