"""Types after Spark's coercion: which questions to ask Spark, and what the answers change.

    price > 5         asks   typeof(s.`price`), typeof((s.`price` > 1)), typeof(coalesce(...))
    kwh > 1.5         becomes   kwh > Literal(DOUBLE, 1.5)
    meter = 5.5       becomes   CAST(meter AS DECIMAL(11,1)) = Literal(DECIMAL(11,1), 5.5)
    name = 5          becomes   CAST(name AS BIGINT) = Literal(BIGINT, 5)

A question is an expression over NULLs of the columns' types; the answer is its type. Where
Spark looks at a constant's digits (a whole number beside a DECIMAL), the question has a
constant with as many digits; otherwise a typed NULL, so that few different questions are asked.

Promises   the rewritten tree computes, with its constants as typed holes, what Spark computes
           for the text; no constant changes its value; every implied cast is written out.
Not here   asking (`spark/`), and safe forms (`safe.py`).
"""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

from shoal.kernel.errors import LocalError, UserError
from shoal.query.functions import FUNCTIONS
from shoal.query.terms.literals import convert, decimal_type
from shoal.query.terms.tree import (
    COMPARISONS,
    Call,
    ColumnRef,
    Convert,
    Literal,
    Term,
    children,
    place,
    walk,
)
from shoal.query.terms.types import DIGITS_MAX, INTEGRAL, decimal_parts, is_decimal, is_numeric

__all__ = ["ARITHMETIC", "Typing", "call_text"]

ARITHMETIC = ("+", "-", "*", "/", "%", "div")
_PATTERNS = ("like", "ilike", "rlike")
_SUFFIX = {"TINYINT": "Y", "SMALLINT": "S", "BIGINT": "L"}


def call_text(call: Call, args: list[str]) -> str:
    """A call as Spark SQL, of arguments that are text already."""
    op, fixed = call.op, call.fixed
    if op in ("and", "or"):
        return "(" + f" {op.upper()} ".join(args) + ")"
    if op in _PATTERNS:
        escape = f" ESCAPE {fixed[0]}" if fixed else ""
        return f"({args[0]} {op.upper()} {args[1]}{escape})"
    if op in COMPARISONS or op in ARITHMETIC or op == "||":
        return f"({args[0]} {op} {args[1]})"
    if op in ("is_null", "is_true", "is_false"):
        return f"({args[0]} IS {op[3:].upper()})"
    if op == "not":
        return f"(NOT {args[0]})"
    if op == "case":
        pairs = zip(args[0::2], args[1::2], strict=False)
        text = "".join(f" WHEN {condition} THEN {value}" for condition, value in pairs)
        rest = f" ELSE {args[-1]}" if len(args) % 2 else ""
        return f"(CASE{text}{rest} END)"
    if op == "in":
        return f"({args[0]} IN ({', '.join(args[1:])}))"
    parts = list(args)
    positions = FUNCTIONS[op].fixed if op in FUNCTIONS else ()
    for at, text in zip(positions, fixed, strict=False):
        parts.insert(at, text)
    return f"{op}({', '.join(parts)})"


