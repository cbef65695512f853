"""Expressions of a SELECT: what names stand for where, aggregates, and the bounds of windows.

Promises   a name has one meaning or is refused; an aggregate stands only where it has one; an
           expression has at most as many nodes and levels as it would have if it were written out.
Not here   operators and functions (`sql_terms.py`); the clauses (`flatten.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from shoal.kernel.errors import UserError
from shoal.query.sql_select.durations import window_of
from shoal.query.sql_terms import DEPTH_MAX, NODES_MAX, Reader, start_of
from shoal.query.terms.tree import Call, Literal, Term
from shoal.query.terms.types import is_numeric, nearest
from shoal.query.windows.aggregates import AGGREGATES, name_of, why_not
from shoal.query.windows.flat import BOUNDS, FILTER, Item, extent
from shoal.query.windows.shape import Window

__all__ = ["AGGREGATE_NAMES", "ExpressionReader", "Scope", "is_window_call"]

#: All names of aggregates.
AGGREGATE_NAMES = tuple(
    name for first, known in AGGREGATES.items() for name in (first, *known.synonyms)
)

_WINDOW = "window"
_OVER = "GROUP BY window(ts, '10 minutes')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What can be named at one place of a query.

    `columns` and `aliases` are by name in lower case; an alias is a name of the select list, for
    GROUP BY and HAVING. `window`: the one whose bounds can be named, if any.
    """

    clause: str
    columns: Mapping[str, Item]
    qualifiers: tuple[str, ...]
    aliases: Mapping[str, Item] = field(default_factory=dict)
    aggregates: bool = False
    window: Window | None = None


def is_window_call(node: Any) -> bool:
    """Whether this is `window(...)`, in parentheses or not."""
    while isinstance(node, exp.Paren):
        node = node.this
    return isinstance(node, exp.Anonymous) and node.name.lower() == _WINDOW


