"""From a query's text to its selection, in two phases, because types are Spark's to say.

    draft = parse_selection("SELECT * FROM readings WHERE kwh > 5", readings)
    draft.probe                    SELECT typeof(...), typeof(...) FROM (SELECT CAST(NULL ...
    draft.resolve(row)             Selection(...)

The engine runs `probe`, one row of texts, and hands that row to `resolve`. Probes of queries that
differ only in constants are equal, so the engine keeps the answers. If Spark refuses the probe,
`refusal` makes a UserError of its message.

Promises   any text gives a Selection or a UserError; equal spellings give equal signatures.
Not here   running the probe (`spark/`); the parts of the way: `sql.py`, `canonical.py`,
           `terms/typing.py`, `signature.py`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from shoal.kernel.errors import LocalError, UserError
from shoal.query.canonical import conjuncts, normalise
from shoal.query.catalog import StreamDef, quote
from shoal.query.selection import Selection
from shoal.query.signature import plan_of, sign
from shoal.query.sql import parse
from shoal.query.terms.tree import ColumnRef, Term, walk
from shoal.query.terms.types import parse_type
from shoal.query.terms.typing import Typing

__all__ = ["Draft", "parse_selection", "refusal_of", "spell"]

_CLASS = re.compile(r"\[[A-Z0-9_.]+\]\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A selection that is read and canonical, but for the types."""

    stream: StreamDef
    columns: tuple[str, ...]
    conjuncts: tuple[Term, ...]
    extra_functions: tuple[str, ...]
    #: For the places in errors only.
    text: str = field(compare=False)

    @property
    def probe(self) -> str:
        """One SELECT of one row that yields the types."""
        questions = Typing(self.conjuncts).questions
        used: dict[str, str] = {}
        for part in self.conjuncts:
            nodes = walk(part)
            used |= {node.name: node.type for node in nodes if isinstance(node, ColumnRef)}
        nulls = [f"CAST(NULL AS {used[name]}) AS {quote(name)}" for name in sorted(used)]
        asked = ", ".join(f"typeof({question}) AS t{at}" for at, question in enumerate(questions))
        return f"SELECT {asked} FROM (SELECT {', '.join(nulls) or 'NULL AS nothing'}) AS s"

    def resolve(self, types: Sequence[str]) -> Selection:
        """The selection, given the answers to `probe` in their order."""
        typed = self._typed(types)
        signature, parameters = sign(self.stream, typed, self.extra_functions)
        selection = Selection(
            stream=self.stream.name,
            columns=self.columns,
            signature=signature,
            parameters=parameters,
        )
        selection.validate()
        return selection

    def plan(self, types: Sequence[str]) -> tuple[str, ...]:
        """The canonical predicate, one text for each part that must be TRUE, for people."""
        return plan_of(self._typed(types), self.extra_functions)

    def _typed(self, types: Sequence[str]) -> tuple[Term, ...]:
        typing = Typing(self.conjuncts, self.text)
        if len(types) != len(typing.questions):
            raise LocalError("a draft is resolved with one type for each question of its probe")
        spelled = (spell(type_, "predicate") for type_ in types)
        return typing.typed(dict(zip(typing.questions, spelled, strict=True)))

    def refusal(self, message: str) -> UserError:
        """What to tell the person whose predicate Spark cannot analyze, given Spark's message."""
        return refusal_of(message, "predicate")


def parse_selection(text: str, stream: StreamDef, *, extra_functions: Sequence[str] = ()) -> Draft:
    """Read `SELECT columns | * FROM stream [WHERE predicate]`.

    `extra_functions` are names of installed operators that are let in as they are; what they
    throw is not caught.
    """
    extra = tuple(name.lower() for name in extra_functions)
    parsed = parse(text, stream, extra)
    parts = conjuncts(normalise(parsed.where)) if parsed.where is not None else ()
    return Draft(
        stream=stream, columns=parsed.columns, conjuncts=parts, extra_functions=extra, text=text
    )


def refusal_of(message: str, kind: str) -> UserError:
    """What to tell a person of Spark's message about what they wrote, a predicate or a query."""
    first = _CLASS.sub("", message.strip().splitlines()[0] if message.strip() else "")
    return UserError(
        f"{kind} has no meaning to Spark",
        detail=first.split("SQLSTATE")[0].strip()[:300],
        hint="compare like with like; CAST converts",
    )


def spell(answer: str, kind: str) -> str:
    """Our spelling of a type that `typeof` names."""
    upper = answer.upper()
    if upper == "VOID":
        return upper
    try:
        return parse_type(upper)
    except UserError:
        raise UserError(
            f"{kind} has a part of a type that is not supported",
            detail=answer,
            hint="CAST it to a type that a column can have",
        ) from None
