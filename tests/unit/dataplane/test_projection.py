"""Projections: plain columns stay plain, JSON keeps everything, versions agree on their columns."""

import json

import pytest

from shoal.dataplane.projection import Projection, agree
from shoal.kernel.errors import LocalError, UserError
from shoal.query.catalog import Column
from shoal.query.windows.plan import Output

TS = Column(name="ts", type="TIMESTAMP")
KWH = Column(name="kwh", type="DOUBLE")
ODD = Column(name="od`d", type="INT")
TYPES = {column.name: column.type for column in (TS, KWH, ODD)}


def output(name: str, expression: str, type_: str = "DOUBLE") -> Output:
    return Output(name=name, expression=expression, type=type_)


PLAIN = (output("od`d", "s.`od``d`", "INT"), output("ts", "s.`ts`", "TIMESTAMP"))
TWICE = output("twice", "(s.`kwh` * CAST(2.0 AS DOUBLE))")


def test_columns_of_their_own_names_need_no_outputs_and_keep_their_order() -> None:
    found = Projection.of((TS, ODD), PLAIN)
    assert found == Projection(columns=(ODD, TS))
    assert found.shown == (ODD, TS)
    assert found.to_json(TYPES) == {"columns": ["od`d", "ts"]}


def test_what_is_renamed_or_computed_is_an_output() -> None:
    for other in (TWICE, output("energy", "s.`kwh`"), output("ts", "s.`kwh`")):
        found = Projection.of((TS, KWH), (other,))
        assert found.outputs == (other,)
        assert found.columns == (TS, KWH)
        assert found.shown == (Column(name=other.name, type="DOUBLE"),)
    assert Projection.of((TS, KWH), (TWICE,)).source_of(TWICE) == ""
    renamed = output("energy", "s.`kwh`")
    assert Projection.of((TS, KWH), (renamed,)).source_of(renamed) == "kwh"


def test_json_keeps_everything() -> None:
    for found in (
        Projection.of((TS, ODD), PLAIN),
        Projection.of((KWH, TS), (TWICE, *PLAIN[1:])),
        Projection(columns=(Column(name="a0", type="DECIMAL(38,2)"), TS)),
        Projection(columns=(Column(name="kwh", type="STRING"),), outputs=(TWICE,)),
    ):
        said = json.loads(json.dumps(found.to_json(TYPES)))
        assert Projection.from_json(said, TYPES) == found
    assert "types" not in Projection.of((KWH, TS), (TWICE,)).to_json(TYPES)


def test_a_piece_of_an_older_catalog_has_columns_only() -> None:
    assert Projection.from_json({"columns": ["ts", "kwh"]}, TYPES).shown == (TS, KWH)


def test_one_name_cannot_be_two_outputs() -> None:
    with pytest.raises(LocalError, match="one name twice"):
        Projection.of((KWH,), (TWICE, output("Twice", "s.`kwh`")))


def test_versions_may_have_other_columns_but_no_column_another_type() -> None:
    earlier = [Projection(columns=(TS, KWH)), Projection.of((KWH,), (TWICE,))]
    agree("hot", earlier, Projection(columns=(ODD,)))
    agree("hot", earlier, Projection.of((KWH,), (output("kwh", "(s.`kwh` + 1)"), TWICE)))
    with pytest.raises(UserError) as refused:
        agree("hot", earlier, Projection.of((ODD,), (output("twice", "(s.`od``d` * 2)", "INT"),)))
    assert str(refused.value).splitlines() == [
        "query hot cannot change the type of its column twice",
        "  detail: it has been DOUBLE, the new text makes it INT",
        "  hint: CAST(... AS DOUBLE), or give it another name: AS twice_2",
    ]
    with pytest.raises(UserError, match="cannot have columns twice and Twice"):
        agree("hot", earlier, Projection.of((KWH,), (output("Twice", "(s.`kwh` * 2)"),)))
