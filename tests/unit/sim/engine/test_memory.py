"""What is durable in an invented mesh: commits by epoch and number, rosters, pushed batches."""

import pytest

from shoal.dataplane.rows import RosterRow
from shoal.kernel.errors import Fenced, LocalError
from shoal.sim.engine.memory import COMMITS_KEPT, Commit, Memory, RosterBook, Spool, Table, Volume


def commit(epoch: int, step: int) -> Commit:
    return Commit(epoch=epoch, step=step, transactions={"at": step}, rows=0, items=())


def test_L3_only_the_last_owner_commits() -> None:
    table = Table("x")
    first = table.take_over()
    table.append(commit(first, 1))
    second = table.take_over()
    with pytest.raises(Fenced):
        table.append(commit(first, 2))
    table.append(commit(second, 2))
    assert table.transactions == {"at": 2}
    table.validate()


def test_L2_a_number_is_committed_once() -> None:
    table = Table("x")
    epoch = table.take_over()
    table.append(commit(epoch, 1))
    for wrong in (1, 3):
        with pytest.raises(Fenced):
            table.append(commit(epoch, wrong))


def test_L2_validate_finds_gaps_and_falling_epochs() -> None:
    table = Table("x")
    table.take_over()
    table.append(commit(1, 1))
    table.commits.append(commit(1, 3))
    table.step = 2
    with pytest.raises(LocalError, match="L2"):
        table.validate()
    table.commits.pop()
    table.commits.append(commit(0, 2))
    with pytest.raises(LocalError, match="L3"):
        table.validate()


def test_L4_what_a_reader_needs_is_kept() -> None:
    table = Table("x")
    epoch = table.take_over()
    table.read_by("slow", 5)
    for step in range(1, 3 * COMMITS_KEPT):
        table.append(commit(epoch, step))
    assert table.forgotten == 5
    assert [found.step for found in table.between(5, 8)] == [6, 7, 8]
    with pytest.raises(LocalError):
        table.between(4, 8)
    table.read_by("slow", None)
    table.append(commit(epoch, 3 * COMMITS_KEPT))
    assert table.forgotten == 2 * COMMITS_KEPT
    table.validate()


def test_a_roster_belongs_to_the_last_claim() -> None:
    book = RosterBook("x")
    row = RosterRow(query="a", version=1, parameters=(), columns=("n",), until=5)
    assert book.claim(1) == ()
    assert book.put(1, [row]) == 2
    assert book.claim(2) == (row,)
    with pytest.raises(Fenced):
        book.put(1, [row])
    with pytest.raises(Fenced):
        book.claim(1)
    book.prune(2, before=6)
    assert book.claim(3) == ()


def test_a_batch_is_accepted_once() -> None:
    spool = Spool()
    assert spool.push("a", 0, [{"n": 1}])
    assert not spool.push("a", 0, [{"n": 1}])
    assert spool.push("b", 0, Volume(5, 0, 9))
    assert [entry.client for entry in spool.after(0, most=9)] == ["a", "b"]
    assert len(spool.after(0, most=1)) == 1
    spool.release(1)
    assert (spool.released, [entry.client for entry in spool.after(0, most=9)]) == (1, ["b"])


def test_a_memory_makes_what_is_asked_for() -> None:
    memory = Memory()
    assert memory.table("x") is memory.table("x")
    assert memory.roster("x") is memory.roster("x")
    assert memory.results("x") == []
    memory.validate()
