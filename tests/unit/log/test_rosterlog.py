"""The roster log: exact constants, versions that grow, rows that outlive their owner."""

import math
import random
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from shoal.dataplane.rows import RosterRow, Value
from shoal.kernel.errors import Fenced, LocalError, StorageError
from shoal.log import numbered
from shoal.log.durable import create_if_absent
from shoal.log.numbered import SNAPSHOT_AFTER_MAX
from shoal.log.rosterlog import (
    RosterLog,
    decode_row,
    decode_value,
    encode_row,
    encode_value,
)
from shoal.query.windows.plan import Shape
from shoal.query.windows.shape import Window


def row(query: str, version: int = 1, **changes: object) -> RosterRow:
    plain = RosterRow(query=query, version=version, parameters=(7, 3.5), columns=("ts", "kwh"))
    return replace(plain, **changes)  # type: ignore[arg-type]


VALUES: list[Value] = [
    None,
    True,
    0,
    -(1 << 200),
    1e308,
    5e-324,
    math.inf,
    -math.inf,
    "",
    "\ud800 \x00 ü",
    Decimal("1.500"),
    Decimal("-0E-20"),
    Decimal("NaN"),
    Decimal("Infinity"),
    b"",
    b"\x00\xff",
    (),
    (1, ("a", None), (Decimal("2"), b"x", math.inf)),
]


SHAPE = Shape(window=Window(length=600, slide=60, offset=7), parameters=(3.5, None, (1, b"x")))


def test_shapes_survive(tmp_path: Path) -> None:
    """Of roll-ups' rows, beside rows without one."""
    log = RosterLog(tmp_path)
    log.claim(1)
    rows = [row("a", shape=SHAPE), row("b")]
    log.put(rows)
    assert list(RosterLog(tmp_path).load().rows) == rows
    assert "shape" not in encode_row(rows[1])


def test_rows_of_before_there_were_windows() -> None:
    content = {"query": "q", "version": 1, "parameters": [7, 3.5], "columns": ["ts", "kwh"]}
    assert decode_row(content) == row("q")


@pytest.mark.parametrize("wrong", [{"window": [1, 2], "parameters": []}, {"window": [1, 1, 0]}])
def test_a_shape_that_is_none_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises((ValueError, KeyError)):
        decode_row(encode_row(row("q")) | {"shape": wrong})


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_constants_survive(tmp_path: Path, value: Value) -> None:
    log = RosterLog(tmp_path)
    log.claim(1)
    log.put([row("q", parameters=(value,))])
    (found,) = RosterLog(tmp_path).load().rows
    (constant,) = found.parameters
    assert repr(constant) == repr(value)
    assert type(constant) is type(value)


def test_constants_that_equality_does_not_tell_apart() -> None:
    found = decode_value(encode_value((0.0, -0.0, math.nan, 1, 1.0, True)))
    assert repr(found) == "(0.0, -0.0, nan, 1, 1.0, True)"


def test_what_is_no_constant() -> None:
    with pytest.raises(LocalError, match="cannot hold"):
        encode_value([1])  # type: ignore[arg-type]


def test_rows_survive_field_by_field() -> None:
    full = RosterRow(
        query="q",
        version=2,
        parameters=(),
        columns=(),
        start=1,
        until=2,
        since=3,
        cut=4,
        keep=0.25,
        weight=2.0,
        suspended="division by zero",
        fill=2,
    )
    assert decode_row(encode_row(full)) == full
    assert decode_row(encode_row(row("r"))) == row("r")
    assert "keep" not in encode_row(row("r"))


def test_the_last_row_of_a_version_counts(tmp_path: Path) -> None:
    log = RosterLog(tmp_path)
    assert log.load().version == 0
    assert log.claim(1).rows == ()
    first = log.put([row("b"), row("a")])
    second = log.put([row("b", until=10), row("b", version=2, start=10)])
    assert second > first
    loaded = RosterLog(tmp_path).load()
    assert loaded.version == second
    assert loaded.rows == (row("a"), row("b", until=10), row("b", version=2, start=10))
    assert RosterLog(tmp_path).claim(2).rows == loaded.rows


