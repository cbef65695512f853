"""NOT moves down as far as three-valued logic allows, and two of them vanish.

    NOT NOT a               ->  a
    NOT (a AND b)           ->  (NOT a OR NOT b)
    NOT (a OR b)            ->  (NOT a AND NOT b)
    NOT a < ?               ->  a >= ?

All hold for NULL too: each side is NULL exactly when the other is. They hold for NaN because
Spark orders numbers totally. `NOT a <=> b`, `NOT a IS NULL` and the like stay as they are.

>>> from shoal.query.terms.tree import Call, ColumnRef, Literal, show
>>> a, one = ColumnRef(name="a", type="INT"), Literal(type="INT", value=1)
>>> show(rewrite(Call(op="not", args=(Call(op="<", args=(a, one)),))))
'(`a` >= ?INT)'
"""

from dataclasses import replace

from shoal.query.terms.tree import Call, Term

__all__ = ["rewrite"]

_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def rewrite(term: Term) -> Term:
    """The negation of what is below, if this is a NOT."""
    if not isinstance(term, Call) or term.op != "not":
        return term
    return _negate(term.args[0], term)


def _negate(below: Term, negation: Term) -> Term:
    if not isinstance(below, Call):
        return negation
    if below.op == "not":
        return below.args[0]
    if below.op in _OPPOSITE:
        return replace(below, op=_OPPOSITE[below.op])
    if below.op in ("and", "or"):
        parts = tuple(_negate(part, Call(op="not", args=(part,))) for part in below.args)
        return replace(below, op="or" if below.op == "and" else "and", args=parts)
    return negation
