"""Exact sums and averages: which partials there are; their arithmetic is tested on Spark."""

import pytest

from shoal.query.windows.exact import average, average_type, sum_partials, sum_type, total


@pytest.mark.parametrize(
    ("type_", "summed", "averaged"),
    [
        ("TINYINT", "BIGINT", "DOUBLE"),
        ("BIGINT", "BIGINT", "DOUBLE"),
        ("DECIMAL(5,2)", "DECIMAL(15,2)", "DECIMAL(9,6)"),
        ("DECIMAL(28,3)", "DECIMAL(38,3)", "DECIMAL(32,7)"),
        ("DECIMAL(38,0)", "DECIMAL(38,0)", "DECIMAL(38,4)"),
        ("DECIMAL(38,38)", "DECIMAL(38,38)", "DECIMAL(38,38)"),
    ],
)
def test_types(type_: str, summed: str, averaged: str) -> None:
    assert (sum_type(type_), average_type(type_)) == (summed, averaged)


@pytest.mark.parametrize(
    ("type_", "kept"),
    [
        ("INT", ["BIGINT"]),
        ("BIGINT", ["BIGINT", "BIGINT"]),
        ("DECIMAL(28,3)", ["DECIMAL(38,3)"]),
        ("DECIMAL(29,3)", ["DECIMAL(38,0)", "DECIMAL(38,3)"]),
    ],
)
def test_two_partials_where_one_could_overflow(type_: str, kept: list[str]) -> None:
    assert [part.type for part in sum_partials("a0", "s.`x`", type_, "", "s.`x`")] == kept


def test_the_cut_of_a_wide_decimal_is_a_literal_of_its_scale() -> None:
    def upper(type_: str) -> str:
        return sum_partials("a0", "x", type_, "", "x")[0].make

    assert upper("DECIMAL(38,18)") == "sum(CAST(x div 100BD AS DECIMAL(28,0)))"
    assert upper("DECIMAL(38,20)") == "sum(CAST(x div 1BD AS DECIMAL(28,0)))"
    assert upper("DECIMAL(38,23)") == "sum(CAST(x div 0.001BD AS DECIMAL(28,0)))"


def test_texts_read_the_partials_of_their_name_only() -> None:
    for type_ in ("INT", "BIGINT", "DECIMAL(10,2)", "DECIMAL(38,10)"):
        for text in (total("a12", type_), average("a12", type_)):
            assert "`a12_" in text
            assert "s.`" not in text
