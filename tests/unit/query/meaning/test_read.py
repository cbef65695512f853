"""The texts that query/ writes are read back; anything else is refused."""

from decimal import Decimal

import pytest

from shoal.kernel.errors import UserError
from shoal.query.meaning.read import read_condition, read_probe
from shoal.query.terms.tree import Call, ColumnRef, Convert, Hole, Literal

COLUMNS = {"meter": "INT", "kwh": "DOUBLE", "größe": "INT"}
METER = ColumnRef(name="meter", type="INT")


def read(text: str) -> object:
    return read_condition(text, COLUMNS, ("INT", "ARRAY<INT>"))


def test_a_safe_form() -> None:
    hole = Hole(number=0, type="INT")
    added = Call(op="try_add", args=(METER, hole))
    assert read("(try_add(s.`meter`, p.p0) > p.p0)") == Call(op=">", args=(added, hole))


def test_and_binds_tighter_than_or_and_not_looser_than_comparisons() -> None:
    a, b, c = (Call(op="=", args=(METER, Literal(type="INT", value=n))) for n in (1, 2, 3))
    text = "s.`meter` = 1 OR NOT s.`meter` = 2 AND s.`meter` = 3"
    assert read(text) == Call(
        op="or", args=(a, Call(op="and", args=(Call(op="not", args=(b,)), c)))
    )


def test_is_not_null_and_between() -> None:
    null = Call(op="is_null", args=(METER,))
    assert read("(s.`meter` IS NOT NULL)") == Call(op="not", args=(null,))
    low = Call(op=">=", args=(METER, Literal(type="DOUBLE", value=-1.5)))
    high = Call(op="<=", args=(METER, Literal(type="DOUBLE", value=2.0)))
    assert read("s.`meter` BETWEEN -1.5D AND 2D") == Call(op="and", args=(low, high))


def test_casts_and_cases() -> None:
    cast = Convert(term=METER, type="DECIMAL(4,1)", tried=True, implied=False)
    assert read("TRY_CAST(s.`meter` AS DECIMAL(4,1))") == cast
    found = read("(CASE WHEN TRUE THEN 1 ELSE s.`größe` END)")
    assert isinstance(found, Call)
    assert (found.op, len(found.args)) == ("case", 3)


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("5", "INT", 5),
        ("-128Y", "TINYINT", -128),
        ("0L", "BIGINT", 0),
        ("3000000000", "BIGINT", 3_000_000_000),
        ("1e3", "DOUBLE", 1000.0),
        ("9.5E2D", "DOUBLE", 950.0),
        ("5.25", "DECIMAL(3,2)", Decimal("5.25")),
        ("'it\\'s'", "STRING", "it's"),
        ("NULL", "VOID", None),
    ],
)
def test_constants(text: str, type_: str, value: object) -> None:
    assert read(text) == Literal(type=type_, value=value)  # type: ignore[arg-type]


def test_a_like_with_another_escape() -> None:
    found = read("(s.`meter` LIKE p.p0 ESCAPE '/')")
    assert isinstance(found, Call)
    assert (found.op, found.fixed) == ("like", ("'/'",))


@pytest.mark.parametrize(
    "text",
    ["s.`none` = 1", "p.p7", "s.`meter` =", "(s.`meter`", "s.`meter` ~ 1", "x", "1 2", "q.`meter`"],
)
def test_what_is_not_ours_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        read(text)


def test_a_probe() -> None:
    probe = read_probe(
        "SELECT typeof((s.`a` > 1)) AS t0, typeof(s.`a`) AS t1 "
        "FROM (SELECT CAST(NULL AS INT) AS `a`, NULL AS nothing) AS s"
    )
    assert dict(probe.columns) == {"a": "INT", "nothing": "VOID"}
    assert len(probe.questions) == 2
    for wrong in ("SELECT 1", "SELECT s.`a` AS t0 FROM (SELECT CAST(NULL AS INT) AS `a`) AS s"):
        with pytest.raises(UserError):
            read_probe(wrong)
