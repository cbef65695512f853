"""BETWEEN becomes two comparisons.

    a BETWEEN ? AND ?       ->  (a >= ? AND a <= ?)

>>> from shoal.query.terms.tree import Call, ColumnRef, Literal, show
>>> one, two = Literal(type="INT", value=1), Literal(type="INT", value=2)
>>> show(rewrite(Call(op="between", args=(ColumnRef(name="a", type="INT"), one, two))))
'((`a` >= ?INT) AND (`a` <= ?INT))'
"""

from shoal.query.terms.tree import Call, Term

__all__ = ["rewrite"]


def rewrite(term: Term) -> Term:
    """`between` as the conjunction that SQL defines it to be."""
    if not isinstance(term, Call) or term.op != "between":
        return term
    subject, low, high = term.args
    return Call(
        op="and",
        args=(
            Call(op=">=", args=(subject, low), at=term.at),
            Call(op="<=", args=(subject, high), at=term.at),
        ),
        at=term.at,
    )
