"""The types of columns and holes, spelled as Spark SQL spells them.

Promises   one type has one spelling: upper case, no spaces, `DECIMAL(p,s)` with both numbers,
           `ARRAY<T>` for a hole that holds an IN list.
Not here   coercion: which type a comparison has is Spark's to say (`shoal.query.draft`).
"""

import difflib
import re

from shoal.kernel.errors import UserError

__all__ = [
    "ALPHABETIC",
    "FRACTIONAL",
    "INTEGRAL",
    "decimal_parts",
    "element_of",
    "is_decimal",
    "is_numeric",
    "nearest",
    "parse_type",
]

#: Integral types with the decimal digits Spark gives them beside a DECIMAL.
INTEGRAL = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}
#: Binary floating point: their sums and comparisons are IEEE 754.
FRACTIONAL = ("FLOAT", "DOUBLE")
ALPHABETIC = ("STRING", "BINARY", "BOOLEAN", "DATE", "TIMESTAMP")
#: Digits that a DECIMAL can hold.
DIGITS_MAX = 38

_SYNONYMS = {
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
    "TIMESTAMP_LTZ": "TIMESTAMP",
}
_REFUSED = {
    "TIMESTAMP_NTZ": "instants here are UTC; write TIMESTAMP",
    "VARCHAR": "write STRING; lengths are not enforced",
    "CHAR": "write STRING; lengths are not enforced",
    "ARRAY": "columns are flat; store each element as a tuple of its own",
    "MAP": "columns are flat; give each key a column of its own",
    "STRUCT": "columns are flat; give each field a column of its own",
    "INTERVAL": "store a duration as BIGINT microseconds",
    "VARIANT": "store the text as STRING",
}
_WORD = re.compile(r"\s*([A-Za-z_][A-Za-z_0-9]*)\s*(.*?)\s*", re.DOTALL)
_DECIMAL = re.compile(r"\(\s*(\d{1,3})\s*(?:,\s*(\d{1,3})\s*)?\)")
_NAMES = (*INTEGRAL, *FRACTIONAL, "DECIMAL", *ALPHABETIC)


def nearest(word: str, known: list[str]) -> str:
    """The hint part that names the nearest known word, or the empty text."""
    found = difflib.get_close_matches(word.lower(), [name.lower() for name in known], 1, 0.6)
    if not found:
        return ""
    return next(f"did you mean {name}?" for name in known if name.lower() == found[0])


def parse_type(text: str) -> str:
    """The one spelling of a column's type.

    >>> parse_type("integer"), parse_type("decimal(10, 2)"), parse_type("DEC")
    ('INT', 'DECIMAL(10,2)', 'DECIMAL(10,0)')
    """
    match = _WORD.fullmatch(text)
    word = match.group(1).upper() if match else ""
    rest = match.group(2) if match else ""
    name = _SYNONYMS.get(word, word)
    if name == "DECIMAL":
        return _parse_decimal(text, rest)
    if name in _NAMES and not rest:
        return name
    hint = _REFUSED.get(name) or nearest(name, list(_NAMES)) or "one of " + ", ".join(_NAMES)
    detail = f"{rest!r} after {name} is not understood" if name in _NAMES else ""
    if name in _NAMES:
        hint = "a column is a name and a type, nothing more; all columns may be NULL"
    raise UserError(f"type {text.strip()!r} cannot be used", detail=detail, hint=hint)


def _parse_decimal(text: str, rest: str) -> str:
    match = _DECIMAL.fullmatch(rest) if rest else None
    if rest and not match:
        raise UserError(
            f"type {text.strip()!r} cannot be read",
            detail="DECIMAL takes a precision and a scale",
            hint="write DECIMAL(10,2)",
        )
    precision = int(match.group(1)) if match else 10
    scale = int(match.group(2) or 0) if match else 0
    if not 1 <= precision <= DIGITS_MAX or scale > precision:
        raise UserError(
            f"type {text.strip()!r} is out of range",
            detail=f"precision {precision}, scale {scale}",
            hint=f"1 <= precision <= {DIGITS_MAX}, 0 <= scale <= precision",
        )
    return f"DECIMAL({precision},{scale})"


def is_decimal(name: str) -> bool:
    """Whether this is a DECIMAL of any size."""
    return name.startswith("DECIMAL(")


def is_numeric(name: str) -> bool:
    """Whether arithmetic is possible with it."""
    return name in INTEGRAL or name in FRACTIONAL or is_decimal(name)


def decimal_parts(name: str) -> tuple[int, int]:
    """Precision and scale of a DECIMAL, or of the DECIMAL that holds an integral type.

    >>> decimal_parts("DECIMAL(10,2)"), decimal_parts("INT")
    ((10, 2), (10, 0))
    """
    if name in INTEGRAL:
        return INTEGRAL[name], 0
    precision, scale = name[len("DECIMAL(") : -1].split(",")
    return int(precision), int(scale)


def element_of(hole: str) -> str:
    """The element type of an `ARRAY<T>` hole; of any other hole, itself."""
    return hole[len("ARRAY<") : -1] if hole.startswith("ARRAY<") else hole
