"""The parser's expression nodes to our tree, each checked: what is not known here is refused.

Promises   a node is taken only if every part of it is understood; where sqlglot and Spark bind
           operators differently, parentheses are asked for.
Not here   statements (`sql.py`); which functions exist (`functions.py`).
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sqlglot import exp

from shoal.kernel.errors import UserError
from shoal.query.catalog import Column, StreamDef
from shoal.query.functions import FUNCTIONS, SYNONYMS, why_not
from shoal.query.selection import Value
from shoal.query.terms.literals import convert, decimal_type, single
from shoal.query.terms.patterns import check_like, check_regex
from shoal.query.terms.tree import Call, ColumnRef, Convert, Literal, Term, place
from shoal.query.terms.types import INTEGRAL, nearest, parse_type

__all__ = ["DEPTH_MAX", "NODES_MAX", "VALUES_MAX", "Reader", "refuse", "start_of"]

#: Levels of nesting; Spark's own limits are not far above.
DEPTH_MAX = 40
#: Operators and columns of one predicate, counted as often as the canonical form repeats them.
NODES_MAX = 1_000
#: Constants of one IN list.
VALUES_MAX = 10_000

_BINARY: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.NullSafeEQ: "<=>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
    exp.DPipe: "||",
}
#: Each after those that bind tighter; Spark has one level where sqlglot has several.
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv)
_EQUAL = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)
_ORDERED = (exp.LT, exp.LTE, exp.GT, exp.GTE)
_TEST = (exp.In, exp.Between, exp.Is, exp.Like, exp.ILike, exp.RegexpLike, exp.Escape)
_LOOSE = (*_EQUAL, *_ORDERED, *_TEST, exp.Not, exp.And, exp.Or)
_TYPES = {
    "TEXT": "STRING",
    "TIMESTAMPTZ": "TIMESTAMP",
    "TIMESTAMPLTZ": "TIMESTAMP",
    "TIMESTAMPNTZ": "TIMESTAMP_NTZ",
    "VARBINARY": "BINARY",
}
_PARTS = {"YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "WEEK": "weekofyear"}
_PARTS |= {"DAY": "dayofmonth", "HOUR": "hour", "MINUTE": "minute"}
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_DIGITS = re.compile(r"[0-9]{1,40}")
_POINT = re.compile(r"[0-9]{1,40}\.[0-9]{0,40}|\.[0-9]{1,40}")
_EXPONENT = re.compile(r"(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})[eE][+-]?[0-9]{1,4}")


def refuse(what: str, node: Any, text: str, *, detail: str = "", hint: str = "") -> UserError:
    """A UserError that points at the first place in the text where this node is found."""
    start = start_of(node)
    if start is None and isinstance(node, exp.Expression):
        start = start_of(node.parent)
    if start is None:
        return UserError(what, detail=detail, hint=hint)
    line, column = place(text, start)
    return UserError(what, detail=detail, hint=hint, line=line, column=column)


def start_of(node: Any) -> int | None:
    """The offset of the first place in the text where this node is found."""
    if not isinstance(node, exp.Expression):
        return None
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(starts) if starts else None


@dataclass(slots=True, kw_only=True)
class Reader:
    """Reads the nodes of one text against one stream; counts them as it goes."""

    text: str
    stream: StreamDef
    qualifiers: tuple[str, ...]
    extra_functions: tuple[str, ...]
    nodes: int = 0
    #: Further names that a person may have meant by one that is not known.
    others: tuple[str, ...] = ()

    def refuse(self, what: str, node: Any, *, detail: str = "", hint: str = "") -> UserError:
        """A UserError that points at this node."""
        return refuse(what, node, self.text, detail=detail, hint=hint)

    def column(self, node: exp.Column) -> Column:
        """The declared column that this node names."""
        self._only(node, "this", "table")
        qualifier = node.table.lower()
        if not isinstance(node.this, exp.Identifier):
            raise self.refuse("this is not a column", node, hint="write the name of a column")
        if qualifier and qualifier not in self.qualifiers:
            hint = f"write {self.qualifiers[0]}.{node.name}, or the column alone"
            raise self.refuse(f"{node.table!r} is not a stream here", node, hint=hint)
        try:
            return self.stream.column(node.name)
        except UserError as error:
            reason = why_not(node.name.lower()) if not node.this.quoted else ""
            raise self.refuse(error.what, node, detail=reason, hint=error.hint) from None

    def term(self, node: Any, *, depth: int) -> Term:
        """The tree of an expression."""
        while isinstance(node, exp.Paren):
            node = node.this
        if depth > DEPTH_MAX:
            hint = "use fewer levels of parentheses and operators"
            raise self.refuse(f"nested deeper than {DEPTH_MAX} levels", node, hint=hint)
        simple = self._constant(node)
        if simple is not None:
            return simple
        self.nodes += 1
        if self.nodes > NODES_MAX:
            hint = "use IN for many constants, or several queries"
            raise self.refuse(f"more than {NODES_MAX} operators and columns", node, hint=hint)
        known = self.named(node, depth) if isinstance(node, exp.Column) else self.own(node, depth)
        if known is not None:
            return known
        op, nodes, fixed = self._shape(node, depth)
        args = [self.term(part, depth=depth + 1) for part in nodes]
        at = args[0].at if args else start_of(node) or 0
        if isinstance(node, exp.Cast):
            return self._cast(node, args[0])
        return self._finish(node, Call(op=op, args=tuple(args), fixed=fixed, at=at))

    def named(self, node: exp.Column, depth: int) -> Term:
        """What a name stands for: here a column of the stream."""
        column = self.column(node)
        return ColumnRef(name=column.name, type=column.type, at=start_of(node) or 0)

    def own(self, node: Any, depth: int) -> Term | None:
        """What a reader of more than predicates makes of a node; None for all others."""
        return None

    def _finish(self, node: Any, call: Call) -> Term:
        """What SQL defines by other operators, and NOT where the parser hides it in a node."""
        if call.op == "nullsafe_differs":
            same = Call(op="<=>", args=call.args, at=call.at)
            return Call(op="not", args=(same,), at=call.at)
        inner = node.this if isinstance(node, exp.Escape) else node
        if isinstance(inner, _TEST) and inner.args.get("negate"):
            return Call(op="not", args=(call,), at=call.at)
        return call

    def _only(self, node: exp.Expression, *known: str) -> None:
        """Refuse a node with parts that the caller does not look at."""
        for name, value in node.args.items():
            if name not in known and value:
                kind = type(node).__name__.upper()
                what = f"{name.strip('_').upper()} cannot be used with {kind}"
                raise self.refuse(what, node, hint="leave it out")

    def _operands(self, node: Any, tighter: tuple[type, ...]) -> list[Any]:
        """Both operands; those that Spark would bind otherwise need parentheses."""
        nodes = [node.this, node.expression]
        for part in nodes:
            if isinstance(part, tighter):
                hint = "put parentheses around the inner one"
                raise self.refuse("these operators could be read in two ways", node, hint=hint)
        return nodes

    def _shape(self, node: Any, depth: int) -> tuple[str, list[Any], tuple[str, ...]]:
        """Operator, operand nodes and fixed parts."""
        if isinstance(node, exp.And | exp.Or):
            self._only(node, "this", "expression")
            return type(node).__name__.lower(), _spine(node), ()
        if type(node) in _BINARY or isinstance(node, exp.NullSafeNEQ):
            self._only(node, "this", "expression", "typed", "safe")
            barred = (*_LOOSE, *((exp.DPipe,) if isinstance(node, _ARITHMETIC) else ()))
            barred = (*_LOOSE, *_ARITHMETIC) if isinstance(node, exp.DPipe) else barred
            return _BINARY.get(type(node), "nullsafe_differs"), self._operands(node, barred), ()
        if isinstance(node, exp.Not):
            self._only(node, "this")
            return "not", [node.this], ()
        if isinstance(node, exp.Neg):
            self._only(node, "this")
            return "negative", [node.this], ()
        if isinstance(node, exp.Cast):
            self._only(node, "this", "to", "safe")
            return "cast", [node.this], ()
        if isinstance(node, _TEST):
            return self._test(node, depth)
        if isinstance(node, exp.Case | exp.If):
            return self._case(node)
        if isinstance(node, exp.Anonymous | exp.Extract):
            return self._function(node)
        raise self._unknown(node)

    def _unknown(self, node: Any) -> UserError:
        kind = type(node).__name__
        reasons = {
            "Subquery": "a selection looks at one tuple at a time",
            "Exists": "a selection looks at one tuple at a time",
            "Select": "a selection looks at one tuple at a time",
            "Window": "a selection looks at one tuple at a time",
            "Filter": "a selection looks at one tuple at a time",
            "Interval": "a constant has no relation to a clock here; write the TIMESTAMP itself",
            "Star": "* stands in the select list only",
        }
        hint = "possible are columns, constants, AND OR NOT, comparisons, IN, BETWEEN, LIKE, "
        hint += "RLIKE, CASE, IF, CAST, + - * / % DIV || and the listed functions"
        what = f"{kind} cannot be used in a predicate"
        return self.refuse(what, node, detail=reasons.get(kind, ""), hint=hint)

    def _test(self, node: Any, depth: int) -> tuple[str, list[Any], tuple[str, ...]]:
        """IN, BETWEEN, IS, LIKE, ILIKE, RLIKE."""
        escape = "\\"
        fixed: tuple[str, ...] = ()
        if isinstance(node, exp.Escape):
            escape, fixed, node = self._escape(node)
        if isinstance(node.this, _LOOSE):
            hint = "put parentheses around the first one"
            raise self.refuse("these operators could be read in two ways", node, hint=hint)
        if isinstance(node, exp.In):
            self._only(node, "this", "expressions")
            return "in", [node.this, *self._values(node)], ()
        if isinstance(node, exp.Between):
            self._only(node, "this", "low", "high")
            # The canonical form has the subject twice, and nesting would double it each time.
            self.term(node.this, depth=depth + 1)
            return "between", [node.this, node.args["low"], node.args["high"]], ()
        self._only(node, "this", "expression", "negate")
        if isinstance(node, exp.Is):
            return self._is(node), [node.this], ()
        pattern = node.expression
        value = self._constant(pattern)
        if value is None or not isinstance(value.value, str):
            hint = "write the pattern as a text constant"
            raise self.refuse("a pattern is a constant", node, hint=hint)
        try:
            if isinstance(node, exp.RegexpLike):
                check_regex(value.value)
            else:
                check_like(value.value, escape)
        except UserError as error:
            raise self.refuse(error.what, pattern, detail=error.detail, hint=error.hint) from None
        names = {exp.Like: "like", exp.ILike: "ilike", exp.RegexpLike: "rlike"}
        return names[type(node)], [node.this, pattern], fixed

    def _escape(self, node: exp.Escape) -> tuple[str, tuple[str, ...], Any]:
        self._only(node, "this", "expression")
        mark = self._constant(node.expression)
        text = mark.value if mark is not None else None
        wrong = not isinstance(text, str) or len(text) != 1 or not text.isprintable()
        if wrong or not isinstance(node.this, exp.Like | exp.ILike):
            hint = "write LIKE 'pattern' ESCAPE '/'"
            raise self.refuse("ESCAPE takes one character, after LIKE", node, hint=hint)
        assert isinstance(text, str)
        quoted = "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return text, () if text == "\\" else (quoted,), node.this

    def _values(self, node: exp.In) -> list[Any]:
        values = node.args.get("expressions") or []
        hint = "write x IN (1, 2, 3), or x = a OR x = b for columns"
        if not 1 <= len(values) <= VALUES_MAX:
            what = f"IN takes 1 to {VALUES_MAX} constants"
            raise self.refuse(what, node, detail=f"here {len(values)}", hint=hint)
        for value in values:
            if self._constant(value) is None:
                raise self.refuse("IN takes constants", value, hint=hint)
        return list(values)

    def _is(self, node: exp.Is) -> str:
        what = node.expression
        if isinstance(what, exp.Null):
            return "is_null"
        if isinstance(what, exp.Boolean):
            return "is_true" if what.this else "is_false"
        raise self.refuse("IS takes NULL, TRUE or FALSE", node, hint="write x IS NULL, or x = y")

    def _case(self, node: Any) -> tuple[str, list[Any], tuple[str, ...]]:
        """CASE and IF as: condition, value, condition, value ..., and the rest or nothing."""
        if isinstance(node, exp.If):
            self._only(node, "this", "true", "false")
            rest = node.args.get("false")
            nodes = [node.this, node.args.get("true"), *([rest] if rest is not None else [])]
        else:
            self._only(node, "this", "ifs", "default")
            nodes = []
            for branch in node.args["ifs"]:
                condition = branch.this
                if node.this is not None:
                    left, right = exp.Paren(this=node.this), exp.Paren(this=condition)
                    condition = exp.EQ(this=left, expression=right)
                nodes += [condition, branch.args.get("true")]
            rest = node.args.get("default")
            nodes += [rest] if rest is not None else []
        if any(part is None for part in nodes):
            raise self.refuse("a branch is empty", node, hint="write CASE WHEN x THEN y ELSE z END")
        return "case", nodes, ()

    def _function(self, node: Any) -> tuple[str, list[Any], tuple[str, ...]]:
        if isinstance(node, exp.Extract):
            self._only(node, "this", "expression")
            part = _PARTS.get(node.name.upper())
            if part is None:
                hint = "possible: " + ", ".join(_PARTS)
                raise self.refuse(f"EXTRACT of {node.name} is not possible", node, hint=hint)
            return part, [node.expression], ()
        self._only(node, "this", "expressions")
        written = node.name.lower()
        args = list(node.args.get("expressions") or [])
        name = SYNONYMS.get(written, written)
        operators = {"isnull": "is_null", "mod": "%", "negative": "negative"}
        if name in operators and len(args) == (2 if name == "mod" else 1):
            return operators[name], args, ()
        if name == "equal_null" and len(args) == 2:
            return "<=>", args, ()
        if name in self.extra_functions:
            return name, args, ()
        known = FUNCTIONS.get(name)
        if known is None:
            names = [*FUNCTIONS, *SYNONYMS, *self.extra_functions, *self.others]
            reason = why_not(written)
            hint = "" if reason else nearest(written, names)
            hint = hint or "docs/signatures.md has the list"
            what = f"function {written!r} cannot be used"
            raise self.refuse(what, node, detail=reason, hint=hint)
        if not known.least <= len(args) <= known.most:
            what = f"function {written} takes {known.least} to {known.most} arguments"
            raise self.refuse(what, node, detail=f"here {len(args)}", hint="count them")
        fixed = tuple(self._fixed(name, args[at]) for at in known.fixed if at < len(args))
        return name, [arg for at, arg in enumerate(args) if at not in known.fixed], fixed

    def _fixed(self, name: str, node: Any) -> str:
        """The text of an argument that Spark wants constant."""
        constant = self._constant(node)
        value = constant.value if constant is not None else None
        if name in ("round", "bround"):
            if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 18:
                return str(value)
            hint = "write a whole number from 0 to 18"
            raise self.refuse(f"the scale of {name} cannot be this", node, hint=hint)
        if isinstance(value, str) and value.lower() in _UNITS:
            return f"'{value.lower()}'"
        hint = "write one of " + ", ".join(repr(unit) for unit in _UNITS)
        raise self.refuse(f"the unit of {name} cannot be this", node, hint=hint)

    def _cast(self, node: exp.Cast, term: Term) -> Term:
        target = self._type(node)
        tried = isinstance(node, exp.TryCast)
        if isinstance(term, Literal):
            folded = self._fold(node, term, target, tried=tried)
            if folded is not None:
                return folded
        return Convert(term=term, type=target, tried=tried, implied=False, at=term.at)

    def _fold(self, node: Any, term: Literal, target: str, *, tried: bool) -> Literal | None:
        """The constant itself where it converts exactly: `DATE '2024-01-01'` is one."""
        surely = isinstance(term.value, str) or (term.type in INTEGRAL and target in INTEGRAL)
        try:
            return Literal(type=target, value=convert(term.value, term.type, target), at=term.at)
        except UserError as error:
            if surely and not tried:
                detail, hint = error.detail, error.hint
                raise self.refuse(error.what, node, detail=detail, hint=hint) from None
            return None

    def _type(self, node: exp.Cast) -> str:
        to = node.args["to"]
        kind = getattr(to, "this", None)
        name = getattr(kind, "name", str(kind))
        params = [part.this for part in to.expressions] if isinstance(to, exp.DataType) else []
        listed = f"({', '.join(part.name for part in params)})" if params else ""
        try:
            return parse_type(_TYPES.get(name, name) + listed)
        except UserError as error:
            raise self.refuse(error.what, node, detail=error.detail, hint=error.hint) from None

    def _constant(self, node: Any) -> Literal | None:
        """The node as a constant, with the type Spark gives it; None if it is none."""
        sign = ""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Neg) and _is_number(node.this):
            sign, node = "-", node.this
        at = start_of(node) or 0
        if isinstance(node, exp.Null):
            return Literal(type="VOID", value=None, at=at)
        if isinstance(node, exp.Boolean):
            return Literal(type="BOOLEAN", value=bool(node.this), at=at)
        if isinstance(node, exp.RawString) or (isinstance(node, exp.Literal) and node.is_string):
            return Literal(type="STRING", value=str(node.this), at=at)
        if isinstance(node, exp.HexString):
            digits = str(node.this)
            return Literal(
                type="BINARY", value=bytes.fromhex("0" * (len(digits) % 2) + digits), at=at
            )
        if _is_number(node):
            target = self._type(node) if isinstance(node, exp.Cast) else ""
            number = str(node.this.this if isinstance(node, exp.Cast) else node.this)
            return self._number(node, sign + number, target)
        return None

    def _number(self, node: Any, text: str, target: str) -> Literal | None:
        at = start_of(node) or 0
        try:
            type_, value = _number(text)
            if target == "FLOAT":
                return Literal(type=target, value=single(Fraction(text)), at=at)
            if target == "DOUBLE":
                return Literal(type=target, value=_double(text), at=at)
            value = convert(value, type_, target) if target else value
            return Literal(type=target or type_, value=value, at=at)
        except UserError as error:
            if target and target not in INTEGRAL:
                return None
            raise self.refuse(error.what, node, detail=error.detail, hint=error.hint) from None


def _is_number(node: Any) -> bool:
    """A number, or a number with a suffix, which the parser shows as a cast."""
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        node = node.this
    return isinstance(node, exp.Literal) and not node.is_string


def _spine(node: Any) -> list[Any]:
    """The operands of a chain of one connective, without recursion: chains can be long."""
    parts: list[Any] = []
    kind = type(node)
    while type(node) is kind:
        parts.append(node.expression)
        node = node.this
    return [node, *reversed(parts)]


def _number(text: str) -> tuple[str, Value]:
    digits = text.removeprefix("-")
    if _DIGITS.fullmatch(digits):
        whole = int(text)
        for type_, bits in (("INT", 31), ("BIGINT", 63)):
            if -(1 << bits) <= whole < 1 << bits:
                return type_, whole
        return _decimal(text)
    if _POINT.fullmatch(digits):
        return _decimal(text)
    if _EXPONENT.fullmatch(digits):
        return "DOUBLE", _double(text)
    raise UserError(f"number {text[:50]!r} cannot be read", hint="write 5, 5.25 or 5e3")


def _decimal(text: str) -> tuple[str, Value]:
    value = Decimal(text)
    type_ = decimal_type(value)
    precision = int(type_[len("DECIMAL(") :].split(",")[0])
    if precision > 38:
        hint = "write it with fewer digits, or as 1e40"
        raise UserError(f"number {text[:50]!r} has more than 38 digits", hint=hint)
    return type_, value


def _double(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise UserError(f"number {text[:50]!r} is too large", hint="a DOUBLE ends at 1.8e308")
    return value
