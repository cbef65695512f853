"""Random windowed queries over READINGS, and random spellings of one query.

A query is a `Query`; `spell` writes it in one of its many ways. `mutate` changes what it means.
"""

from dataclasses import dataclass, replace
from random import Random

from tests.property.predicates import Predicate, predicate
from tests.property.predicates import spell as spell_predicate

#: Spellings of one key each.
KEYS = (
    ("zone", "ZONE", "(zone)"),
    ("meter", "readings.meter"),
    ("name", "`name`"),
    ("meter % 10", "mod(meter, 10)"),
    ("zone > 2", "2 < zone"),
    ("upper(name)", "ucase(name)"),
    ("date_trunc('hour', ts)", "date_trunc('HOUR', ts)"),
)
#: Spellings of one aggregate each.
CALLS = (
    ("count(*)", "count(1)", "count('x')", "COUNT(*)"),
    ("avg(kwh)", "mean(kwh)", "AVG(KWH)"),
    ("sum(kwh)", "sum((kwh))"),
    ("sum(meter)",),
    ("max(total)",),
    ("min(name)",),
    ("stddev(kwh)", "std(kwh)", "stddev_samp(kwh)"),
    ("sum(kwh) FILTER (WHERE zone = 1)", "sum(kwh) FILTER (WHERE 1 = zone)"),
    ("sum(kwh) FILTER (WHERE zone = 2)",),
    ("count(kwh)",),
    ("sum(kwh * 2)",),
    ("sum(kwh / zone)",),
)
#: (length, slide) in seconds.
WINDOWS = ((600, 600), (600, 60), (3600, 600), (90, 30), (90, 90))
_OPS = ("<", "<=", ">", ">=", "=", "<>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What a query means: numbers of keys and calls; conditions on the first call."""

    keys: tuple[int, ...]
    calls: tuple[int, ...]
    window: tuple[int, int]
    where: Predicate | None
    having: tuple[tuple[int, str, int], ...]


def query(rng: Random) -> Query:
    """A random query."""
    calls = tuple(rng.sample(range(len(CALLS)), rng.randrange(1, 4)))
    numeric = [call for call in calls if not CALLS[call][0].startswith("min")]
    having = tuple(
        (rng.choice(numeric), rng.choice(_OPS), rng.randrange(0, 9))
        for _ in range(rng.randrange(0, 3) if numeric else 0)
    )
    return Query(
        keys=tuple(rng.sample(range(len(KEYS)), rng.randrange(0, 3))),
        calls=calls,
        window=rng.choice(WINDOWS),
        where=predicate(rng, depth=1) if rng.random() < 0.6 else None,
        having=tuple(dict.fromkeys(having)),
    )


def mutate(rng: Random, node: Query) -> Query:
    """Another query: one thing is different."""
    kind = rng.choice(("keys", "calls", "window", "having"))
    if kind == "keys":
        free = [key for key in range(len(KEYS)) if key not in node.keys]
        return replace(node, keys=(*node.keys[1:], rng.choice(free)))
    if kind == "calls":
        free = [call for call in range(len(CALLS)) if call not in node.calls]
        gone = node.calls[0]
        kept = tuple(part for part in node.having if part[0] != gone)
        return replace(node, calls=(rng.choice(free), *node.calls[1:]), having=kept)
    if kind == "window":
        return replace(node, window=rng.choice([one for one in WINDOWS if one != node.window]))
    if not node.having:
        return replace(node, having=((node.calls[0], "=", 77),))
    call, op, number = node.having[0]
    other = rng.choice([one for one in _OPS if one != op])
    changed = (call, other, number) if rng.random() < 0.5 else (call, op, number + 100)
    return replace(node, having=(changed, *node.having[1:]))


def spell(rng: Random, node: Query) -> str:
    """One of the texts of a query; its columns have the same names in all of them."""
    items = [(rng.choice(KEYS[key]), f"key{key}") for key in node.keys]
    items += [(rng.choice(CALLS[call]), f"call{call}") for call in node.calls]
    rng.shuffle(items)
    names = [name for _, name in items]
    groups = [_group(rng, key, names) for key in node.keys]
    source, where = _source(rng, node)
    by_range = rng.random() < 0.5
    length, slide = node.window
    if by_range:
        source += _range(rng, length, slide)
    else:
        groups.append(f"window(ts, {_lengths(rng, length, slide)})")
    rng.shuffle(groups)
    # Ordinals count the select list, which is the same whatever the order of the keys.
    group = f" GROUP BY {', '.join(groups)}" if groups else ""
    listed = ", ".join(f"{text} AS {name}" for text, name in items)
    having = [_compared(rng, call, op, number) for call, op, number in node.having]
    rng.shuffle(having)
    text = f"SELECT {listed} FROM {source}{where}{group}"
    if having and rng.random() < 0.3:
        inner, outer = text, [_outside(node, part) for part in node.having]
        return f"SELECT {', '.join(names)} FROM ({inner}) AS w WHERE {' AND '.join(outer)}"
    return text + (f" HAVING {' AND '.join(having)}" if having else "")


def _group(rng: Random, key: int, names: list[str]) -> str:
    kind = rng.randrange(3)
    if kind == 0:
        return f"key{key}"
    return str(names.index(f"key{key}") + 1) if kind == 1 else rng.choice(KEYS[key])


def _source(rng: Random, node: Query) -> tuple[str, str]:
    """What stands behind FROM, and WHERE: the filter can be at either level."""
    where = f" WHERE {spell_predicate(rng, node.where)}" if node.where is not None else ""
    kind = rng.randrange(3)
    if kind == 0:
        return "readings", where
    if kind == 1:
        return f"(SELECT * FROM readings{where}) AS readings", ""
    return "(SELECT * FROM (SELECT * FROM readings) AS readings) AS readings", where


def _range(rng: Random, length: int, slide: int) -> str:
    unit = rng.choice(("", "INTERVAL "))
    sliding = "" if slide == length else f" SLIDE {unit}{_duration(rng, slide)}"
    return f" [RANGE {unit}{_duration(rng, length)}{sliding}]"


def _lengths(rng: Random, length: int, slide: int) -> str:
    texts = [_duration(rng, length)]
    if slide != length or rng.random() < 0.3:
        texts.append(_duration(rng, slide))
    return ", ".join(f"'{text}'" for text in texts)


def _duration(rng: Random, seconds: int) -> str:
    if seconds % 60 == 0 and rng.random() < 0.5:
        return f"{seconds // 60} MINUTES"
    return f"{seconds} seconds"


def _compared(rng: Random, call: int, op: str, number: int) -> str:
    flip = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
    left = rng.choice((f"call{call}", rng.choice(CALLS[call])))
    return f"{number} {flip[op]} {left}" if rng.random() < 0.3 else f"{left} {op} {number}"


def _outside(node: Query, part: tuple[int, str, int]) -> str:
    call, op, number = part
    return f"call{call} {op} {number}"
