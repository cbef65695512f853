"""A typed tree as Spark SQL that never throws, and the text that tells when it would have.

    kwh / zone > ?     safe    (try_divide(s.`kwh`, s.`zone`) > p.p0)
                       raised  (s.`zone` IS NOT NULL AND ... try_divide(...) IS NULL)

`raised` follows Spark's order of evaluation: AND stops at FALSE, OR at TRUE, CASE and coalesce
at the branch they take, an operator at a NULL operand. Elsewhere all arguments count.

Promises   `safe` throws for no tuple and no constant; `raised` is TRUE or FALSE, never NULL.
Not here   which functions throw (`functions.py`).
"""

import re

from shoal.kernel.errors import LocalError, UserError
from shoal.query.functions import FUNCTIONS, OPERATORS, RIGHT_FIRST, kind_of
from shoal.query.terms.constants import constant_text
from shoal.query.terms.tree import (
    COMPARISONS,
    Call,
    ColumnRef,
    Convert,
    Hole,
    Literal,
    Term,
)
from shoal.query.terms.types import FRACTIONAL, INTEGRAL, decimal_parts, is_decimal, is_numeric
from shoal.query.terms.typing import ARITHMETIC, call_text

__all__ = ["SAFE_MAX", "Safe"]

#: Characters of a generated text; safe forms repeat their arguments, so nesting multiplies.
SAFE_MAX = 262_144

_MARK = re.compile(r"\{(\w+)\}")
_NULL_STOPS = (*COMPARISONS, *ARITHMETIC, "||", "like", "ilike", "rlike")


class Safe:
    """The safe texts of one tree whose constants are holes, or, with `inline`, stay in the text."""

    def __init__(self, extra_functions: tuple[str, ...], *, inline: bool = False) -> None:
        self._extra = extra_functions
        self._inline = inline

    def safe(self, term: Term) -> str:
        """The value, or NULL where computing it would have thrown."""
        match term:
            case ColumnRef(name=name):
                return "s.`" + name.replace("`", "``") + "`"
            case Hole(number=number):
                return f"p.p{number}"
            case Convert(type=type_):
                word = "TRY_CAST" if _cast_throws(term) or term.tried else "CAST"
                return _bounded(f"{word}({self.safe(term.term)} AS {type_})")
            case Call(op="in", args=(subject, array)):
                return _bounded(f"array_contains({self.safe(array)}, {self.safe(subject)})")
            case Call(args=args):
                parts = [self.safe(arg) for arg in args]
                form = _form(term)
                if form is None:
                    return _bounded(call_text(term, parts))
                return _bounded(_fill(form, parts, term.type))
            case Literal(type=type_, value=value):
                if not self._inline:
                    raise LocalError("a constant was left in a signature")
                return _bounded(constant_text(value, type_))

    def raised(self, term: Term) -> str:
        """Whether computing it would have thrown; "" if it never does."""
        if isinstance(term, Convert):
            own = f"({self.safe(term.term)} IS NOT NULL AND {self.safe(term)} IS NULL)"
            parts = [self.raised(term.term), own if _cast_throws(term) and not term.tried else ""]
            return _either(parts)
        if not isinstance(term, Call):
            return ""
        if term.op in ("and", "or"):
            # `IS NOT FALSE`: the next is looked at unless this one has decided.
            stop = "IS NOT FALSE" if term.op == "and" else "IS NOT TRUE"
            return self._lazy(list(term.args), stop)
        if term.op == "coalesce":
            return self._lazy(list(term.args), "IS NULL")
        if term.op == "case":
            return self._case(term)
        ordered = list(term.args)
        if term.op in RIGHT_FIRST:
            ordered.reverse()
        if term.op in _NULL_STOPS:
            below = self._lazy(ordered, "IS NOT NULL")
        else:
            below = _either([self.raised(arg) for arg in ordered])
        if _form(term) is None:
            return below
        known = " AND ".join(f"{self.safe(arg)} IS NOT NULL" for arg in term.args)
        return _bounded(_either([below, f"({known} AND {self.safe(term)} IS NULL)"]))

    def may_throw(self, term: Term) -> bool:
        """Whether an operator was let in that can throw whatever is done."""
        from_outside = isinstance(term, Call) and term.op in self._extra
        below = term.args if isinstance(term, Call) else ()
        below = (term.term,) if isinstance(term, Convert) else below
        return from_outside or any(self.may_throw(part) for part in below)

    def _lazy(self, parts: list[Term], go_on: str) -> str:
        """Each part counts if all before it, in order, are so that evaluation goes on."""
        found: list[str] = []
        guards: list[str] = []
        for part in parts:
            raised = self.raised(part)
            if raised:
                found.append("(" + " AND ".join([*guards, raised]) + ")" if guards else raised)
            guards.append(f"({self.safe(part)} {go_on})")
        return _bounded(_either(found))

    def _case(self, term: Call) -> str:
        found: list[str] = []
        guards: list[str] = []
        last = len(term.args) - 1
        for at, part in enumerate(term.args):
            is_value = at % 2 == 1
            is_rest = at == last and not is_value
            raised = self.raised(part)
            taken = [f"({self.safe(term.args[at - 1])} IS TRUE)"] if is_value else []
            before = guards[:-1] if is_value else guards
            if raised:
                found.append("(" + " AND ".join([*before, *taken, raised]) + ")")
            if not is_value and not is_rest:
                guards.append(f"({self.safe(part)} IS NOT TRUE)")
        return _bounded(_either(found))


def _form(term: Call) -> str | None:
    """The safe form for these arguments; None if the call never throws."""
    forms = OPERATORS.get(term.op)
    if forms is None:
        known = FUNCTIONS.get(term.op)
        forms = known.safe if known else None
    if not forms:
        return None
    # DOUBLE absorbs what stands beside it, so one fractional operand makes the call one.
    kinds = [kind_of(arg.type) for arg in term.args]
    return forms.get("fractional" if "fractional" in kinds else kinds[0])


def _cast_throws(term: Convert) -> bool:
    source, target = term.term.type, term.type
    if target in ("STRING", "BINARY") or source in (target, "VOID"):
        return False
    if is_numeric(source) and target in FRACTIONAL:
        return False
    if source in INTEGRAL and target in INTEGRAL:
        return INTEGRAL[source] > INTEGRAL[target]
    if (source in INTEGRAL or is_decimal(source)) and is_decimal(target):
        (precision, scale), (room, places) = decimal_parts(source), decimal_parts(target)
        return precision - scale > room - places or scale > places
    if source == "BOOLEAN":
        return not is_numeric(target)
    return (source, target) != ("TIMESTAMP", "DATE")


def _fill(form: str, parts: list[str], type_: str) -> str:
    """The form with its arguments, in one pass: what is put in may contain braces itself."""
    return _MARK.sub(lambda m: type_ if m[1] == "type" else parts[int(m[1])], form)


def _either(texts: list[str]) -> str:
    found = list(dict.fromkeys(text for text in texts if text))
    return found[0] if len(found) == 1 else "(" + " OR ".join(found) + ")" if found else ""


def _bounded(text: str) -> str:
    if len(text) > SAFE_MAX:
        raise UserError(
            "predicate is too large",
            detail=f"in its safe form it has more than {SAFE_MAX} characters",
            hint="nest fewer divisions, absolute values and the like; or use several queries",
        )
    return text
