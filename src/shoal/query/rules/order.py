"""The parts of AND and OR are sorted, where none of them can throw.

    (b = ? OR a > ?)        ->  (a > ? OR b = ?)

Spark stops at the first part that decides, so an order is part of the meaning only of what can
throw: `x <> 0 AND 1 / x > 2` stays as it is. Tests of columns against constants of a like type
cannot throw, and neither can what is made of them.

>>> from shoal.query.terms.tree import show
>>> a, b = (ColumnRef(name=name, type="INT") for name in "ab")
>>> one = Literal(type="INT", value=1)
>>> tests = Call(op="=", args=(b, one)), Call(op=">", args=(a, one))
>>> show(rewrite(Call(op="or", args=tests)))
'((`a` > ?INT) OR (`b` = ?INT))'
"""

import re
from dataclasses import replace

from shoal.query.rules.membership import tested
from shoal.query.terms.tree import COMPARISONS, Call, ColumnRef, Literal, Term, show, walk

__all__ = ["rewrite"]

_LOGIC = ("and", "or", "not", "is_null", "is_true", "is_false")
_TYPE = re.compile(r"\?[A-Z]+(\([0-9,]+\))?")


def rewrite(term: Term) -> Term:
    """The same connective with its parts in the order of their text."""
    if not isinstance(term, Call) or term.op not in ("and", "or"):
        return term
    if not all(map(_cannot_throw, term.args)):
        return term
    return replace(term, args=tuple(sorted(term.args, key=lambda part: _order(part, term.op))))


def _order(term: Term, connective: str) -> tuple[str, str, str, str]:
    """Tests of one subject together, then by shape; constants count last."""
    text = show(term)
    test = tested(term, connective)
    subject = show(test.args[0]) if test is not None else ""
    constants = [node.value for node in walk(term) if isinstance(node, Literal)]
    return subject, _TYPE.sub("?", text), text, repr(constants)


def _cannot_throw(term: Term) -> bool:
    if not isinstance(term, Call):
        return isinstance(term, ColumnRef | Literal)
    if term.op in (*COMPARISONS, "in"):
        return _is_plain(term)
    return term.op in _LOGIC and all(map(_cannot_throw, term.args))


def _is_plain(term: Call) -> bool:
    """Operands that are columns and constants, all of them text or none."""
    types = []
    for arg in term.args:
        if not isinstance(arg, ColumnRef | Literal):
            return False
        types.append(arg.type)
    # A constant is converted before any tuple is seen; a column of text would be cast.
    columns = [arg.type for arg in term.args if isinstance(arg, ColumnRef)]
    return "STRING" not in columns or all(type_ in ("STRING", "VOID") for type_ in types)
