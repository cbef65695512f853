"""The text of a signature back to a tree.

    (try_add(s.`meter`, p.p0) > p.p1)   is   Call(">", (Call("try_add", ...), Hole(1)))

A signature carries its condition as Spark SQL (`selection.Signature`), and a probe is a SELECT of
one row (`draft.Draft.probe`). This reads what `terms/safe.py` and `terms/typing.py` write, and
nothing else: what is not known here is refused, never guessed at.

Not here   SQL as people write it (`sql.py`); what the operators do (`evaluate.py`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from shoal.kernel.errors import UserError
from shoal.query.selection import Value
from shoal.query.terms.literals import decimal_type, unescape
from shoal.query.terms.tree import Call, ColumnRef, Convert, Hole, Literal, Term
from shoal.query.terms.types import parse_type

__all__ = ["Probe", "read_condition", "read_probe"]

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<quoted>`(?:[^`]|``)*`)
    | (?P<number>(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?(?:BD|[LSYDF](?![A-Za-z]))?)
    | (?P<text>'(?:[^'\\]|\\.)*')
    | (?P<word>[A-Za-z_][A-Za-z_0-9]*)
    | (?P<sign><=>|<>|<=|>=|\|\||[-+*/%=<>(),.])
    )""",
    re.VERBOSE | re.DOTALL,
)
#: Binary operators by how tightly they bind; looser than all of these are OR, AND and NOT.
_TIGHT = {
    **dict.fromkeys(("=", "<>", "<=>", "<", "<=", ">", ">=", "LIKE", "ILIKE", "RLIKE"), 3),
    **dict.fromkeys(("IS", "IN", "BETWEEN"), 3),
    "||": 4,
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "/", "%", "DIV"), 6),
}
_SUFFIXES = {"L": "BIGINT", "S": "SMALLINT", "Y": "TINYINT", "D": "DOUBLE", "F": "FLOAT"}
_CONSTANTS: Mapping[str, tuple[str, Value]] = {
    "NULL": ("VOID", None),
    "TRUE": ("BOOLEAN", True),
    "FALSE": ("BOOLEAN", False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The questions of a probe, and the columns of its one row."""

    questions: tuple[Term, ...]
    columns: Mapping[str, str]


def read_condition(text: str, columns: Mapping[str, str], holes: tuple[str, ...]) -> Term:
    """The tree of a condition over these columns and holes, by their types."""
    reader = _Reader(text, columns, holes)
    term = reader.term(0)
    reader.end()
    return term


def read_probe(text: str) -> Probe:
    """The questions of `SELECT typeof(..) AS t0, .. FROM (SELECT .. AS `c`, ..) AS s`."""
    start = text.rfind(" FROM (SELECT ")
    if not text.startswith("SELECT ") or start < 0 or not text.endswith(") AS s"):
        raise _unknown("a probe of another form", text)
    inner = _Reader(text[start + len(" FROM (SELECT ") : -len(") AS s")], {}, ())
    columns = {name: _type_of_constant(term) for term, name in inner.named()}
    outer = _Reader(text[len("SELECT ") : start], columns, ())
    questions = []
    for term, _ in outer.named():
        if not isinstance(term, Call) or term.op != "typeof":
            raise _unknown("a question other than typeof", text)
        questions.append(term.args[0])
    return Probe(questions=tuple(questions), columns=columns)


def _type_of_constant(term: Term) -> str:
    if isinstance(term, Literal | Convert):
        return term.type
    raise _unknown("a column of a probe that is no constant", repr(term))


def _unknown(what: str, text: str) -> UserError:
    return UserError(
        f"{what} cannot be evaluated here",
        detail=text[:200],
        hint="this engine reads what query/ writes, and knows fewer functions than Spark",
    )


class _Reader:
    """Tokens of one text, and a place among them."""

    def __init__(self, text: str, columns: Mapping[str, str], holes: tuple[str, ...]) -> None:
        self._text = text
        self._columns = columns
        self._holes = holes
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                raise _unknown(f"what follows character {at}", text[at:])
            self._tokens.append((match.lastgroup, match.group(match.lastgroup)))
            at = match.end()
        self._at = 0

    def named(self) -> list[tuple[Term, str]]:
        """`expression AS name`, separated by commas, to the end of the text."""
        found = []
        while True:
            term = self.term(0)
            self._expect("AS")
            _, name = self._next()
            found.append((term, name.strip("`").replace("``", "`")))
            if not self._take(","):
                self.end()
                return found

    def end(self) -> None:
        """Raise unless all is read."""
        if self._at < len(self._tokens):
            raise _unknown(f"{self._tokens[self._at][1]!r}", self._text)

    def term(self, loosest: int) -> Term:
        """An expression whose operators bind tighter than this."""
        left = self._negated() if loosest <= 2 and self._take("NOT") else self._operand()
        while True:
            word = self._peek()
            if word == "OR" and loosest <= 0:
                left = self._chain(left, "OR", 1)
            elif word == "AND" and loosest <= 1:
                left = self._chain(left, "AND", 2)
            elif _TIGHT.get(word, 0) > loosest:
                self._at += 1
                left = self._binary(left, word, _TIGHT[word])
            else:
                return left

    def _negated(self) -> Term:
        return Call(op="not", args=(self.term(2),))

    def _chain(self, first: Term, word: str, loosest: int) -> Term:
        parts = [first]
        while self._take(word):
            parts.append(self.term(loosest))
        return Call(op=word.lower(), args=tuple(parts))

    def _binary(self, left: Term, word: str, tight: int) -> Term:
        if word == "IS":
            negated = self._take("NOT")
            what = self._next()[1].upper()
            if what not in _CONSTANTS:
                raise _unknown(f"IS {what}", self._text)
            test = Call(op=f"is_{what.lower()}", args=(left,))
            return Call(op="not", args=(test,)) if negated else test
        if word == "IN":
            self._expect("(")
            return Call(op="in", args=(left, *self._arguments()))
        right = self.term(tight)
        if word == "BETWEEN":
            self._expect("AND")
            low = Call(op=">=", args=(left, right))
            return Call(op="and", args=(low, Call(op="<=", args=(left, self.term(tight)))))
        fixed = (self._next()[1],) if word.endswith("LIKE") and self._take("ESCAPE") else ()
        return Call(op=word.lower(), args=(left, right), fixed=fixed)

    def _operand(self) -> Term:
        kind, text = self._next()
        if kind == "number":
            return _number(text)
        if kind == "text":
            return Literal(type="STRING", value=unescape(text[1:-1]))
        if text == "(":
            inner = self.term(0)
            self._expect(")")
            return inner
        if text == "-":
            return self._minus()
        if kind != "word":
            raise _unknown(f"{text!r}", self._text)
        return self._word(text)

    def _minus(self) -> Term:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        if kind == "number":
            # The sign belongs to the constant: 128Y alone would be out of range.
            self._at += 1
            return _number("-" + text)
        return Call(op="negative", args=(self.term(6),))

    def _word(self, text: str) -> Term:
        upper = text.upper()
        if upper in _CONSTANTS:
            type_, value = _CONSTANTS[upper]
            return Literal(type=type_, value=value)
        if upper in ("CAST", "TRY_CAST"):
            return self._cast(tried=upper == "TRY_CAST")
        if upper == "CASE":
            return self._case()
        if self._take("."):
            return self._reference(text, self._next()[1])
        if self._take("("):
            return Call(op=text.lower(), args=self._arguments())
        raise _unknown(f"the word {text!r}", self._text)

    def _reference(self, side: str, name: str) -> Term:
        if side == "s" and name.startswith("`"):
            declared = name[1:-1].replace("``", "`")
            if declared in self._columns:
                return ColumnRef(name=declared, type=self._columns[declared])
            raise UserError(
                f"column {declared!r} is not there", hint="possible: " + ", ".join(self._columns)
            )
        if side == "p" and name[:1] == "p" and name[1:].isdecimal():
            number = int(name[1:])
            if number < len(self._holes):
                return Hole(number=number, type=self._holes[number])
        raise _unknown(f"{side}.{name}", self._text)

    def _arguments(self) -> tuple[Term, ...]:
        if self._take(")"):
            return ()
        found = [self.term(0)]
        while self._take(","):
            found.append(self.term(0))
        self._expect(")")
        return tuple(found)

    def _cast(self, *, tried: bool) -> Term:
        self._expect("(")
        inner = self.term(0)
        self._expect("AS")
        text = ""
        depth = 0
        while depth or self._peek() != ")":
            token = self._next()[1]
            depth += (token == "(") - (token == ")")
            text += token
        self._expect(")")
        return Convert(term=inner, type=parse_type(text), tried=tried, implied=False)

    def _case(self) -> Term:
        parts: list[Term] = []
        while self._take("WHEN"):
            parts.append(self.term(0))
            self._expect("THEN")
            parts.append(self.term(0))
        if self._take("ELSE"):
            parts.append(self.term(0))
        self._expect("END")
        return Call(op="case", args=tuple(parts))

    def _peek(self) -> str:
        if self._at >= len(self._tokens):
            return ""
        kind, text = self._tokens[self._at]
        return text.upper() if kind == "word" else text if kind == "sign" else ""

    def _next(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise _unknown("a text that ends too early", self._text)
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, word: str) -> bool:
        found = self._peek() == word
        self._at += found
        return found

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise _unknown(f"a text without {word} where it should be", self._text)


def _number(text: str) -> Literal:
    """A numeric constant with the type that Spark gives its spelling."""
    suffix = text[-1:].upper()
    if text.endswith("BD"):
        value = Decimal(text[:-2])
        return Literal(type=decimal_type(value), value=value)
    if suffix in _SUFFIXES:
        type_ = _SUFFIXES[suffix]
        real = type_ in ("DOUBLE", "FLOAT")
        return Literal(type=type_, value=float(text[:-1]) if real else int(text[:-1]))
    if "e" in text.lower():
        return Literal(type="DOUBLE", value=float(text))
    if "." in text:
        exact = Decimal(text)
        return Literal(type=decimal_type(exact), value=exact)
    whole = int(text)
    fits = -(1 << 31) <= whole < 1 << 31
    return Literal(type="INT" if fits else "BIGINT", value=whole)
