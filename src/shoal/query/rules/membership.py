"""IN of one value is an equality, and a choice between equalities is an IN.

    a IN (1, 1)             ->  a = 1
    a IN (2, 1, 2)          ->  a IN (1, 2)
    (a = ? OR a = ?)        ->  a IN (?, ?)
    (a IN (?) OR a = ?)     ->  a IN (?, ?)

Both sides are TRUE, FALSE and NULL for the same tuples. Constants are joined only if they have
one type, because IN coerces all of them together. This runs before IN of one value is undone.

>>> from shoal.query.terms.tree import Call, ColumnRef, Literal, show
>>> a, one, two = ColumnRef(name="a", type="INT"), *(Literal(type="INT", value=n) for n in (1, 2))
>>> equalities = tuple(Call(op="=", args=(a, value)) for value in (one, two))
>>> show(rewrite(Call(op="or", args=equalities)))
'in(`a`, ?INT, ?INT)'
"""

from dataclasses import replace

from shoal.query.terms.tree import Call, Literal, Term

__all__ = ["rewrite"]


def rewrite(term: Term) -> Term:
    """The shortest of the equivalent forms."""
    if not isinstance(term, Call):
        return term
    if term.op == "in":
        args = (term.args[0], *sorted(dict.fromkeys(term.args[1:]), key=_order))
        return replace(term, op="=" if len(args) == 2 else "in", args=args)
    return _join(term) if term.op == "or" else term


def _join(term: Call) -> Term:
    """Neighbours of an OR that test one subject, joined; the others keep their places."""
    parts: list[Term] = []
    for part in term.args:
        joined = _merge(parts[-1], part) if parts else None
        if joined is None:
            parts.append(part)
        else:
            parts[-1] = joined
    return parts[0] if len(parts) == 1 else replace(term, args=tuple(parts))


def _merge(left: Term, right: Term) -> Term | None:
    if not isinstance(left, Call) or not isinstance(right, Call):
        return None
    if not _is_test(left) or not _is_test(right):
        return None
    values = (*left.args[1:], *right.args[1:])
    types = {value.type: None for value in values if isinstance(value, Literal)}
    if left.args[0] != right.args[0] or len(types) != 1:
        return None
    return replace(left, op="in", args=(left.args[0], *sorted(dict.fromkeys(values), key=_order)))


def _order(value: Term) -> tuple[str, str]:
    return (value.type, repr(value.value)) if isinstance(value, Literal) else ("", "")


def _is_test(term: Call) -> bool:
    return term.op in ("=", "in") and all(isinstance(value, Literal) for value in term.args[1:])