class Typing:
    """The questions of one predicate; with the answers, its typed form."""

    def __init__(self, terms: tuple[Term, ...], text: str = "", *, digits: bool = False) -> None:
        self._terms = terms
        self._text = text
        # Whether questions show how many digits constants have; where a type is not known yet, say
        # so with `digits`.
        self._decimals = digits or any(_has_decimal(node) for term in terms for node in walk(term))
        self._known: Mapping[str, str] = {}
        questions: dict[str, None] = {}
        for term in terms:
            for node in walk(term):
                questions.update(dict.fromkeys(self._questions(node)))
        #: Expressions over `s.<column>` whose types are needed; never none, for a simpler engine.
        self.questions = tuple(questions) or ("NULL",)

    def typed(self, answers: Mapping[str, str]) -> tuple[Term, ...]:
        """The terms, all of them conditions, with casts written out and constants converted."""
        self._known = answers
        for term in self._terms:
            self.check_condition(term)
        return self.values(answers)

    def values(self, answers: Mapping[str, str]) -> tuple[Term, ...]:
        """The terms, of whatever types, with casts written out and constants converted."""
        self._known = answers
        return tuple(self._typed(term) for term in self._terms)

    def check_condition(self, term: Term) -> None:
        """UserError unless this is TRUE, FALSE or NULL; answers must be known."""
        type_ = self.type_of(term)
        if type_ not in ("BOOLEAN", "VOID"):
            what = f"a condition has type {type_}, not BOOLEAN"
            line, column = place(self._text, term.at)
            raise UserError(what, hint="compare it with something", line=line, column=column)

    def type_of(self, term: Term) -> str:
        """The type of a node of the original tree."""
        if isinstance(term, ColumnRef | Literal | Convert):
            return term.type
        return self._answer(self.question(term))

    def _answer(self, question: str) -> str:
        if question not in self._known:
            raise LocalError("a question about a type has no answer", detail=question)
        return self._known[question]

    def _questions(self, term: Term) -> list[str]:
        if not isinstance(term, Call):
            return []
        asked = [self.question(term)]
        if self.is_joint(term):
            asked.append(self.joint_question(term))
        return asked

    @staticmethod
    def is_joint(term: Call) -> bool:
        """Whether Spark coerces the operands to one type."""
        return term.op in COMPARISONS or term.op in ("in", "nullif") or term.op in ARITHMETIC

    def joint_question(self, term: Call) -> str:
        """The question's text of the one type that Spark gives the operands."""
        shown = dict.fromkeys(self.question(arg) for arg in term.args)
        return f"coalesce({', '.join(shown)})"

    def question(self, term: Term) -> str:
        """The question's text of a node's own type: its constants are gone."""
        match term:
            case ColumnRef(name=name):
                return "s.`" + name.replace("`", "``") + "`"
            case Literal(type="VOID"):
                return "NULL"
            case Literal(type=type_, value=value):
                if self._decimals and type_ in INTEGRAL and isinstance(value, int):
                    return "1" + "0" * (len(str(abs(value))) - 1) + _SUFFIX.get(type_, "")
                return f"CAST(NULL AS {type_})"
            case Convert(type=type_, tried=tried):
                return f"{'TRY_CAST' if tried else 'CAST'}({self.question(term.term)} AS {type_})"
            case Call(op="in", args=args):
                shown = [self.question(arg) for arg in args]
                return call_text(term, list(dict.fromkeys(shown))) if len(shown) > 1 else "NULL"
            case Call(args=args):
                return call_text(term, [self.question(arg) for arg in args])
        raise LocalError("a hole has no type question")

    def _typed(self, term: Term) -> Term:
        if isinstance(term, Convert):
            return replace(term, term=self._typed(term.term))
        if not isinstance(term, Call):
            return term
        try:
            return replace(self._typed_call(term), type=self.type_of(term))
        except UserError as error:
            if error.line is None:
                error.line, error.column = place(self._text, term.at)
            raise

    def _typed_call(self, term: Call) -> Call:
        if term.op in COMPARISONS or term.op == "in":
            return self._compared(term)
        if term.op in ARITHMETIC or term.op in ("negative", "abs"):
            return self._computed(term)
        if term.op in ("case", "coalesce", "greatest", "least", "nanvl"):
            return self._chosen(term)
        if term.op == "nullif":
            return self._nullif(term)
        if term.op in ("and", "or", "not", "is_true", "is_false"):
            self._only_conditions(term.args, term.op)
        self._check_text(term)
        return replace(term, args=tuple(self._typed(arg) for arg in term.args))

    def _only_conditions(self, args: tuple[Term, ...], op: str) -> None:
        """Spark would cast text to BOOLEAN here, and throw for some of it."""
        for arg in args:
            type_ = self.type_of(arg)
            if type_ not in ("BOOLEAN", "VOID"):
                raise UserError(f"{op} cannot take a {type_}", hint="compare it with something")

    def _check_text(self, term: Call) -> None:
        """Refuse text where Spark would cast it to a number or a time, and may throw."""
        known = FUNCTIONS.get(term.op)
        if known is None:
            return
        for at, arg in enumerate(term.args):
            if self.type_of(arg) == "STRING" and at >= known.text:
                raise UserError(
                    f"argument {at + 1} of {term.op} cannot be a STRING",
                    hint="write a number, DATE '...' or TIMESTAMP '...', or CAST it",
                )

    def _nullif(self, term: Call) -> Call:
        """The result has the type of the first argument, whatever it is compared in."""
        common = self._answer(self.joint_question(term))
        if common != "STRING" and any(self.type_of(arg) == "STRING" for arg in term.args):
            raise UserError("nullif cannot compare a STRING with this", hint="CAST one of them")
        first, second = term.args
        second = self._as(second, common) if isinstance(second, Literal) else self._typed(second)
        return replace(term, args=(self._typed(first), second))

    def _compared(self, term: Call) -> Call:
        """Both sides in their common type; an IN list as one array."""
        common = self._common(term)
        subject = self._as(term.args[0], common)
        if term.op != "in":
            return replace(term, args=(subject, self._as(term.args[1], common)))
        values: dict[str, Literal] = {}
        for value in term.args[1:]:
            literal = self._as(value, common)
            assert isinstance(literal, Literal)
            values.setdefault(repr(literal.value), literal)
        ordered = tuple(values[key].value for key in sorted(values))
        array = Literal(type=f"ARRAY<{common}>", value=ordered, at=term.args[1].at)
        return replace(term, args=(subject, array))

    def _common(self, term: Call) -> str:
        types = [type_ for arg in term.args if (type_ := self.type_of(arg)) != "VOID"]
        exact = all(type_ in INTEGRAL or is_decimal(type_) for type_ in types)
        if exact and any(map(is_decimal, types)):
            # Spark widens by the digits of the column's type and may round; this never does.
            return _widest([_digits_needed(arg, self.type_of(arg)) for arg in term.args], term)
        return self._answer(self.joint_question(term))

    def _as(self, term: Term, target: str) -> Term:
        """The term in a type that Spark coerces it to."""
        source = self.type_of(term)
        if isinstance(term, Literal):
            return Literal(type=target, value=convert(term.value, source, target), at=term.at)
        typed = self._typed(term)
        if source in (target, "VOID"):
            return typed
        return Convert(term=typed, type=target, tried=False, implied=True, at=term.at)

    def _computed(self, term: Call) -> Call:
        """Arithmetic: numbers only; a constant in the type that Spark computes with."""
        for arg in term.args:
            if not is_numeric(self.type_of(arg)) and self.type_of(arg) != "VOID":
                raise UserError(
                    f"{term.op} cannot take a {self.type_of(arg)}",
                    hint="write CAST(... AS DOUBLE) for text; for dates use date_add, datediff",
                )
        result = self.type_of(term)
        types = [self.type_of(arg) for arg in term.args]
        if term.op == "div" and any(type_ not in INTEGRAL for type_ in types):
            raise UserError("div takes whole numbers", hint="write floor(a / b)")
        if len(term.args) == 1:
            return replace(term, args=tuple(self._typed(arg) for arg in term.args))
        decimal = any(map(is_decimal, types)) and (is_decimal(result) or result == "VOID")
        return replace(
            term, args=tuple(self._operand(arg, term, decimal=decimal) for arg in term.args)
        )

    def _operand(self, arg: Term, term: Call, *, decimal: bool) -> Term:
        if not isinstance(arg, Literal):
            return self._typed(arg)
        if arg.type == "VOID":
            return self._as(arg, self._answer(self.joint_question(term)))
        if decimal:
            target = _digits_needed(arg, arg.type)
            return Literal(type=target, value=convert(arg.value, arg.type, target), at=arg.at)
        return self._as(arg, self._answer(self.joint_question(term)))

    def _chosen(self, term: Call) -> Call:
        """Branches in the type of the whole; conditions as they are."""
        result = self.type_of(term)
        args = []
        for at, arg in enumerate(term.args):
            is_condition = term.op == "case" and at % 2 == 0 and at + 1 < len(term.args)
            if is_condition:
                self._only_conditions((arg,), "a condition of case")
                args.append(self._typed(arg))
                continue
            if self.type_of(arg) == "STRING" and result != "STRING":
                raise UserError(
                    f"the branches of {term.op} have different types",
                    detail=f"STRING and {result}",
                    hint="write CAST(... AS STRING) or the like, so that they agree",
                )
            keep = result == "VOID" or (isinstance(arg, Call) and self.type_of(arg) == "VOID")
            args.append(self._typed(arg) if keep else self._as(arg, result))
        return replace(term, args=tuple(args))


def _has_decimal(node: Term) -> bool:
    if isinstance(node, ColumnRef | Literal | Convert) and is_decimal(node.type):
        return True
    return any(_has_decimal(part) for part in children(node) if isinstance(part, Literal))


def _digits_needed(term: Term, type_: str) -> str:
    """Beside a DECIMAL a whole constant counts as a DECIMAL of just its digits."""
    if isinstance(term, Literal) and type_ in INTEGRAL and isinstance(term.value, int):
        return decimal_type(Decimal(abs(term.value)))
    return type_


def _widest(types: list[str], term: Call) -> str:
    """The DECIMAL that holds all values of these types: comparing in it is exact."""
    parts = [decimal_parts(type_) for type_ in types if type_ != "VOID"]
    scale = max(scale for _, scale in parts)
    whole = max(precision - scale for precision, scale in parts)
    if whole + scale > DIGITS_MAX:
        raise UserError(
            f"the sides of {term.op} cannot be compared exactly",
            detail=f"they need {whole} digits before the point and {scale} after it",
            hint="a DECIMAL has 38 digits; write CAST(... AS DOUBLE) if that is enough",
        )
    return f"DECIMAL({whole + scale},{scale})"
