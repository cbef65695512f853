"""Which clauses a SELECT may have, and what to do without the others.

Promises   a clause or a source that nobody reads is refused with its place.
Not here   what the clauses mean (`flatten.py`).
"""

from typing import Any

from sqlglot import exp

from shoal.kernel.errors import UserError
from shoal.query.sql_terms import refuse, start_of
from shoal.query.terms.tree import place

__all__ = ["check_clauses", "check_source"]

_READ = ("expressions", "from_", "where", "group", "having", "distinct", "with_")
_LATER = "order where the results are read; they come in the order of their windows"
_REFUSED = {
    "joins": ("a join", "a query reads one stream; store what it needs in its tuples"),
    "laterals": ("LATERAL VIEW", "columns are flat; store each element as a tuple"),
    "pivots": ("PIVOT", "write one aggregate with FILTER (WHERE ...) for each column"),
    "qualify": ("QUALIFY", "compare aggregates with HAVING"),
    "windows": ("WINDOW", "GROUP BY columns and window(ts, '10 minutes')"),
    "order": ("ORDER BY", _LATER),
    "sort": ("SORT BY", _LATER),
    "cluster": ("CLUSTER BY", "leave it out"),
    "distribute": ("DISTRIBUTE BY", "leave it out"),
    "limit": ("LIMIT", "a query goes on for good; HAVING or WHERE keep the rows that count"),
    "offset": ("OFFSET", "a query goes on for good; HAVING or WHERE keep the rows that count"),
    "sample": ("TABLESAMPLE", "filter with WHERE"),
    "hint": ("a hint", "leave it out"),
}
_GROUPS = {
    "rollup": ("ROLLUP", "run one query for each grouping"),
    "cube": ("CUBE", "run one query for each grouping"),
    "grouping_sets": ("GROUPING SETS", "run one query for each grouping"),
    "all": ("GROUP BY ALL", "name the columns"),
    "totals": ("WITH TOTALS", "run a second query for the totals"),
}


def check_clauses(select: exp.Select, text: str, possible: str) -> None:
    """UserError if the SELECT has a clause that nobody reads."""
    for name, value in select.args.items():
        if value and name not in _READ:
            node = value[0] if isinstance(value, list) else value
            what, hint = _REFUSED.get(name, (name.strip("_").upper(), possible))
            raise refuse(f"{what} cannot be used", _placed(node, select), text, hint=hint)
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        hint = "GROUP BY the columns, with max_by(x, ts) for the others"
        raise refuse("DISTINCT ON cannot be used", distinct, text, hint=hint)
    group = select.args.get("group")
    for name, value in group.args.items() if group is not None else ():
        if value and name != "expressions":
            node = value[0] if isinstance(value, list) else group
            what, hint = _GROUPS.get(name, (name.upper(), possible))
            raise refuse(f"{what} cannot be used", _placed(node, select), text, hint=hint)


def check_source(select: exp.Select, text: str, possible: str) -> Any:
    """The table or subquery behind FROM; nothing else can stand there."""
    source = select.args.get("from_")
    if source is None:
        line, column = place(text, start_of(select) or 0)
        raise UserError("query reads no stream", hint=possible, line=line, column=column)
    node = source.this
    while isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
        if any(value for name, value in node.args.items() if name != "this"):
            break
        node = node.this
    extra = [name for name, value in node.args.items() if value]
    for allowed in ("this", "alias", "sample"):
        extra = [name for name in extra if name != allowed]
    plain = isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier)
    nested = isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query)
    alias = node.args.get("alias")
    if not (plain or nested) or extra or (alias is not None and alias.args.get("columns")):
        what = "a query reads one stream by its name, or one subquery"
        raise refuse(what, _placed(node, select), text, hint=possible)
    return node


def _placed(node: Any, select: exp.Select) -> Any:
    """The node, or the SELECT if the node is nothing that has a place."""
    return node if isinstance(node, exp.Expression) else select
