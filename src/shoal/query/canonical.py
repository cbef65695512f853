"""The canonical form: one tree for all the spellings of a predicate that the rules know.

Promises   equal meaning is kept for every tuple, with NULL and NaN; the result does not depend
           on the case of names, on parentheses, or on the order in which AND was written.
Not here   the rules, one file each in `rules/`; taking constants out (`signature.py`).

`VERSION` is part of every name. It changes with any change to a rule, so that a name never
silently means something else.
"""

from shoal.query.rules import between, flatten, membership, order, orient, push_not
from shoal.query.terms.tree import Call, Term, bottom_up

__all__ = ["RULES", "VERSION", "conjuncts", "normalise"]

VERSION = 1

#: In this order; each sees what the ones before it left.
RULES = (between, orient, flatten, order, membership, push_not, flatten, order)

#: Rounds until nothing changes; each rule only shortens or sorts, and two or three are enough.
ROUNDS_MAX = 8


def normalise(term: Term) -> Term:
    """The canonical form of an expression.

    >>> from shoal.query.terms.tree import ColumnRef, Literal, show
    >>> a, one = ColumnRef(name="a", type="INT"), Literal(type="INT", value=1)
    >>> below = Call(op="<", args=(one, a))
    >>> show(normalise(Call(op="not", args=(below,))))
    '(`a` <= ?INT)'
    """
    for _ in range(ROUNDS_MAX):
        before = term
        for rule in RULES:
            term = bottom_up(term, rule.rewrite)
        if term == before:
            break
    return term


def conjuncts(term: Term | None) -> tuple[Term, ...]:
    """The parts that must all be TRUE; none for a query without WHERE."""
    if term is None:
        return ()
    return term.args if isinstance(term, Call) and term.op == "and" else (term,)
