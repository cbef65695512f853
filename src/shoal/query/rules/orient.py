"""A comparison has its constant on the right; of two columns, the lesser name on the left.

    ? < a                   ->  a > ?
    b = a                   ->  a = b

Other operands keep their sides: swapping them would change which is evaluated first, and so
whether one that can throw is evaluated at all.

>>> from shoal.query.terms.tree import Call, ColumnRef, Literal, show
>>> a, one = ColumnRef(name="a", type="INT"), Literal(type="INT", value=1)
>>> show(rewrite(Call(op="<", args=(one, a))))
'(`a` > ?INT)'
"""

from dataclasses import replace

from shoal.query.terms.tree import COMPARISONS, Call, ColumnRef, Literal, Term

__all__ = ["rewrite"]


def rewrite(term: Term) -> Term:
    """The comparison with its operands in order."""
    if not isinstance(term, Call) or term.op not in COMPARISONS or len(term.args) != 2:
        return term
    left, right = term.args
    constant = isinstance(left, Literal) and not isinstance(right, Literal)
    if constant or _out_of_order(left, right, term.op):
        return replace(term, op=COMPARISONS[term.op], args=(right, left))
    return term


def _out_of_order(left: Term, right: Term, op: str) -> bool:
    if not isinstance(left, ColumnRef) or not isinstance(right, ColumnRef):
        return False
    return left.name > right.name or (left.name == right.name and op in (">", ">="))