def test_prune(tmp_path: Path) -> None:
    log = RosterLog(tmp_path)
    log.claim(1)
    log.put([row("old", until=9), row("edge", until=10), row("cut", cut=5), row("live", cut=6)])
    assert log.prune(before=10, step=5) == 2
    assert [item.query for item in RosterLog(tmp_path).load().rows] == ["edge", "live"]
    version = log.load().version
    assert log.prune(before=10, step=5) == 0
    assert log.load().version == version
    log.put([row("old", until=9)])
    assert [item.query for item in RosterLog(tmp_path).load().rows] == ["edge", "live", "old"]


def test_a_row_that_contradicts_itself_is_not_written(tmp_path: Path) -> None:
    log = RosterLog(tmp_path)
    log.claim(1)
    with pytest.raises(LocalError, match="keeps"):
        log.put([row("good"), row("bad", keep=0.0)])
    assert log.load().rows == ()


def test_L3_fenced_for_good(tmp_path: Path) -> None:
    old, new = RosterLog(tmp_path), RosterLog(tmp_path)
    with pytest.raises(LocalError, match="without a claim"):
        old.put([row("q")])
    old.claim(1)
    new.claim(2)
    for _ in range(3):
        with pytest.raises(Fenced):
            old.put([row("q")])
    new.put([row("q")])


def test_a_failed_put_is_settled_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = RosterLog(tmp_path)
    log.claim(1)

    def unsure(path: Path, data: bytes) -> bool:
        create_if_absent(path, data)
        raise StorageError("the folder could not be synced")

    monkeypatch.setattr(numbered, "create_if_absent", unsure)
    with pytest.raises(StorageError):
        log.put([row("a")])
    monkeypatch.undo()
    log.put([row("b")])
    assert [item.query for item in RosterLog(tmp_path).load().rows] == ["a", "b"]


def test_rows_of_a_newer_shoal_are_refused(tmp_path: Path) -> None:
    log = numbered.NumberedLog(tmp_path)
    log.claim(1)
    log.append([{"put": [{**encode_row(row("q")), "colour": "red"}]}])
    with pytest.raises(StorageError, match="cannot be read") as caught:
        RosterLog(tmp_path).load()
    assert "colour" in caught.value.detail
    assert caught.value.hint


@pytest.mark.parametrize("entry", [[], 3, {"take": 1}, {"put": 1}, {"put": [{"query": "q"}]}])
def test_entries_that_are_no_rows(tmp_path: Path, entry: object) -> None:
    log = numbered.NumberedLog(tmp_path)
    log.claim(1)
    log.append([entry])
    with pytest.raises(StorageError, match="cannot be read"):
        RosterLog(tmp_path).load()


@pytest.mark.slow
def test_ten_thousand_rows_are_one_object(tmp_path: Path) -> None:
    log = RosterLog(tmp_path)
    log.claim(1)
    log.put(row(f"q{number}") for number in range(10_000))
    assert len(list(tmp_path.glob("*.json"))) == 2
    assert len(RosterLog(tmp_path).load().rows) == 10_000


@pytest.mark.slow
def test_the_folder_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    log = RosterLog(tmp_path)
    log.claim(1)
    rng = random.Random(1)
    twin: dict[str, RosterRow] = {}
    for number in range(3 * SNAPSHOT_AFTER_MAX):
        added = row(f"q{rng.randrange(50)}", since=number)
        log.put([added])
        twin[added.query] = added
    assert len(list(tmp_path.iterdir())) <= 2 * SNAPSHOT_AFTER_MAX + 2
    loaded = RosterLog(tmp_path).load()
    assert loaded.rows == tuple(twin[name] for name in sorted(twin))
