"""SQL text to a tree: `SELECT columns | * FROM stream [WHERE predicate]`, in Spark's dialect.

Promises   any text gives a tree or a UserError that says where and what is possible; what the
           parser reads otherwise than Spark does is refused, never guessed at.
Not here   the predicate's nodes (`sql_terms.py`), tokens (`sql_tokens.py`), the statements around
           a query (`sql_script.py`); types beyond those of constants (`draft.py`).

The parser is sqlglot's, made plain: it builds no functions (ours is the list) and tells CAST from
TRY_CAST.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from shoal.kernel.errors import UserError
from shoal.query.catalog import StreamDef
from shoal.query.sql_terms import Reader, refuse
from shoal.query.sql_tokens import SPARK, check_text, first_line, tokens_of
from shoal.query.terms.tree import Term

__all__ = ["TEXT_MAX", "Parsed", "parse", "stream_of", "tree_of"]

#: Characters of a query; an IN list of a few thousand constants fits.
TEXT_MAX = 65_536

_POSSIBLE = "possible is SELECT columns | * FROM stream [WHERE predicate]"
_CLAUSES = {
    "with_": "WITH",
    "distinct": "DISTINCT",
    "joins": "a join",
    "laterals": "LATERAL VIEW",
    "pivots": "PIVOT",
    "group": "GROUP BY",
    "having": "HAVING",
    "qualify": "QUALIFY",
    "windows": "WINDOW",
    "order": "ORDER BY",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "sample": "TABLESAMPLE",
    "hint": "a hint",
    "alias": "an alias",
    "when": "a time",
    "version": "a version",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What a text says: declared column names, and the predicate, if there is one."""

    columns: tuple[str, ...]
    where: Term | None


class _PlainParser(SparkParser):
    """Spark's grammar without the functions that sqlglot would rewrite for other engines."""

    STRICT_CAST = True
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: SparkParser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("CASE", "IF")
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: SparkParser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST", "EXTRACT")
    } | {"CAST": lambda self: self._parse_cast(True)}
    UNARY_PARSERS: ClassVar[dict[Any, Any]] = {
        token: SparkParser.UNARY_PARSERS[token] for token in (TokenType.NOT, TokenType.DASH)
    }


def stream_of(text: str) -> str:
    """The name of the stream that a query reads, in lower case."""
    return _table(_select(text), text).name.lower()


def parse(text: str, stream: StreamDef, extra_functions: tuple[str, ...]) -> Parsed:
    """The columns and the predicate of a query over this stream."""
    select = _select(text)
    table = _table(select, text)
    if table.name.lower() != stream.name:
        what = f"stream {table.name!r} is not {stream.name}"
        raise refuse(what, table, text, hint=f"write FROM {stream.name}")
    names = (table.alias.lower() or stream.name,)
    reader = Reader(text=text, stream=stream, qualifiers=names, extra_functions=extra_functions)
    columns = _columns(select, reader)
    where = select.args.get("where")
    return Parsed(columns=columns, where=reader.term(where.this, depth=0) if where else None)


def tree_of(
    text: str,
    *,
    firsts: tuple[TokenType, ...],
    possible: str,
    prepare: Callable[[str, list[Token]], list[Token]] | None = None,
) -> Any:
    """The one tree of a text that begins with one of these; `prepare` may change its tokens."""
    check_text(text, kind="query", characters_max=TEXT_MAX)
    tokens = tokens_of(text, kind="query", hint=possible)
    if not tokens or tokens[0].token_type not in firsts:
        first = tokens[0].text if tokens else ""
        raise UserError(f"a query cannot begin with {first!r}", hint=possible, line=1, column=1)
    tokens = prepare(text, tokens) if prepare is not None else tokens
    trees = [tree for tree in _trees(text, tokens, possible) if tree is not None]
    if len(trees) != 1:
        what = "a query cannot be several statements" if trees else "there is no query"
        raise UserError(what, hint=possible, line=1, column=1)
    return trees[0]


def _select(text: str) -> exp.Select:
    select = tree_of(text, firsts=(TokenType.SELECT,), possible=_POSSIBLE)
    if not isinstance(select, exp.Select):
        kind = type(select).__name__.upper()
        raise UserError(f"a query cannot be {kind}", hint=_POSSIBLE)
    for name, value in select.args.items():
        if value and name not in ("expressions", "from_", "where"):
            clause = _CLAUSES.get(name, name.upper())
            node = value[0] if isinstance(value, list) else value
            raise refuse(f"{clause} cannot be used in a selection", node, text, hint=_POSSIBLE)
    return select


def _trees(text: str, tokens: list[Token], possible: str) -> list[Any]:
    parser = _PlainParser(dialect=SPARK, error_level=ErrorLevel.IMMEDIATE)
    try:
        return list(parser.parse(tokens, text))
    except RecursionError:
        what = "query is nested too deep"
        raise UserError(what, hint="use fewer parentheses, or IN for a long OR") from None
    except ParseError as error:
        known: Mapping[str, Any] = error.errors[0] if error.errors else {}
        description = str(known.get("description") or "")
        # The parser's own words for a missing operand name its classes.
        plain = (
            description if description and "class" not in description else "something is missing"
        )
        raise UserError(
            "query cannot be read",
            detail=plain,
            hint=possible,
            line=known.get("line"),
            column=_column(known),
        ) from None
    except Exception as error:  # noqa: BLE001 - whatever it trips over, the text is to blame
        raise UserError("query cannot be read", detail=first_line(error), hint=possible) from None


def _column(known: Mapping[str, Any]) -> int | None:
    """Where the token begins at which the parser stopped: it says where it ends."""
    column, token = known.get("col"), str(known.get("highlight") or "")
    return column - len(token) + 1 if column is not None and 0 < len(token) <= column else column


def _table(select: exp.Select, text: str) -> exp.Table:
    source = select.args.get("from_")
    if source is None:
        raise UserError("query reads no stream", hint=_POSSIBLE)
    table = source.this
    plain = isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier)
    extra = {name: value for name, value in table.args.items() if value}
    for allowed in ("this", "alias"):
        extra.pop(allowed, None)
    alias = table.args.get("alias")
    if not plain or extra or (alias is not None and alias.args.get("columns")):
        what = "a query reads one stream, by its name"
        raise refuse(what, table, text, hint=_POSSIBLE)
    found: exp.Table = table
    return found


def _columns(select: exp.Select, reader: Reader) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for item in select.expressions:
        if isinstance(item, exp.Star) and not any(item.args.values()):
            every = [column.name for column in reader.stream.columns]
        elif isinstance(item, exp.Column) and not isinstance(item.this, exp.Star):
            every = [reader.column(item).name]
        else:
            raise refuse(
                "an expression cannot be selected",
                item,
                reader.text,
                detail="a selection delivers columns as they are, under their own names",
                hint="select the columns it needs, and compute where the results are read",
            )
        for name in every:
            if name in names:
                hint = "a result has each column once"
                raise refuse(f"column {name!r} is selected twice", item, reader.text, hint=hint)
            names[name] = None
    if not names:
        raise UserError("query selects nothing", hint=_POSSIBLE)
    return tuple(names)
