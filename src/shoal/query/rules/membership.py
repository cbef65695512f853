"""IN of one value is an equality, and a choice between equalities is an IN.

    a IN (1, 1)             ->  a = 1
    a IN (2, 1, 2)          ->  a IN (1, 2)
    (a = ? OR a = ?)        ->  a IN (?, ?)
    (a IN (?) OR a = ?)     ->  a IN (?, ?)
    (a <> ? AND a <> ?)     ->  NOT a IN (?, ?)

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

__all__ = ["rewrite", "tested"]


def rewrite(term: Term) -> Term:
    """The shortest of the equivalent forms."""
    if not isinstance(term, Call):
        return term
    if term.op == "in":
        return _listed(term, term.args[0], term.args[1:])
    return _join(term) if term.op in ("and", "or") else term


def tested(term: Term, connective: str) -> Call | None:
    """The equality or IN that this part of an OR is, or whose negation this part of an AND is."""
    if not isinstance(term, Call):
        return None
    if connective == "and" and term.op == "<>":
        term = replace(term, op="=")
    elif connective == "and" and term.op == "not" and isinstance(term.args[0], Call):
        term = term.args[0]
    elif connective == "and":
        return None
    values = all(isinstance(value, Literal) for value in term.args[1:])
    return term if term.op in ("=", "in") and values else None


def _join(term: Call) -> Term:
    """Neighbours that test one subject, joined; the others keep their places."""
    parts: list[Term] = []
    for part in term.args:
        joined = _merge(parts[-1], part, term.op) if parts else None
        if joined is None:
            parts.append(part)
        else:
            parts[-1] = joined
    return parts[0] if len(parts) == 1 else replace(term, args=tuple(parts))


def _merge(left: Term, right: Term, connective: str) -> Term | None:
    one, other = tested(left, connective), tested(right, connective)
    if one is None or other is None or one.args[0] != other.args[0]:
        return None
    values = (*one.args[1:], *other.args[1:])
    types = {value.type: None for value in values if isinstance(value, Literal)}
    if len(types) != 1:
        return None
    listed = _listed(one, one.args[0], values)
    if connective == "or":
        return listed
    if listed.op == "=":
        return replace(listed, op="<>")
    return Call(op="not", args=(listed,), at=one.at)


def _listed(term: Call, subject: Term, values: tuple[Term, ...]) -> Call:
    """An equality for one value, otherwise a list in order, each value once."""
    kept = sorted(dict.fromkeys(values), key=_order)
    return replace(term, op="=" if len(kept) == 1 else "in", args=(subject, *kept))


def _order(value: Term) -> tuple[str, str]:
    return (value.type, repr(value.value)) if isinstance(value, Literal) else ("", "")
