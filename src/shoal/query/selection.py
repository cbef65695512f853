"""The result of reading a selection: signature, parameters, projection. Types, and no more.

    text        SELECT ts, kwh FROM readings WHERE meter = 7 AND kwh > 1.5
    columns     ('ts', 'kwh')
    parameters  (1.5, 7)
    signature   holes      ('DOUBLE', 'INT')
                keys       (Key(expression='s.`meter`', hole=1, many=False),)
                range      Range(expression='s.`kwh`', lower=0, lower_strict=True, ...)
                condition  (s.`kwh` > p.`p0`) AND (s.`meter` = p.`p1`)
                errors     (empty: nothing here can raise)

Promises   everything here is plain data: it can be compared, hashed, and written as JSON; no
           object of a parser and no constant of a query is inside a signature.
Not here   making them (`draft.py`, `signature.py`); joining them with tuples (`spark/`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from shoal.kernel.errors import LocalError
from shoal.kernel.ids import instance_of, key_of
from shoal.query.terms.types import INTEGRAL, element_of, is_decimal

__all__ = [
    "Key",
    "Range",
    "Selection",
    "Signature",
    "Value",
    "parameters_from_json",
    "parameters_to_json",
]

#: A parameter, by the type of its hole: BOOLEAN bool; TINYINT to BIGINT int; FLOAT and DOUBLE
#: float; DECIMAL Decimal; STRING str; BINARY bytes; DATE int, days since 1970-01-01; TIMESTAMP
#: int, an instant; ARRAY<T> a tuple of those; any of them may be None, which is SQL's NULL.
Value = None | bool | int | float | Decimal | str | bytes | tuple["Value", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A conjunct `expression = hole`: TRUE of the whole condition implies TRUE of this.

    `expression` reads columns of the tuple, as `s.<column>`, and the holes in `inner`, as
    `p.p<hole>`; it never throws and has exactly the type of the hole. `many`: the hole is an
    array, and the expression equals one of its elements. A NULL on either side matches nothing.
    `fails`: TRUE of the errors implies that this is TRUE or the expression NULL.
    """

    expression: str
    hole: int
    many: bool
    inner: tuple[int, ...] = ()
    fails: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Bounds on one expression that TRUE of the whole condition implies; holes by number.

    `expression` is as in Key. A missing bound is None, and then its `strict` is False.
    """

    expression: str
    lower: int | None
    lower_strict: bool
    upper: int | None
    upper_strict: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A selection without its constants; equal signatures run as one component.

    `condition` is the whole predicate over `s.<column>` and `p.p<hole>`, TRUE for a match; it
    never throws, unless `may_throw` (an operator was let in that can). `errors` is TRUE iff the
    predicate as written would have raised, "" if it cannot. `name` is the canonical text, with
    the version of the canonical form.
    """

    stream: str
    holes: tuple[str, ...]
    keys: tuple[Key, ...]
    range: Range | None
    condition: str
    errors: str
    may_throw: bool
    name: str

    @property
    def key(self) -> str:
        """The SHA-1 of the name: 40 hexadecimal digits."""
        return key_of(self.name)

    @property
    def instance(self) -> str:
        """The identity of the component that runs it."""
        return instance_of("select", self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """One query's selection: what it wants of which stream, and its constants."""

    stream: str
    columns: tuple[str, ...]
    signature: Signature
    parameters: tuple[Value, ...]

    def validate(self) -> None:
        """Raise LocalError unless there is one parameter of the right kind for each hole."""
        holes = self.signature.holes
        if len(holes) != len(self.parameters):
            raise LocalError("a selection has one parameter for each hole")
        for hole, value in zip(holes, self.parameters, strict=True):
            if not _fits(value, hole):
                raise LocalError(f"parameter {value!r} does not fit a hole of type {hole}")


def parameters_to_json(signature: Signature, parameters: Sequence[Value]) -> list[Any]:
    """Plain JSON values from which `parameters_from_json` makes the same parameters again."""
    pairs = zip(signature.holes, parameters, strict=True)
    return [_to_json(value, hole) for hole, value in pairs]


def parameters_from_json(signature: Signature, values: Sequence[Any]) -> tuple[Value, ...]:
    """The parameters that `parameters_to_json` wrote."""
    pairs = zip(signature.holes, values, strict=True)
    return tuple(_from_json(value, hole) for hole, value in pairs)


def _fits(value: Value, hole: str) -> bool:
    if value is None:
        return True
    if hole.startswith("ARRAY<"):
        element = element_of(hole)
        return isinstance(value, tuple) and all(_fits(item, element) for item in value)
    if hole in INTEGRAL or hole in ("DATE", "TIMESTAMP"):
        return isinstance(value, int) and not isinstance(value, bool)
    if is_decimal(hole):
        return isinstance(value, Decimal)
    kinds: dict[str, type] = {"BOOLEAN": bool, "STRING": str, "BINARY": bytes}
    return isinstance(value, kinds.get(hole, float))


def _to_json(value: Value, hole: str) -> Any:
    if isinstance(value, tuple):
        return [_to_json(item, element_of(hole)) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return f"{value:f}"
    # JSON has no NaN and no infinity; hexadecimal text keeps every bit of the others too.
    return value.hex() if isinstance(value, float) else value


def _from_json(value: Any, hole: str) -> Value:
    if value is None:
        return None
    element = element_of(hole)
    if element != hole:
        return tuple(_from_json(item, element) for item in value)
    if hole == "BINARY":
        return bytes.fromhex(value)
    if is_decimal(hole):
        return Decimal(value)
    if hole in ("FLOAT", "DOUBLE"):
        return float.fromhex(value)
    plain: bool | int | str = value
    return plain
