"""The roster log: a component's rows, durable before anybody is told that they are accepted.

It lies beside the component's table, is owned by the same epoch, and survives the loss of the
peer. Its versions are the numbers of its objects: they only grow, and a step that commits the
version it used can be repeated with the same rows (promise Q2).

    entry {"put": [row, ...]}          rows replace those with the same (query, version)
    entry {"prune": [before, step]}    rows that end before both of these are gone

Not here: which tuples a row wants (`spark/`), and when a row is put or pruned.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal, InvalidOperation
from pathlib import Path

from shoal.dataplane.rows import RosterRow, Value
from shoal.kernel.errors import LocalError, StorageError
from shoal.kernel.time import Instant
from shoal.log.numbered import NumberedLog, Reading
from shoal.log.objects import JSON
from shoal.query.windows.plan import Shape
from shoal.query.windows.shape import Window

__all__ = ["Roster", "RosterLog", "decode_row", "decode_value", "encode_row", "encode_value"]

_Rows = dict[tuple[str, int], RosterRow]

_FIELDS = {field.name: field for field in fields(RosterRow)}
_REQUIRED = ("query", "version", "parameters", "columns")
_INFINITIES = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """All rows that still matter, ordered by (query, version), as of this version of the log."""

    version: int
    rows: tuple[RosterRow, ...]


class RosterLog:
    """The roster log in one folder. `load` needs no ownership; `put` and `prune` need a claim."""

    def __init__(self, folder: Path) -> None:
        self._log = NumberedLog(folder)
        self._folder = folder
        self._epoch = 0
        self._rows: _Rows = {}

    def load(self) -> Roster:
        """The rows as they are on disk now; version 0 and no rows where there is no log yet."""
        reading = self._log.read(0)
        return _roster(reading.number, self._folded(reading))

    def claim(self, epoch: int) -> Roster:
        """Take the log over for the instance's new owner; fences earlier owners (L3)."""
        reading = self._log.claim(epoch)
        self._epoch, self._rows = epoch, self._folded(reading)
        self._condense()
        return _roster(reading.number, self._rows)

    def put(self, rows: Iterable[RosterRow]) -> int:
        """Add these rows as one object, all or none, durable on return; returns the version."""
        added = tuple(rows)
        for row in added:
            row.validate()
        number = self._append({"put": [encode_row(row) for row in added]})
        self._rows.update((row.identity, row) for row in added)
        self._condense()
        return number

    def prune(self, *, before: Instant, step: int) -> int:
        """Drop rows with `until` before this instant or `cut` at most this step; returns how many.

        The caller vouches that no tuple at or below `before` and no commit of the input up to
        `step` will be served again.
        """
        kept = _pruned(self._rows, before, step)
        dropped = len(self._rows) - len(kept)
        if dropped:
            self._append({"prune": [before, step]})
            self._rows = kept
            self._condense()
        return dropped

    def _append(self, entry: dict[str, JSON]) -> int:
        if not self._log.claimed and self._epoch:
            # An append failed and its outcome is open: what is on disk decides.
            self.claim(self._epoch)
        return self._log.append([entry])

    def _condense(self) -> None:
        if not self._log.snapshot_due:
            return
        try:
            self._log.snapshot([{"put": [encode_row(row) for row in self._rows.values()]}])
        except StorageError:
            # What was acknowledged is durable without a snapshot, and the next append is due one.
            return

    def _folded(self, reading: Reading) -> _Rows:
        rows: _Rows = {}
        try:
            for entry in reading.entries:
                if "put" in entry:
                    decoded = [decode_row(row) for row in entry["put"]]
                    rows.update((row.identity, row) for row in decoded)
                else:
                    before, step = entry["prune"]
                    rows = _pruned(rows, before, step)
        except (KeyError, TypeError, ValueError, InvalidOperation) as error:
            raise StorageError(
                f"roster log {self._folder} holds an entry that cannot be read",
                detail=f"{type(error).__name__}: {error}",
                hint="was it written by a newer Shoal? use that one, or restore the log",
            ) from error
        return rows


def encode_row(row: RosterRow) -> dict[str, JSON]:
    """The JSON of a row; fields that have their default are left out."""
    content: dict[str, JSON] = {}
    for name, field in _FIELDS.items():
        value = getattr(row, name)
        if name in _REQUIRED or value != field.default:
            content[name] = _encode_shape(value) if name == "shape" else encode_value(value)
    return content


def decode_row(content: dict[str, JSON]) -> RosterRow:
    """The row of this JSON; a field that this Shoal does not know is a ValueError."""
    unknown = [name for name in content if name not in _FIELDS]
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}")
    shape = _decode_shape(content["shape"]) if "shape" in content else None
    values = {name: decode_value(value) for name, value in content.items() if name != "shape"}
    return RosterRow(**values, shape=shape)  # type: ignore[arg-type]


def _encode_shape(shape: Shape) -> JSON:
    window = shape.window
    return {
        "window": [window.length, window.slide, window.offset],
        "parameters": encode_value(shape.parameters),
    }


def _decode_shape(content: dict[str, JSON]) -> Shape:
    length, slide, offset = content["window"]
    parameters = decode_value(content["parameters"])
    if not isinstance(parameters, tuple):
        raise ValueError(f"parameters of a shape are no list: {parameters!r}")
    window = Window(length=length, slide=slide, offset=offset)
    return Shape(window=window, parameters=parameters)


def encode_value(value: Value) -> JSON:
    """The JSON of a constant; types that JSON lacks are mappings of one letter."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"f": str(value)}
    if isinstance(value, Decimal):
        return {"d": str(value)}
    if isinstance(value, bytes):
        return {"b": value.hex()}
    if isinstance(value, tuple):
        return [encode_value(item) for item in value]
    raise LocalError(
        f"a roster row cannot hold {value!r}",
        detail=f"its type is {type(value).__name__}",
        hint="instants are integers (microseconds), dates are integers (days)",
    )


def decode_value(content: JSON) -> Value:
    """The constant of this JSON."""
    if content is None or isinstance(content, (bool, int, float, str)):
        return content
    if isinstance(content, list):
        return tuple(decode_value(item) for item in content)
    ((kind, text),) = content.items()
    if kind == "f":
        return _INFINITIES[text]
    if kind == "d":
        return Decimal(text)
    if kind == "b":
        return bytes.fromhex(text)
    raise ValueError(f"unknown kind of constant {kind!r}")


def _pruned(rows: _Rows, before: Instant, step: int) -> _Rows:
    return {
        identity: row for identity, row in rows.items() if row.until >= before and row.cut > step
    }


def _roster(version: int, rows: _Rows) -> Roster:
    ordered: Sequence[RosterRow] = sorted(rows.values(), key=lambda row: row.identity)
    return Roster(version=version, rows=tuple(ordered))
