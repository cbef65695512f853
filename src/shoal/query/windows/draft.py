"""From the text of any query to what runs it, in two phases, because types are Spark's to say.

    draft = parse_query("SELECT zone, avg(kwh) AS mean FROM readings [RANGE 1 HOUR] "
                        "GROUP BY zone HAVING avg(kwh) > 3", readings)
    draft.probe           SELECT s.t0, typeof(s.`a0`) AS u0, typeof((s.`a0` > 1)) AS u1 FROM
                          (SELECT typeof(..) AS t0, avg(s.`kwh`) OVER () AS a0 FROM (SELECT CAST(..
    draft.resolve(row)    Windowed(...), or Projected(...) for a query without windows

The engine runs `probe`, one row of texts, and hands that row to `resolve`. What is asked of groups
stands around what is asked of tuples; an aggregate is asked as a window function, because only
those can stand beside plain expressions.

Promises   any text gives a query or a UserError; equal spellings give equal signatures.
Not here   running the probe (`spark/`); the parts of the way: `sql_select/`, `grouping.py`,
           `panes.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from shoal.kernel.errors import LocalError, UserError
from shoal.query.canonical import normalise
from shoal.query.catalog import StreamDef, quote
from shoal.query.draft import refusal_of, spell
from shoal.query.selection import Selection
from shoal.query.signature import plan_of, sign
from shoal.query.sql_select.flatten import read_query
from shoal.query.terms.safe import Safe
from shoal.query.terms.tree import ColumnRef, Literal, Term, bottom_up, place, walk
from shoal.query.terms.typing import Typing
from shoal.query.windows.aggregates import Argument, measure
from shoal.query.windows.flat import Flat, Item
from shoal.query.windows.grouping import Aggregated, Grouped, all_of, cut
from shoal.query.windows.panes import Typed, TypedCall, windowed
from shoal.query.windows.plan import (
    WINDOW_END,
    WINDOW_START,
    Output,
    Projected,
    Windowed,
)
from shoal.query.windows.shape import Window

__all__ = ["QueryDraft", "parse_query"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryDraft:
    """A query that is read and canonical, but for the types; without windows `window` is None."""

    stream: StreamDef
    window: Window | None
    parts: Grouped
    extra_functions: tuple[str, ...]
    #: For the places in errors only.
    text: str = field(compare=False)

    @property
    def inner(self) -> tuple[Term, ...]:
        """What is computed of tuples: conditions first, then what can have any type."""
        found = [*self.parts.where, *self.parts.keys]
        for call in self.parts.calls:
            found += call.arguments
            if call.filter is not None:
                found.append(call.filter)
        if self.window is None:
            found += [item.term for item in self.parts.items]
        return tuple(found)

    @property
    def outer(self) -> tuple[Term, ...]:
        """What is computed of groups: having, then items."""
        if self.window is None:
            return ()
        return (*self.parts.having, *(item.term for item in self.parts.items))

    @property
    def probe(self) -> str:
        """One SELECT of one row that yields the types."""
        inner = self._inner
        used: dict[str, str] = {}
        for term in self.inner:
            used |= {node.name: node.type for node in walk(term) if isinstance(node, ColumnRef)}
        nulls = [f"CAST(NULL AS {used[name]}) AS {quote(name)}" for name in sorted(used)]
        source = f"FROM (SELECT {', '.join(nulls) or 'NULL AS nothing'}) AS s"
        asked = [f"typeof({question}) AS t{at}" for at, question in enumerate(inner.questions)]
        if self.window is None:
            return f"SELECT {', '.join(asked)} {source}"
        told = [f"s.t{at}" for at in range(len(asked))]
        asked += [f"{_asked(call, inner)} AS a{at}" for at, call in enumerate(self.parts.calls)]
        asked += [f"{inner.question(key)} AS k{at}" for at, key in enumerate(self.parts.keys)]
        asked += [f"CAST(NULL AS TIMESTAMP) AS {name}" for name in (WINDOW_START, WINDOW_END)]
        questions = [f"s.`a{at}`" for at in range(len(self.parts.calls))]
        questions += self._outer.questions
        told += [f"typeof({question}) AS u{at}" for at, question in enumerate(questions)]
        return f"SELECT {', '.join(told)} FROM (SELECT {', '.join(asked)} {source}) AS s"

    def resolve(self, types: Sequence[str]) -> Windowed | Projected:
        """The query, given the answers to `probe` in their order."""
        inner, outer = self._inner, self._outer
        counts = [len(inner.questions)]
        if self.window is not None:
            counts += [len(self.parts.calls), len(outer.questions)]
        if len(types) != sum(counts):
            raise LocalError("a draft is resolved with one type for each question of its probe")
        spelled = iter([spell(type_, "query") for type_ in types])
        answers = {question: next(spelled) for question in inner.questions}
        typed = iter(inner.values(answers))
        where = tuple(next(typed) for _ in self.parts.where)
        filters = [call.filter for call in self.parts.calls if call.filter is not None]
        for condition in (*self.parts.where, *filters):
            inner.check_condition(condition)
        if self.window is None:
            return self._projected(where, list(typed))
        keys = tuple(self._key(next(typed)) for _ in self.parts.keys)
        calls = tuple(
            self._call(call, f"a{at}", typed, next(spelled))
            for at, call in enumerate(self.parts.calls)
        )
        columns = {f"k{at}": key.type for at, key in enumerate(keys)}
        columns |= {call.measure.name: call.measure.type for call in calls}
        answers = {question: next(spelled) for question in outer.questions}
        having, outputs = self._over_groups(columns, answers)
        found = Typed(where=where, keys=keys, calls=calls, having=having, outputs=outputs)
        return windowed(self.stream, self.window, found, self.extra_functions)

    def plan(self, types: Sequence[str]) -> tuple[str, ...]:
        """The canonical predicate over tuples, one text for each part, for people."""
        inner = self._inner
        spelled = [spell(type_, "query") for type_ in types[: len(inner.questions)]]
        typed = inner.values(dict(zip(inner.questions, spelled, strict=True)))
        return plan_of(tuple(typed[: len(self.parts.where)]), self.extra_functions)

    def refusal(self, message: str) -> UserError:
        """What to tell the person whose query Spark cannot analyze, given Spark's message."""
        return refusal_of(message, "query")

    @property
    def _inner(self) -> Typing:
        return Typing(self.inner, self.text)

    @property
    def _outer(self) -> Typing:
        # Whether a group's column is a DECIMAL is not known yet.
        return Typing(self.outer, self.text, digits=True)

    def _projected(self, where: tuple[Term, ...], values: list[Term]) -> Projected:
        signature, parameters = sign(self.stream, where, self.extra_functions)
        read: dict[str, None] = {}
        for item in self.parts.items:
            nodes = walk(item.term)
            read |= dict.fromkeys(node.name for node in nodes if isinstance(node, ColumnRef))
        selection = Selection(
            stream=self.stream.name,
            # What reads no column still needs a row to be delivered.
            columns=tuple(read) or (self.stream.columns[0].name,),
            signature=signature,
            parameters=parameters,
        )
        selection.validate()
        return Projected(selection=selection, outputs=self._outputs(values))

    def _key(self, key: Term) -> Term:
        if key.type == "VOID":
            raise self._wrong("a key has no type", key.at, hint="CAST it to the type of a column")
        return key

    def _call(self, call: Aggregated, name: str, typed: Iterator[Term], type_: str) -> TypedCall:
        """The measure of a call; takes its arguments and its FILTER from `typed`."""
        safe = Safe(self.extra_functions, inline=True)
        arguments = tuple(next(typed) for _ in call.arguments)
        condition = next(typed) if call.filter is not None else None
        where = safe.safe(condition) if condition is not None else ""
        try:
            made = measure(
                call.function,
                tuple(Argument(text=safe.safe(term), type=term.type) for term in arguments),
                name=name,
                where=where,
                fixed=tuple(constant.value for constant in call.fixed),
            )
        except UserError as error:
            raise self._wrong(error.what, call.at, detail=error.detail, hint=error.hint) from None
        if made.type != type_:
            raise LocalError(f"{call.function} is a {made.type} here, and a {type_} to Spark")
        shown = [*map(safe.safe, arguments), *map(_number, call.fixed)]
        text = f"{call.function}({', '.join(shown) or '*'})"
        text += f" FILTER (WHERE {where})" if where else ""
        return TypedCall(arguments=arguments, filter=condition, text=text, measure=made)

    def _over_groups(
        self, columns: Mapping[str, str], answers: Mapping[str, str]
    ) -> tuple[tuple[Term, ...], tuple[Output, ...]]:
        """HAVING and the select list, now that the columns of groups have types."""

        def known(node: Term) -> Term:
            if isinstance(node, ColumnRef):
                return replace(node, type=columns.get(node.name, node.type))
            return node

        terms = tuple(bottom_up(term, known) for term in self.outer)
        typing = Typing(terms, self.text, digits=True)
        typed = typing.values(answers)
        count = len(self.parts.having)
        for condition in terms[:count]:
            typing.check_condition(condition)
        return typed[:count], self._outputs(typed[count:])

    def _outputs(self, values: Sequence[Term]) -> tuple[Output, ...]:
        safe = Safe(self.extra_functions, inline=True)
        found = []
        for item, value in zip(self.parts.items, values, strict=True):
            if value.type == "VOID":
                what = f"{item.name!r} has no type"
                raise self._wrong(what, item.term.at, hint="CAST it to the type of a column")
            found.append(Output(name=item.name, expression=safe.safe(value), type=value.type))
        return tuple(found)

    def _wrong(self, what: str, at: int, *, detail: str = "", hint: str) -> UserError:
        line, column = place(self.text, at)
        return UserError(what, detail=detail, hint=hint, line=line, column=column)


