"""SELECT in SELECT in SELECT to one flat query, by putting expressions in the place of names.

    WITH hot AS (SELECT zone, kwh * 1000 AS wh FROM readings WHERE kwh > 5)
    SELECT zone, max(wh) AS most FROM hot [RANGE 1 HOUR] GROUP BY zone

    is   SELECT zone, max(kwh * 1000) AS most FROM readings [RANGE 1 HOUR] WHERE kwh > 5
         GROUP BY zone

Levels below a grouping project and filter tuples; levels above it project and filter groups, so
their WHERE is a HAVING. There is one grouping at most.

Promises   any text gives a flat query or a UserError that says where and what is possible; equal
           queries at whatever levels are one flat query.
Not here   expressions (`expressions.py`); whether what is selected is grouped
           (`windows/grouping.py`); types.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from shoal.kernel.errors import UserError
from shoal.query.catalog import Column, StreamDef, check_columns
from shoal.query.sql import tree_of
from shoal.query.sql_select.clauses import check_clauses, check_source
from shoal.query.sql_select.expressions import (
    AGGREGATE_NAMES,
    ExpressionReader,
    Scope,
    is_window_call,
)
from shoal.query.sql_select.ranges import Ranges, take_out, window_behind
from shoal.query.sql_terms import refuse, start_of
from shoal.query.terms.tree import Call, ColumnRef, Term
from shoal.query.windows.flat import Flat, Grouping, Item, aggregates_of, is_bound
from shoal.query.windows.grouping import check_grouped
from shoal.query.windows.shape import INSTANT, Window

__all__ = ["POSSIBLE", "read_query", "stream_read"]

POSSIBLE = (
    "possible is [WITH ...] SELECT ... FROM stream [RANGE ... SLIDE ...] [WHERE ...] "
    "[GROUP BY ..., window(ts, '10 minutes')] [HAVING ...]"
)
_WINDOWED = "GROUP BY window(ts, '10 minutes'), or FROM readings [RANGE 10 MINUTES]"
#: Levels of SELECT in SELECT.
LEVELS_MAX = 50

_Named = Mapping[str, Flat]


def stream_read(text: str) -> str:
    """The name of the stream that a query reads, in lower case."""
    select, _ = _tree(text)
    named: dict[str, Any] = {}
    for _ in range(LEVELS_MAX):
        check_clauses(select, text, POSSIBLE)
        named |= {cte.alias.lower(): cte.this for cte in _ctes(select, text)}
        source = check_source(select, text, POSSIBLE)
        inner = named.pop(source.name.lower(), None) if isinstance(source, exp.Table) else None
        if isinstance(source, exp.Table) and inner is None:
            return str(source.name.lower())
        select = _inner(source.this if inner is None else inner, text)
    raise _too_deep(select, text)


def read_query(text: str, stream: StreamDef, extra_functions: tuple[str, ...]) -> Flat:
    """The flat query of a text over this stream."""
    select, ranges = _tree(text)
    scope = Scope(clause="", columns={}, qualifiers=())
    reader = ExpressionReader(
        text=text,
        stream=stream,
        qualifiers=(),
        extra_functions=extra_functions,
        others=AGGREGATE_NAMES,
        scope=scope,
    )
    flat = _Flattener(text=text, stream=stream, reader=reader, ranges=ranges).select(select, {}, 0)
    if flat.window is not None and flat.grouping is None:
        raise refuse(
            "a window needs aggregates, GROUP BY or DISTINCT",
            select,
            text,
            detail="without them every tuple is a result by itself, whenever it comes",
            hint="leave [RANGE ...] out, or aggregate",
        )
    try:
        check_columns(tuple(Column(name=item.name, type="") for item in flat.items))
    except UserError as error:
        raise refuse(
            error.what, select, text, detail=error.detail, hint=f"AS gives a name: {error.hint}"
        ) from None
    return flat


def _tree(text: str) -> tuple[exp.Select, Ranges]:
    ranges: dict[int, Window] = {}

    def prepare(text: str, tokens: list[Token]) -> list[Token]:
        kept, found = take_out(text, tokens)
        ranges.update(found)
        return kept

    firsts = (TokenType.SELECT, TokenType.WITH)
    tree = tree_of(text, firsts=firsts, possible=POSSIBLE, prepare=prepare)
    return _inner(tree, text), ranges


def _inner(tree: Any, text: str) -> exp.Select:
    """The SELECT that this is; UNION and the like are refused."""
    while isinstance(tree, exp.Subquery) and not tree.args.get("alias"):
        tree = tree.this
    if isinstance(tree, exp.Select):
        return tree
    if isinstance(tree, exp.SetOperation):
        raise refuse(
            f"{type(tree).__name__.upper()} cannot be used yet",
            tree.expression,
            text,
            detail="a query reads one stream once",
            hint="run one query for each part, or put its conditions together with OR",
        )
    raise refuse(f"a query cannot be {type(tree).__name__.upper()}", tree, text, hint=POSSIBLE)


def _ctes(select: exp.Select, text: str) -> list[exp.CTE]:
    with_ = select.args.get("with_")
    if with_ is None:
        return []
    if with_.args.get("recursive"):
        raise refuse("WITH RECURSIVE cannot be used", with_, text, hint="leave RECURSIVE out")
    for cte in with_.expressions:
        if cte.args["alias"].args.get("columns"):
            hint = "name the columns with AS inside"
            raise refuse("a list of columns cannot be used here", cte, text, hint=hint)
    return list(with_.expressions)


def _too_deep(node: Any, text: str) -> UserError:
    what = f"more than {LEVELS_MAX} levels of SELECT"
    return refuse(what, node, text, hint="put conditions and expressions into one level")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flattener:
    """Reads the levels of one text, the innermost first."""

    text: str
    stream: StreamDef
    reader: ExpressionReader
    ranges: Ranges

    def select(self, select: exp.Select, named: _Named, level: int) -> Flat:
        """One level and all below it."""
        if level > LEVELS_MAX:
            raise _too_deep(select, self.text)
        check_clauses(select, self.text, POSSIBLE)
        for cte in _ctes(select, self.text):
            name = cte.alias.lower()
            inner = self.select(_inner(cte.this, self.text), named, level + 1)
            named = {**named, name: inner}
        source, names = self._source(select, named, level)
        columns = {item.name.lower(): item for item in source.items}
        scope = Scope(clause="WHERE", columns=columns, qualifiers=names)
        if source.grouping is not None:
            return self._above(select, source, replace(scope, clause="an aggregated subquery"))
        where = select.args.get("where")
        if where is not None:
            term = self.reader.expression(where.this, scope)
            source = replace(source, where=(*source.where, term))
        return self._below(select, source, scope)

    def _source(
        self, select: exp.Select, named: _Named, level: int
    ) -> tuple[Flat, tuple[str, ...]]:
        """What FROM names, and how its columns can be qualified."""
        node = check_source(select, self.text, POSSIBLE)
        alias = node.alias.lower()
        if isinstance(node, exp.Subquery):
            flat = self.select(_inner(node.this, self.text), named, level + 1)
        else:
            alias = alias or node.name.lower()
            flat = named.get(node.name.lower()) or self._stream(node)
        window = window_behind(node, self.ranges)
        if window is not None and (flat.window or flat.grouping) is not None:
            detail = "what it cuts has windows already"
            hint = "write one window, where the aggregates are"
            raise refuse("a query has one window", node, self.text, detail=detail, hint=hint)
        return (flat if window is None else replace(flat, window=window)), (alias,)

    def _stream(self, node: exp.Table) -> Flat:
        if node.name.lower() != self.stream.name:
            what = f"stream {node.name!r} is not {self.stream.name}"
            raise refuse(what, node, self.text, hint=f"write FROM {self.stream.name}")
        items = tuple(
            Item(name=column.name, term=ColumnRef(name=column.name, type=column.type))
            for column in self.stream.columns
        )
        return Flat(items=items, where=(), window=None, grouping=None, having=())

    def _above(self, select: exp.Select, source: Flat, scope: Scope) -> Flat:
        """A level over groups: WHERE is one more condition on them."""
        assert source.grouping is not None
        group = select.args.get("group") or select.args.get("having")
        if group is not None:
            raise refuse(
                "groups cannot be grouped again",
                group,
                self.text,
                hint="make a stream of the inner one, CREATE STREAM ... AS SELECT, and group it",
            )
        groups = replace(scope, aggregates=False)
        where = select.args.get("where")
        having = source.having
        if where is not None:
            having = (*having, self.reader.expression(where.this, groups))
        items = self._items(select, source, groups)
        flat = replace(source, items=items, having=having)
        self._check_distinct(select, flat, of_window=False)
        return flat

    def _below(self, select: exp.Select, source: Flat, scope: Scope) -> Flat:
        """A level over tuples: it may group them."""
        group = select.args.get("group")
        nodes = list(group.expressions) if group is not None else []
        window = self._window(select, source, nodes, scope)
        listed = replace(scope, clause="the select list", aggregates=True, window=window)
        items = self._items(select, source, listed)
        aliases = {item.name.lower(): item for item in items}
        keys = self._keys(
            [node for node in nodes if not is_window_call(node)],
            items,
            replace(scope, clause="GROUP BY", aliases=aliases, window=window),
        )
        having: tuple[Term, ...] = ()
        clause = select.args.get("having")
        if clause is not None:
            having_scope = replace(listed, clause="HAVING", aliases=aliases)
            having = (self.reader.expression(clause.this, having_scope),)
        found = [*(item.term for item in items), *having]
        aggregated = any(True for term in found for _ in aggregates_of(term))
        distinct = select.args.get("distinct") is not None
        if group is None and not aggregated and not distinct:
            if clause is not None:
                hint = "write WHERE, or aggregate in a window"
                raise refuse("HAVING needs groups", clause, self.text, hint=hint)
            return replace(source, items=items)
        if group is None and not aggregated:
            keys = tuple(item.term for item in items)
        else:
            self._check_star(select)
        grouping = self._grouping(select, window, keys)
        flat = replace(source, items=items, window=None, grouping=grouping, having=having)
        for term in found:
            check_grouped(term, grouping, self.text)
        if group is not None or aggregated:
            self._check_distinct(select, flat, of_window=source.window is not None)
        return flat

    def _window(
        self, select: exp.Select, source: Flat, nodes: list[Any], scope: Scope
    ) -> Window | None:
        """The window of this level: [RANGE ...], or the call in GROUP BY."""
        calls = [node for node in nodes if is_window_call(node)]
        if not calls:
            return source.window
        if len(calls) > 1 or source.window is not None:
            hint = "write window(...) in GROUP BY once, or [RANGE ...] behind the stream"
            raise refuse("a query has one window", calls[-1], self.text, hint=hint)
        window = self.reader.window(calls[0])
        call = calls[0].unnest()
        first = self.reader.expression(call.expressions[0], replace(scope, clause="GROUP BY"))
        timestamp = self.stream.timestamp
        if not isinstance(first, ColumnRef) or first.name != timestamp:
            hint = f"write window({timestamp}, ...)" if timestamp else "write FROM s [RANGE ...]"
            raise refuse(
                "a window cuts the event time",
                call.expressions[0],
                self.text,
                detail=f"of stream {self.stream.name} that is {timestamp or 'no column'}",
                hint=hint,
            )
        return window

    def _items(self, select: exp.Select, source: Flat, scope: Scope) -> tuple[Item, ...]:
        """The select list, each item with its name."""
        found: dict[str, Item] = {}
        for node in select.expressions:
            if isinstance(node, exp.Star) and not any(node.args.values()):
                items = list(source.items)
            else:
                items = [self._item(node, scope)]
            for item in items:
                if item.name.lower() in found:
                    what = f"{item.name!r} is selected twice"
                    hint = "a result has each name once; AS gives another"
                    raise refuse(what, node, self.text, hint=hint)
                found[item.name.lower()] = item
        if not found:
            raise UserError("query selects nothing", hint=POSSIBLE)
        return tuple(found.values())

    def _item(self, node: Any, scope: Scope) -> Item:
        inner = node.this if isinstance(node, exp.Alias) else node
        term = self.reader.expression(inner, scope)
        term = replace(term, at=term.at or start_of(node) or 0)
        if isinstance(node, exp.Alias):
            return Item(name=node.alias, term=term)
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if isinstance(inner, exp.Column):
            if isinstance(term, Call) and is_bound(term) and inner.table:
                return Item(name=term.op, term=term)
            item = scope.columns.get(inner.name.lower())
            return Item(name=item.name if item else inner.name, term=term)
        name = _name_of(term)
        if not name:
            hint = "write AS and a name behind it"
            raise refuse("an expression has no name", node, self.text, hint=hint)
        return Item(name=name, term=term)

    def _keys(self, nodes: list[Any], items: tuple[Item, ...], scope: Scope) -> tuple[Term, ...]:
        keys: list[Term] = []
        for node in nodes:
            if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
                what = f"{type(node).__name__.upper()} cannot be used"
                hint = "run one query for each grouping"
                raise refuse(what, node, self.text, hint=hint)
            number = _ordinal(node)
            if number is None:
                keys.append(self.reader.expression(node, scope))
                aggregate = next(aggregates_of(keys[-1]), None)
            elif 1 <= number <= len(items):
                keys.append(items[number - 1].term)
                aggregate = next(aggregates_of(keys[-1]), None)
            else:
                what = f"GROUP BY {number} is not in the select list"
                raise refuse(what, node, self.text, hint=f"it has 1 to {len(items)}")
            if aggregate is not None:
                what = "an aggregate cannot be used in GROUP BY"
                hint = "group by columns; HAVING compares aggregates"
                raise refuse(what, node, self.text, detail=f"it is {aggregate.op}", hint=hint)
        return tuple(keys)

    def _grouping(
        self, select: exp.Select, window: Window | None, keys: tuple[Term, ...]
    ) -> Grouping:
        """The groups; without a window the event time has to be among the keys."""
        if window is not None:
            return Grouping(window=window, keys=keys, instant="")
        timestamp = self.stream.timestamp
        if any(isinstance(key, ColumnRef) and key.name == timestamp for key in keys):
            instant = Window(length=INSTANT, slide=INSTANT, offset=0)
            return Grouping(window=instant, keys=keys, instant=timestamp)
        if select.args.get("distinct") is not None and select.args.get("group") is None:
            what = "DISTINCT needs a window, or the event time among its columns"
        else:
            what = "aggregates and groups need a window"
        raise refuse(
            what,
            select,
            self.text,
            detail="a stream never ends, so no group of it would ever be complete",
            hint=_WINDOWED,
        )

    def _check_star(self, select: exp.Select) -> None:
        for node in select.expressions:
            if isinstance(node, exp.Star):
                hint = "name the columns that are grouped by"
                raise refuse("* cannot be selected from groups", node, self.text, hint=hint)

    def _check_distinct(self, select: exp.Select, flat: Flat, *, of_window: bool) -> None:
        """DISTINCT over groups is refused unless it changes nothing: all that tells groups apart
        is selected.
        """
        distinct = select.args.get("distinct")
        if distinct is None or flat.grouping is None:
            return
        terms = [item.term for item in flat.items]
        bound = of_window or bool(flat.grouping.instant) or any(map(is_bound, terms))
        if not bound or any(key not in terms for key in flat.grouping.keys):
            raise refuse(
                "DISTINCT of groups cannot be used",
                select,
                self.text,
                detail="it would be a grouping of groups",
                hint="select every key and window.start, or leave DISTINCT out",
            )


def _ordinal(node: Any) -> int | None:
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal():
        return int(node.name[:9])
    return None


def _name_of(term: Term) -> str:
    """The name of an aggregate over a column: `avg_kwh`, `count`; "" for anything else."""
    if not isinstance(term, Call) or next(aggregates_of(term), None) is not term:
        return ""
    call = term.args[0] if term.op == "filter" else term
    if not isinstance(call, Call):
        return ""
    if not call.args:
        return call.op
    subject = call.args[0]
    return f"{call.op}_{subject.name}" if isinstance(subject, ColumnRef) else ""
