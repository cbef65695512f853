"""Expressions as a small immutable tree, and their canonical text.

    kwh > 1.5    is    Call(op=">", args=(ColumnRef(name="kwh", ..), Literal(value=1.5, ..)))

Five kinds of node say everything: a column, a constant, a hole where a constant was, a
conversion, and a call of an operator or function. Parts that Spark wants to be constant (the
scale of `round`, the escape of LIKE) are `fixed` text of a call, and so part of a signature.

Promises   equal trees mean the same; where a node stood in the text does not count.
Not here   what the operators mean (`functions.py`); making trees from text (`query/sql.py`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from shoal.query.selection import Value

__all__ = [
    "COMPARISONS",
    "Call",
    "ColumnRef",
    "Convert",
    "Hole",
    "Literal",
    "Term",
    "bottom_up",
    "children",
    "place",
    "show",
    "walk",
    "with_children",
]

#: Comparisons of two operands, each with the one that has its operands swapped.
COMPARISONS = {"=": "=", "<>": "<>", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRef:
    """A column of the tuple, in its declared spelling."""

    name: str
    type: str
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    """A constant with the type Spark gives it; VOID is the type of NULL."""

    type: str
    value: Value
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """The place of a constant, by number."""

    number: int
    type: str
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Convert:
    """A cast. `tried`: TRY_CAST. `implied`: Spark's own coercion, not in the text."""

    term: "Term"
    type: str
    tried: bool
    implied: bool
    at: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An operator or a function, its arguments, and its `fixed` parts as SQL text."""

    op: str
    args: tuple["Term", ...]
    fixed: tuple[str, ...] = ()
    #: The type of the result, "" until it is known (`typing.py`).
    type: str = ""
    at: int = field(default=0, compare=False)


Term = ColumnRef | Literal | Hole | Convert | Call


def children(term: Term) -> tuple[Term, ...]:
    """The nodes directly below."""
    if isinstance(term, Call):
        return term.args
    return (term.term,) if isinstance(term, Convert) else ()


def with_children(term: Term, parts: tuple[Term, ...]) -> Term:
    """The same node above other nodes."""
    if isinstance(term, Call):
        return replace(term, args=parts)
    return replace(term, term=parts[0]) if isinstance(term, Convert) else term


def bottom_up(term: Term, rewrite: Callable[[Term], Term]) -> Term:
    """Rewrite every node once, those below first."""
    below = children(term)
    parts = tuple(bottom_up(part, rewrite) for part in below)
    changed = any(part is not old for part, old in zip(parts, below, strict=True))
    return rewrite(with_children(term, parts) if changed else term)


def place(text: str, at: int) -> tuple[int, int]:
    """Line and column, from 1, of an offset in a text."""
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1


def walk(term: Term) -> Iterator[Term]:
    """Every node, from left to right, a node before those below it."""
    yield term
    for part in children(term):
        yield from walk(part)


def show(term: Term) -> str:
    """The canonical text: `?` and a type where a constant is or was.

    >>> kwh = ColumnRef(name="kwh", type="DOUBLE")
    >>> show(Call(op=">", args=(kwh, Literal(type="DOUBLE", value=1.5))))
    '(`kwh` > ?DOUBLE)'
    """
    match term:
        case ColumnRef(name=name):
            return "`" + name.replace("`", "``") + "`"
        case Literal(type=type_):
            return f"?{type_}"
        case Hole(number=number, type=type_):
            return f"?{number}:{type_}"
        case Convert(type=type_, tried=tried):
            return f"{'TRY_CAST' if tried else 'CAST'}({show(term.term)} AS {type_})"
        case Call(op=op, args=args, fixed=fixed):
            shown = [show(arg) for arg in args]
            if op in ("and", "or") or (len(args) == 2 and not op[0].isalpha() and not fixed):
                return "(" + f" {op.upper()} ".join(shown) + ")"
            return f"{op}({', '.join([*shown, *fixed])})"
