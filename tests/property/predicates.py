"""Random predicates over READINGS, and random spellings of one predicate.

A predicate is a nested tuple; `spell` writes it in one of its many ways, in the part of SQL that
Spark and DuckDB read alike. `mutate` changes what it means, a little.
"""

from random import Random
from typing import Any

NUMBERS = {"meter": "INT", "zone": "INT", "kwh": "DOUBLE", "total": "BIGINT", "tiny": "TINYINT"}
_OPS = ("=", "<>", "<", "<=", ">", ">=")
_FLIP = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_TEXTS = ("'a'", "'b'", "'ab'", "''", "'é'", "'it''s'", "NULL")

Predicate = tuple[Any, ...]


def predicate(rng: Random, depth: int = 3) -> Predicate:
    """A random predicate."""
    if depth > 0 and rng.random() < 0.6:
        kind = rng.choice(("and", "or", "not"))
        if kind == "not":
            return ("not", predicate(rng, depth - 1))
        return (kind, *(predicate(rng, depth - 1) for _ in range(rng.randrange(2, 4))))
    kind = rng.choice(("compare", "compare", "compare", "between", "in", "null", "flag", "text"))
    column = rng.choice([*NUMBERS])
    if kind == "compare" and rng.random() < 0.2:
        return ("columns", rng.choice(_OPS), column, rng.choice([*NUMBERS]))
    if kind == "compare":
        return ("compare", rng.choice(_OPS), column, number(rng, column))
    if kind == "between":
        return ("between", column, number(rng, column), number(rng, column))
    if kind == "in":
        return ("in", column, *(str(rng.randrange(-3, 4)) for _ in range(rng.randrange(1, 4))))
    if kind == "null":
        return ("null", column)
    if kind == "flag":
        return ("flag",)
    return ("compare", rng.choice(_OPS), "name", rng.choice(_TEXTS))


def number(rng: Random, column: str) -> str:
    """A constant that may stand beside this column."""
    if rng.random() < 0.05:
        return "NULL"
    if column == "kwh" and rng.random() < 0.5:
        return rng.choice(("0.5", "1.25", "-1.5", "1e3", "0.0"))
    return str(rng.randrange(-3, 4))


def spell(rng: Random, node: Predicate) -> str:
    """One of the texts of a predicate."""
    text = _spell(rng, node)
    if rng.random() < 0.1:
        text = f"NOT (NOT ({text}))"
    return f"({text})" if rng.random() < 0.2 else text


def _spell(rng: Random, node: Predicate) -> str:
    kind = node[0]
    if kind in ("and", "or"):
        return _connective(rng, kind, list(node[1:]))
    if kind == "not":
        return _negation(rng, node[1])
    if kind == "flag":
        return _name(rng, "flag")
    if kind == "null":
        return f"{_name(rng, node[1])} IS NULL"
    if kind == "between":
        return _between(rng, *node[1:])
    if kind == "in":
        return _in(rng, node[1], list(node[2:]))
    op, left, right = node[1:]
    left = _name(rng, left)
    right = _name(rng, right) if kind == "columns" else right
    if rng.random() < 0.3:
        left, op, right = right, _FLIP[op], left
    if op == "<>" and rng.random() < 0.3:
        op = "!="
    return f"{left} {'==' if op == '=' and rng.random() < 0.2 else op} {right}"


def _connective(rng: Random, kind: str, parts: list[Predicate]) -> str:
    if kind == "and":
        rng.shuffle(parts)
        if rng.random() < 0.2:
            parts.append(rng.choice(parts))
    texts = [f"({spell(rng, part)})" for part in parts]
    word = rng.choice((kind.upper(), kind))
    if len(texts) > 2 and rng.random() < 0.3:
        inner = f" {word} ".join(texts[1:])
        texts = [texts[0], f"({inner})"]
    return f" {word} ".join(texts)


def _negation(rng: Random, inner: Predicate) -> str:
    kind = inner[0]
    if kind in ("compare", "columns") and rng.random() < 0.5:
        return _spell(rng, (kind, _OPPOSITE[inner[1]], *inner[2:]))
    if kind == "and" and rng.random() < 0.4:
        parts = tuple(("not", part) for part in inner[1:])
        return _fixed_order(rng, "or", parts)
    if kind == "null" and rng.random() < 0.5:
        return f"{_name(rng, inner[1])} IS NOT NULL"
    return f"NOT ({spell(rng, inner)})"


def _fixed_order(rng: Random, kind: str, parts: tuple[Predicate, ...]) -> str:
    return f" {kind.upper()} ".join(f"({spell(rng, part)})" for part in parts)


def _between(rng: Random, column: str, low: str, high: str) -> str:
    name = _name(rng, column)
    if rng.random() < 0.5:
        return f"{name} BETWEEN {low} AND {high}"
    low_part = _spell(rng, ("compare", ">=", column, low))
    return f"({low_part}) AND ({_spell(rng, ('compare', '<=', column, high))})"


def _in(rng: Random, column: str, values: list[str]) -> str:
    values = list(dict.fromkeys(values))
    rng.shuffle(values)
    if rng.random() < 0.3:
        return " OR ".join(f"{_name(rng, column)} = {value}" for value in values)
    if rng.random() < 0.2:
        values.append(values[0])
    return f"{_name(rng, column)} IN ({', '.join(values)})"


def _name(rng: Random, column: str) -> str:
    spelled = rng.choice((column, column, column.upper(), column.capitalize()))
    return f"readings.{spelled}" if rng.random() < 0.1 else spelled


def mutate(rng: Random, node: Predicate) -> Predicate:
    """Another predicate, that differs in one place."""
    kind = node[0]
    if kind in ("and", "or", "not") and rng.random() < 0.7:
        at = rng.randrange(1, len(node))
        return (*node[:at], mutate(rng, node[at]), *node[at + 1 :])
    if kind in ("and", "or"):
        return ("or" if kind == "and" else "and", *node[1:])
    if kind == "not":
        return tuple(node[1])
    if kind in ("compare", "columns"):
        return (kind, rng.choice(_OPS), *node[2:])
    if kind == "between":
        return ("between", node[1], node[3], node[2])
    if kind == "in":
        return ("in", node[1], str(rng.randrange(-3, 4)), *node[2:])
    return ("not", node)
