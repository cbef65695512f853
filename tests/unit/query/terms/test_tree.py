"""Trees: equality without places, walking, and places in a text."""

from shoal.query.terms.tree import Call, ColumnRef, Convert, Literal, bottom_up, place, show, walk

A = ColumnRef(name="a", type="INT", at=3)
SUM = Call(op="+", args=(A, Literal(type="INT", value=1)))


def test_places_do_not_count() -> None:
    assert ColumnRef(name="a", type="INT", at=9) == A


def test_walk_and_rewrite() -> None:
    cast = Convert(term=SUM, type="BIGINT", tried=True, implied=False)
    assert [type(node).__name__ for node in walk(cast)] == [
        "Convert",
        "Call",
        "ColumnRef",
        "Literal",
    ]
    other = ColumnRef(name="b", type="INT")
    renamed = bottom_up(cast, lambda node: other if node == A else node)
    assert show(renamed) == "TRY_CAST((`b` + ?INT) AS BIGINT)"


def test_place() -> None:
    assert place("ab\ncd", 4) == (2, 2)
    assert place("ab", 0) == (1, 1)
