"""The book of deliveries: what is folded from disk is what was said, also after a snapshot."""

from dataclasses import replace
from pathlib import Path

import pytest

from shoal.dataplane.commands import Delivery, Sink
from shoal.kernel.errors import Fenced
from shoal.log import numbered
from shoal.query.catalog import Column
from shoal.query.windows.plan import Output
from shoal.spark.deliver.book import Book, Plan

SINK = Sink(kind="jsonl", options={"path": "/x"})
OUTPUTS = (Output(name="twice", expression="try_multiply(s.`a`, 2)", type="INT"),)


def delivery(query: str, version: int = 1, table: str = "t") -> Delivery:
    return Delivery(
        delivery=f"{query}-1",
        query=query,
        version=version,
        input=table,
        columns=(Column(name="a", type="INT"),),
        timestamp="ts",
        sink=SINK,
        outputs=OUTPUTS if version == 2 else (),
    )


def filled(folder: Path) -> Book:
    book = Book(folder)
    book.claim()
    book.add([delivery("a"), delivery("b")], heads={"t": 4})
    book.add([delivery("a", 2, "u")], heads={"u": 9})
    book.plan("t", 7, {1: 100, 2: 3})
    book.done("t", 7, [1], {1: 180})
    book.end([2])
    return book


def test_what_is_on_disk_is_what_was_said(tmp_path: Path) -> None:
    book = filled(tmp_path)
    again = Book(tmp_path)
    again.claim()
    assert again.accounts == book.accounts
    one, two = again.accounts[1], again.accounts[2]
    assert one.pieces["u"].versions[2].outputs == OUTPUTS
    assert again.knows(delivery("a", 2, "u"))
    assert not again.knows(replace(delivery("a", 2, "u"), outputs=()))
    assert (one.pieces["t"].position, one.pieces["u"].position, one.place) == (7, 9, 180)
    assert one.newest == "u"
    assert (two.plan, two.ending, two.pieces["t"].position) == (
        Plan(table="t", upto=7, place=3),
        True,
        4,
    )


def test_a_snapshot_holds_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = filled(tmp_path)
    monkeypatch.setattr(numbered, "SNAPSHOT_AFTER", 1)
    book.done("u", 10, [1], {})
    assert list((tmp_path / "snapshots").iterdir())
    again = Book(tmp_path)
    again.claim()
    assert again.accounts == book.accounts
    again.leave(1, "t")
    again.close([2])
    again.add([delivery("c")], heads={"t": 1})
    assert sorted(again.accounts) == [1, 3]
    assert list(again.accounts[1].pieces) == ["u"]


def test_a_book_from_before_select_lists_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entries, and its snapshots, have columns only."""
    log = numbered.NumberedLog(tmp_path)
    log.claim(1)
    added = {
        "delivery": "a-1",
        "query": "a",
        "kind": "jsonl",
        "options": {"path": "/x"},
        "table": "t",
        "timestamp": "ts",
        "position": 4,
        "version": 1,
        "columns": [["a", "INT"]],
    }
    log.append([{"add": [added]}])
    account = {
        "number": 1,
        "delivery": "a-1",
        "query": "a",
        "kind": "jsonl",
        "options": {"path": "/x"},
        "place": None,
        "plan": None,
        "ending": False,
        "pieces": [["t", 4, "ts", [[1, [["a", "INT"]]]]]],
    }
    book = Book(tmp_path)
    book.claim()
    before = book.accounts
    assert book.knows(delivery("a"))
    log.claim(3)
    log.append([{"whole": {"next": 2, "accounts": [account]}}])
    book = Book(tmp_path)
    book.claim()
    assert book.accounts == before


def test_L3_a_claim_fences_the_owner_before(tmp_path: Path) -> None:
    book = filled(tmp_path)
    Book(tmp_path).claim()
    with pytest.raises(Fenced):
        book.plan("t", 8, {1: 180})