def parse_query(text: str, stream: StreamDef, *, extra_functions: Sequence[str] = ()) -> QueryDraft:
    """Read a query over this stream: a selection with a select list, or aggregates in windows.

    `extra_functions` are names of installed operators, as for `parse_selection`.
    """
    extra = tuple(name.lower() for name in extra_functions)
    flat = read_query(text, stream, extra)
    if flat.grouping is not None:
        window, parts = flat.grouping.window, cut(flat, text)
    else:
        window, parts = None, _ungrouped(flat)
    return QueryDraft(stream=stream, window=window, parts=parts, extra_functions=extra, text=text)


def _ungrouped(flat: Flat) -> Grouped:
    items = tuple(Item(name=item.name, term=normalise(item.term)) for item in flat.items)
    return Grouped(where=all_of(flat.where), keys=(), calls=(), having=(), items=items)


def _asked(call: Aggregated, typing: Typing) -> str:
    """The call as a question: over all rows, and without its FILTER, which changes no type."""
    shown = [typing.question(term) for term in call.arguments]
    shown += map(_number, call.fixed)
    return f"{call.function}({', '.join(shown) or '*'}) OVER ()"


def _number(constant: Literal) -> str:
    """A constant as people write it; Spark wants some of them without any cast."""
    value = constant.value
    return f"{value:f}BD" if isinstance(value, Decimal) else repr(value)