@dataclass(slots=True, kw_only=True)
class ExpressionReader(Reader):
    """Reads the expressions of one text, each in its scope."""

    scope: Scope
    #: The aggregate whose argument or FILTER is being read.
    inside: str = ""

    def expression(self, node: Any, scope: Scope) -> Term:
        """The tree of an expression over the stream's columns."""
        self.scope = scope
        self.inside = ""
        return self.term(node, depth=0)

    def named(self, node: exp.Column, depth: int) -> Term:
        """What a name stands for here, in place of the name."""
        self._only(node, "this", "table")
        name, qualifier = node.name.lower(), node.table.lower()
        if not isinstance(node.this, exp.Identifier):
            raise self.refuse("* stands alone in the select list", node, hint="name the columns")
        if qualifier == _WINDOW and qualifier not in self.scope.qualifiers:
            return self._bound(node, name)
        if qualifier and qualifier not in self.scope.qualifiers:
            hint = f"write {self.scope.qualifiers[0]}.{node.name}, or the column alone"
            raise self.refuse(f"{node.table!r} is not a stream here", node, hint=hint)
        item = self._item(node, name, alone=depth == 0, qualified=bool(qualifier))
        if item is not None:
            return self._put(item, node, depth)
        if name in BOUNDS and not qualifier:
            return self._bound(node, name.removeprefix("window_"))
        if name == _WINDOW and self.scope.window is not None:
            hint = "write window.start and window.end"
            raise self.refuse("a window is two columns", node, hint=hint)
        known = [item.name for item in self.scope.columns.values()]
        hint = nearest(name, known) or "columns: " + ", ".join(known[:20])
        raise self.refuse(f"column {node.name!r} is not known", node, hint=hint)

    def own(self, node: Any, depth: int) -> Term | None:
        """Aggregates, and what stands around them."""
        if isinstance(node, exp.Filter):
            return self._filtered(node, depth)
        if isinstance(node, exp.Anonymous):
            name = node.name.lower()
            if name in self.extra_functions:
                return None
            if is_window_call(node):
                what = "window() stands alone in GROUP BY"
                raise self.refuse(what, node, hint=f"{_OVER}; then window.start and window.end")
            if name == "session_window":
                hint = "write window(ts, '10 minutes')"
                raise self.refuse("windows have a fixed length here", node, hint=hint)
            if why_not(name):
                raise self._refused(node, name)
            known = name_of(name)
            return self._aggregate(node, known, depth) if known else None
        if isinstance(node, exp.Dot) and is_window_call(node.this):
            return self._dotted(node)
        reasons = {
            exp.Window: ("OVER", "GROUP BY the columns of PARTITION BY and a window"),
            exp.IgnoreNulls: ("IGNORE NULLS", "write FILTER (WHERE x IS NOT NULL)"),
            exp.RespectNulls: ("RESPECT NULLS", "leave it out"),
            exp.WithinGroup: ("WITHIN GROUP", "write approx_percentile(x, 0.5)"),
            exp.Subquery: ("a subquery in an expression", "a subquery can stand behind FROM"),
            exp.Exists: ("EXISTS", "filter with WHERE"),
            exp.Dot: ("a field of a value", "columns are flat; bounds are window.start, .end"),
            exp.Star: ("*", "name the columns; * stands alone in the select list"),
        }
        for kind, (what, hint) in reasons.items():
            if isinstance(node, kind):
                raise self.refuse(f"{what} cannot be used", node, hint=hint)
        return None

    def _refused(self, node: Any, name: str, *, distinct: bool = False) -> UserError:
        """The error for an aggregate that windows cannot have: why, and what they can."""
        detail, _, hint = why_not(name, distinct=distinct).rpartition("; ")
        what = f"DISTINCT cannot be used in {name}" if distinct else f"{name} cannot be used"
        return self.refuse(what, node, detail=detail, hint=hint)

    def _item(self, node: exp.Column, name: str, *, alone: bool, qualified: bool) -> Item | None:
        """The column of this name, or else the item of the select list."""
        column = self.scope.columns.get(name)
        alias = None if qualified or self.inside else self.scope.aliases.get(name)
        if self.scope.clause == "GROUP BY" and not alone:
            # As in `coalesce(name, 'none') AS name`, which is grouped by as it is written.
            return column or alias
        if column is not None and alias is not None and column.term != alias.term:
            raise self.refuse(
                f"{node.name!r} could be read in two ways",
                node,
                detail="it is a column, and a name in the select list for something else",
                hint="choose another name in the select list, or write the expression itself",
            )
        return column or alias

    def _put(self, item: Item, node: Any, depth: int) -> Term:
        """What a name stands for, counted as if it were written here."""
        nodes, levels = extent(item.term)
        self.nodes += nodes - 1
        if depth + levels > DEPTH_MAX or self.nodes > NODES_MAX:
            what = f"{node.name!r} stands for too large an expression here"
            detail = f"at most {DEPTH_MAX} levels, and {NODES_MAX} nodes in the query"
            raise self.refuse(what, node, detail=detail, hint="repeat less in subqueries")
        return replace(item.term, at=start_of(node) or 0)

    def _misplaced(self, name: str, node: Any) -> UserError:
        """The error for an aggregate where none can be."""
        clause = self.scope.clause
        if self.inside or clause == "an aggregated subquery":
            return self.refuse(
                "an aggregate cannot be over an aggregate",
                node,
                detail=f"{name} inside {self.inside}" if self.inside else "",
                hint="make a stream of the inner one, CREATE STREAM ... AS, and aggregate that",
            )
        hint = "use HAVING, or FILTER (WHERE ...) behind the aggregate"
        if clause == "GROUP BY":
            hint = "group by columns; HAVING compares aggregates"
        return self.refuse(f"an aggregate cannot be used in {clause}", node, hint=hint)

    def _bound(self, node: Any, side: str) -> Term:
        """`window.start` or `window.end`."""
        if side not in ("start", "end"):
            raise self.refuse(f"a window has no {side!r}", node, hint="it has start and end")
        if self.inside:
            what = "the window's bounds cannot be aggregated"
            raise self.refuse(what, node, hint="they are the same for the whole group")
        if self.scope.window is None:
            what = "there is no window here"
            if self.scope.clause == "WHERE":
                hint = "WHERE filters tuples, before they are in windows; use HAVING"
            else:
                hint = f"{_OVER}, or FROM readings [RANGE 10 MINUTES]"
            raise self.refuse(what, node, hint=hint)
        return Call(op=f"window_{side}", args=(), at=start_of(node) or 0)

    def _dotted(self, node: exp.Dot) -> Term:
        """`window(ts, '10 minutes').start`, of the window that there is."""
        if self.scope.window is not None and self.window(node.this) != self.scope.window:
            raise self.refuse("a query has one window", node, hint="write window.start")
        return self._bound(node, node.expression.name.lower())

    def window(self, node: Any) -> Window:
        """The window of `window(ts, ...)`; the caller looks at the first argument."""
        while isinstance(node, exp.Paren):
            node = node.this
        args = list(node.args.get("expressions") or [])
        hint = (
            "write window(ts, '10 minutes'), or window(ts, '10 minutes', '1 minute', '5 seconds')"
        )
        if not 2 <= len(args) <= 4:
            raise self.refuse("window takes 2 to 4 arguments", node, hint=hint)
        texts = []
        for arg in args[1:]:
            constant = self._constant(arg)
            if constant is None or not isinstance(constant.value, str):
                raise self.refuse("a window's lengths are text constants", arg, hint=hint)
            texts.append(constant.value)
        try:
            return window_of(*texts)
        except UserError as error:
            detail, hint = error.detail, error.hint
            raise self.refuse(error.what, node, detail=detail, hint=hint) from None

    def _filtered(self, node: exp.Filter, depth: int) -> Term:
        self._only(node, "this", "expression")
        call = self.term(node.this, depth=depth + 1)
        if not isinstance(call, Call) or call.op not in AGGREGATES:
            what = "FILTER stands behind an aggregate"
            raise self.refuse(what, node, hint="write count(*) FILTER (WHERE kwh > 5)")
        self.inside = call.op
        condition = self.term(node.expression.this, depth=depth + 1)
        self.inside = ""
        return Call(op=FILTER, args=(call, condition), at=call.at)

    def _aggregate(self, node: exp.Anonymous, name: str, depth: int) -> Term:
        """A call: the arguments, and after them the constants that belong to it."""
        self._only(node, "this", "expressions")
        if self.inside or not self.scope.aggregates:
            raise self._misplaced(name, node)
        known = AGGREGATES[name]
        nodes = list(node.args.get("expressions") or [])
        at = start_of(node) or 0
        if name == "count" and self._counts_all(nodes):
            return Call(op=name, args=(), at=at)
        for part in nodes:
            self._plain_argument(part, name)
        width = len(known.kinds)
        if not width + known.least <= len(nodes) <= width + known.most:
            what = f"{node.name} takes {_number(width + known.least, width + known.most)}"
            raise self.refuse(what, node, detail=f"here {len(nodes)}", hint="count them")
        fixed = [self._number_only(name, part) for part in nodes[width:]]
        self.inside = name
        args = [self.term(part, depth=depth + 1) for part in nodes[:width]]
        self.inside = ""
        return Call(op=name, args=(*args, *fixed), at=at)

    def _counts_all(self, nodes: list[Any]) -> bool:
        """Whether `count` of this counts tuples: of `*`, or of a constant that is not NULL."""
        if len(nodes) != 1:
            return False
        if isinstance(nodes[0], exp.Star) and not any(nodes[0].args.values()):
            return True
        constant = self._constant(nodes[0])
        return constant is not None and constant.value is not None

    def _plain_argument(self, node: Any, name: str) -> None:
        if isinstance(node, exp.Distinct):
            raise self._refused(node, name, distinct=True)
        if isinstance(node, exp.Star):
            raise self.refuse(f"{name} takes a column, not *", node, hint="count(*) takes *")
        if isinstance(node, exp.Order | exp.Limit):
            raise self.refuse(f"{name} takes no order", node, hint="leave ORDER BY out")

    def _number_only(self, name: str, node: Any) -> Literal:
        constant = self._constant(node)
        if not isinstance(constant, Literal) or not is_numeric(constant.type):
            what = f"further arguments of {name} are constant numbers"
            hint = "write approx_percentile(x, 0.5) or approx_count_distinct(x, 0.01)"
            raise self.refuse(what, node, hint=hint)
        return constant

    def _unknown(self, node: Any) -> UserError:
        hint = "possible are columns, constants, AND OR NOT, comparisons, IN, BETWEEN, LIKE, "
        hint += "RLIKE, CASE, IF, CAST, + - * / % DIV ||, the listed functions, and aggregates"
        return self.refuse(f"{type(node).__name__} cannot be used in a query", node, hint=hint)


def _number(least: int, most: int) -> str:
    return (
        f"{least} argument{'s' * (least != 1)}" if least == most else f"{least} to {most} arguments"
    )
