"""Types have one spelling; what is no type of a column is refused with what is."""

import pytest

from shoal.kernel.errors import UserError
from shoal.query.terms.types import decimal_parts, element_of, is_numeric, nearest, parse_type


@pytest.mark.parametrize(
    ("text", "type_"),
    [("int", "INT"), (" Long ", "BIGINT"), ("numeric( 5 )", "DECIMAL(5,0)"), ("real", "FLOAT")],
)
def test_parse(text: str, type_: str) -> None:
    assert parse_type(text) == type_


@pytest.mark.parametrize("text", ["", "INTT", "DECIMAL(0,0)", "DECIMAL(a)", "VARCHAR(5)", "INT(5)"])
def test_refused(text: str) -> None:
    with pytest.raises(UserError):
        parse_type(text)


def test_parts() -> None:
    assert decimal_parts("BIGINT") == (20, 0)
    assert element_of("ARRAY<DECIMAL(3,1)>") == "DECIMAL(3,1)"
    assert element_of("INT") == "INT"
    assert is_numeric("DECIMAL(3,1)")
    assert not is_numeric("DATE")
    assert nearest("mter", ["meter", "zone"]) == "did you mean meter?"
    assert nearest("qqq", ["meter"]) == ""
