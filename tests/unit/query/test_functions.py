"""The list of functions is consistent in itself."""

import re

import pytest

from shoal.query.functions import FUNCTIONS, OPERATORS, SYNONYMS, kind_of, why_not


def test_synonyms_lead_to_the_list() -> None:
    known = [*FUNCTIONS, "rlike", "if"]
    assert [name for name, target in SYNONYMS.items() if target not in known] == []
    assert [name for name in SYNONYMS if name in FUNCTIONS] == []


def test_nothing_that_is_refused_is_on_the_list() -> None:
    assert [name for name in FUNCTIONS if why_not(name)] == []


@pytest.mark.parametrize("name", ["rand", "reflect", "repeat", "sum", "to_date", "uuid"])
def test_refusals_have_reasons(name: str) -> None:
    assert why_not(name)


def test_safe_forms_use_arguments_that_exist() -> None:
    forms = [(2, form) for forms in OPERATORS.values() for form in forms.values()]
    forms += [(f.most, form) for f in FUNCTIONS.values() for form in (f.safe or {}).values()]
    for most, form in forms:
        marks = re.findall(r"\{(\w+)\}", form)
        assert marks
        assert all(mark == "type" or int(mark) < most for mark in marks), form


def test_kinds() -> None:
    types = ("TINYINT", "DECIMAL(3,1)", "FLOAT", "STRING")
    assert [kind_of(type_) for type_ in types] == ["integral", "decimal", "fractional", "other"]
