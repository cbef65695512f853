"""Nested ANDs and ORs become one level; what is repeated in it is said once.

    (a AND (b AND a))       ->  (a AND b)
    (a OR (b OR c))         ->  (a OR b OR c)

The first of equals stays, so the order of evaluation does too. Sorting the conjuncts at the top
is the signature's business, once the constants are out.

>>> from shoal.query.terms.tree import Call, ColumnRef, show
>>> a, b = ColumnRef(name="a", type="BOOLEAN"), ColumnRef(name="b", type="BOOLEAN")
>>> show(rewrite(Call(op="and", args=(a, Call(op="and", args=(b, a))))))
'(`a` AND `b`)'
"""

from dataclasses import replace

from shoal.query.terms.tree import Call, Term

__all__ = ["rewrite"]


def rewrite(term: Term) -> Term:
    """One level of the same connective, without repetition."""
    if not isinstance(term, Call) or term.op not in ("and", "or"):
        return term
    kept: dict[Term, None] = {}
    for part in term.args:
        inner = part.args if isinstance(part, Call) and part.op == term.op else (part,)
        kept.update(dict.fromkeys(inner))
    return next(iter(kept)) if len(kept) == 1 else replace(term, args=tuple(kept))
