"""What a version of a query shows of its table: the columns read, and the outputs made of them.

    SELECT ts, kwh * 2 AS twice, upper(name) AS n FROM readings WHERE meter = 7

    columns   ts TIMESTAMP, kwh DOUBLE, name STRING                       (of the results table)
    outputs   ts: s.`ts`    twice: (s.`kwh` * 2.0D)    n: upper(s.`name`)

A select list is no part of a signature: it is applied where results are read or delivered. Where
every output is a column of its own name there are no outputs, and nothing to compute.

In the catalog, as part of a piece (`types` only where they are not the stream's):

    {"columns": ["ts", "kwh", "name"], "outputs": [["ts", "s.`ts`", "TIMESTAMP"], ..]}

Promises   outputs have names that differ by more than case; a column keeps its name and its type
           over the versions of a query.
Not here   reading select lists (`query/`); computing them (`spark/deliver/outputs.py`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.kernel.errors import LocalError, UserError
from shoal.query.catalog import Column, quote
from shoal.query.windows.plan import Output

__all__ = ["Projection", "agree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """Columns of a table, and expressions over them as `s.<column>`; none: the columns as such."""

    columns: tuple[Column, ...]
    outputs: tuple[Output, ...] = ()

    @classmethod
    def of(cls, columns: Iterable[Column], outputs: Iterable[Output]) -> "Projection":
        """The projection of a select list; plain columns need no outputs."""
        found, listed = tuple(columns), tuple(outputs)
        known = {column.name: column for column in found}
        plain = [known.get(output.name) for output in listed]
        if all(
            column is not None and output.expression == _text(column)
            for column, output in zip(plain, listed, strict=True)
        ):
            return cls(columns=tuple(column for column in plain if column is not None))
        made = cls(columns=found, outputs=listed)
        made.validate()
        return made

    @property
    def shown(self) -> tuple[Column, ...]:
        """Names and types of the results."""
        if not self.outputs:
            return self.columns
        return tuple(Column(name=output.name, type=output.type) for output in self.outputs)

    def source_of(self, output: Output) -> str:
        """The column that an output is, under whatever name; "" if it is computed."""
        found = (column.name for column in self.columns if output.expression == _text(column))
        return next(found, "")

    def validate(self) -> None:
        """Raise LocalError unless every name differs from every other by more than case."""
        names = [column.name.lower() for column in self.shown]
        if len(dict.fromkeys(names)) < len(names):
            raise LocalError(f"outputs have one name twice: {', '.join(names)}")

    def to_json(self, types: Mapping[str, str]) -> dict[str, Any]:
        """Its part of a piece; `types` are those that columns have by their name alone."""
        said: dict[str, Any] = {"columns": [column.name for column in self.columns]}
        if any(types.get(column.name) != column.type for column in self.columns):
            said["types"] = [column.type for column in self.columns]
        if self.outputs:
            said["outputs"] = [[one.name, one.expression, one.type] for one in self.outputs]
        return said

    @classmethod
    def from_json(cls, said: Mapping[str, Any], types: Mapping[str, str]) -> "Projection":
        """The projection that `to_json` wrote; older pieces have columns only."""
        names = list(said["columns"])
        kinds = said.get("types") or [types[name] for name in names]
        return cls(
            columns=tuple(
                Column(name=name, type=kind) for name, kind in zip(names, kinds, strict=True)
            ),
            outputs=tuple(
                Output(name=name, expression=expression, type=kind)
                for name, expression, kind in said.get("outputs", ())
            ),
        )


def agree(query: str, earlier: Iterable[Projection], new: Projection) -> None:
    """Raise UserError if a column of a new version was another one before.

    The results of all versions are one table, for readers and in sinks.
    """
    known = {column.name.lower(): column for one in earlier for column in one.shown}
    for column in new.shown:
        before = known.get(column.name.lower(), column)
        if before.type != column.type:
            raise UserError(
                f"query {query} cannot change the type of its column {column.name}",
                detail=f"it has been {before.type}, the new text makes it {column.type}",
                hint=f"CAST(... AS {before.type}), or give it another name: AS {column.name}_2",
            )
        if before.name != column.name:
            raise UserError(
                f"query {query} cannot have columns {before.name} and {column.name}",
                detail="the names differ in case only, and its results are one table",
                hint=f"write AS {before.name}",
            )


def _text(column: Column) -> str:
    return f"s.{quote(column.name)}"
