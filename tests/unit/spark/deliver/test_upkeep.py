"""Upkeep: leases on what is needed, positions said to the book, and which pieces are over."""

from pathlib import Path
from typing import Any

import pytest

from shoal.dataplane.rows import RosterRow
from shoal.kernel.errors import Fenced
from shoal.log.leases import Leases
from shoal.log.root import Root
from shoal.log.rosterlog import RosterLog
from shoal.log.writer import Writer
from shoal.spark.deliver.book import Book
from shoal.spark.deliver.upkeep import LEASE, Ending, Kept, UpkeepWork, keep_up
from tests.unit.spark.deliver.test_book import delivery
from tests.unit.spark.deliver.world import GROUP, SCHEMA

NOW = 1_000_000


def book_of(root: Root) -> Book:
    book = Book(root.folder("deliveries", GROUP))
    book.claim()
    book.add([delivery("q"), delivery("r")], heads={"t": 0})
    return book


def keep(root: Root, book: Book, **parts: Any) -> Kept:
    given: dict[str, Any] = {"lowest": {}, "moves": {}, "endings": (), **parts}
    return keep_up(root, UpkeepWork(instance=GROUP, book=book, now=NOW, **given))


def table(root: Root, facts: dict[str, int], *rows: RosterRow) -> None:
    """A component at step 1 with these rows and facts."""
    Writer.create(root, "t", SCHEMA)
    writer = Writer.take_over(root, "t", owner="test")
    writer.commit(step=1, segments=[], transactions=facts)
    log = RosterLog(root.folder("rosters", "t"))
    log.claim(1)
    log.put(rows)


def row(version: int = 1, **bounds: Any) -> RosterRow:
    return RosterRow(query="q", version=version, parameters=(), columns=(), **bounds)


def test_it_leases_what_is_needed_and_says_where_deliveries_stand(root: Path) -> None:
    opened = Root.open(root)
    book = book_of(opened)
    kept = keep(opened, book, lowest={"t": 4, "u": 9}, moves={("t", 5): [1, 2]})
    assert kept == Kept(instance=GROUP)
    assert [book.accounts[n].pieces["t"].position for n in (1, 2)] == [5, 5]
    for name, position in (("t", 4), ("u", 9)):
        leases = Leases(opened.folder("readers", name))
        assert leases.horizon(NOW + LEASE - 1) == position
        assert leases.horizon(NOW + LEASE) is None


def test_an_owner_that_was_replaced_is_told_and_takes_no_lease(root: Path) -> None:
    opened = Root.open(root)
    book = book_of(opened)
    book_of(opened)
    kept = keep(opened, book, lowest={"t": 4}, moves={("t", 5): [1]})
    assert isinstance(kept.error, Fenced)
    assert Leases(opened.folder("readers", "t")).list(NOW) == ()


@pytest.mark.parametrize(
    ("bounds", "over"),
    [
        ({}, False),
        ({"until": 99}, True),
        ({"until": 100}, False),
        ({"cut": 7}, True),
        ({"cut": 8}, False),
        ({"until": 99, "since": 5, "fill": 3}, False),
        ({"until": 99, "since": 5, "fill": 2}, True),
        ({"cut": 7, "since": 5, "fill": 3}, True),
    ],
)
def test_a_piece_is_over_when_its_rows_bring_nothing(
    root: Path, bounds: dict[str, int], over: bool
) -> None:
    opened = Root.open(root)
    table(opened, {"wm": 100, "in/readings": 7, "fill/q/1": 2}, row(**bounds))
    ending = Ending(number=1, table="t", position=1, rows=(("q", 1),))
    kept = keep(opened, book_of(opened), endings=(ending,))
    assert kept.over == ((ending,) if over else ())


def test_a_piece_is_not_over_before_it_has_been_read(root: Path) -> None:
    opened = Root.open(root)
    table(opened, {"wm": 100, "in/readings": 7}, row(until=9), row(2))
    endings = (
        Ending(number=1, table="t", position=0, rows=(("q", 1),)),
        Ending(number=2, table="t", position=1, rows=(("q", 1), ("q", 2))),
        Ending(number=3, table="t", position=1, rows=(("q", 1), ("pruned", 1))),
        Ending(number=4, table="not_there", position=1, rows=(("q", 1),)),
    )
    assert keep(opened, book_of(opened), endings=endings).over == (endings[2],)
