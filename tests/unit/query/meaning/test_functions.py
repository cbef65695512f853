"""What the listed functions give, at the edges of their arguments."""

import math
from decimal import Decimal
from typing import Any

import pytest

from shoal.kernel.time import DAY, HOUR
from shoal.query import functions as listed
from shoal.query.meaning.casts import Raised
from shoal.query.meaning.functions import FUNCTIONS

LEAP = 19782  # 2024-02-29


@pytest.mark.parametrize(
    ("name", "args", "result"),
    [
        ("floor", (-1.5,), -2),
        ("ceil", (Decimal("1.2"),), Decimal(2)),
        ("round", (2.5, 0), 3.0),
        ("round", (Decimal("-1.25"), 1), Decimal("-1.3")),
        ("bround", (2.5, 0), 2.0),
        ("pmod", (-7, 3), 2),
        ("pmod", (-7.5, 2.0), 0.5),
        ("sqrt", (4.0,), 2.0),
        ("ln", (0.0,), None),
        ("exp", (1e9,), math.inf),
        ("signum", (-3.0,), -1.0),
        ("pow", (0.0, -1.0), math.inf),
        ("length", ("é",), 1),
        ("trim", ("  a ",), "a"),
        ("instr", ("abc", "c"), 3),
        ("left", ("abc", 2), "ab"),
        ("right", ("abc", 0), ""),
        ("substring", ("abc", 2), "bc"),
        ("substring", ("abc", -5, 3), "a"),
        ("substring", ("abc", 0, 2), "ab"),
        ("translate", ("abc", "ab", "x"), "xc"),
        ("concat", ("a", "b", "c"), "abc"),
        ("dayofweek", (LEAP,), 5),
        ("weekday", (LEAP,), 3),
        ("dayofyear", (LEAP,), 60),
        ("weekofyear", (LEAP,), 9),
        ("last_day", (LEAP - 10,), LEAP),
        ("hour", (LEAP * DAY + 5 * HOUR,), 5),
        ("minute", (-1,), 59),
        ("unix_seconds", (-1,), -1),
        ("date_add", (LEAP, 1), LEAP + 1),
        ("datediff", (LEAP, LEAP - 3), 3),
        ("date_trunc", ("HOUR", LEAP * DAY + 5), LEAP * DAY),
        ("date_trunc", ("week", LEAP * DAY), (LEAP - 3) * DAY),
        ("trunc", (LEAP, "YEAR"), LEAP - 59),
    ],
)
def test_values(name: str, args: tuple[Any, ...], result: object) -> None:
    assert FUNCTIONS[name].run(*args) == result


def test_outside_of_a_domain_there_is_no_exception() -> None:
    assert math.isnan(FUNCTIONS["sqrt"].run(-1.0))
    assert math.isnan(FUNCTIONS["ln"].run(math.nan))
    with pytest.raises(Raised):
        FUNCTIONS["floor"].run(math.nan)
    with pytest.raises(Raised):
        FUNCTIONS["date_add"].run(0, 1 << 40)


def test_types() -> None:
    assert FUNCTIONS["floor"].given(["DECIMAL(10,2)"]) == "DECIMAL(9,0)"
    assert FUNCTIONS["floor"].given(["INT"]) == "BIGINT"
    assert FUNCTIONS["round"].given(["DECIMAL(10,2)", "1"]) == "DECIMAL(10,1)"


def test_only_listed_functions_are_known() -> None:
    assert [name for name in FUNCTIONS if name not in listed.FUNCTIONS] == ["||"]
