"""The fence: what an owner may add, and when it stops for good."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from shoal.kernel.errors import Fenced, StorageError
from shoal.log.entries import Mark, newest_version, read_entry
from shoal.log.fence import Change, Fence
from shoal.log.root import Root, TableDir
from shoal.log.validate import validate
from tests.races.steps import INSTANCE, create

STEP = Change(kind="step", info={"attempt": "0"})
TAKE = Change(kind="take-over")


@pytest.fixture
def table(root: Path) -> Iterator[TableDir]:
    opened = Root.open(root)
    create(opened)
    yield opened.table(INSTANCE)
    assert validate(opened, INSTANCE) == ()


def fence(table: TableDir, *, owner: str = "someone") -> Fence:
    return Fence(table, owner=owner, trace=lambda point: None)


def test_an_entry_records_its_mark(table: TableDir) -> None:
    one = fence(table)
    assert one.append(TAKE, mark=Mark(1, 0)).version == 1
    assert one.append(STEP, mark=Mark(1, 1)).version == 2
    assert (one.mark, one.version) == (Mark(1, 1), 2)
    assert fence(table).mark == Mark(1, 1)


def test_L3_a_passed_owner_stops_for_good(table: TableDir) -> None:
    old, new = fence(table), fence(table)
    old.append(TAKE, mark=Mark(1, 0))
    with pytest.raises(Fenced):
        new.append(TAKE, mark=Mark(1, 0))
    new = fence(table, owner="new")
    new.append(TAKE, mark=Mark(2, 0))
    for _ in range(2):
        with pytest.raises(Fenced, match="someone no longer owns race") as caught:
            old.append(STEP, mark=Mark(1, 1))
    assert "Mark(epoch=2, step=0)" in caught.value.detail
    assert newest_version(table) == 2


def test_L2_an_entry_whose_answer_was_lost_is_found(
    table: TableDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library adds the entry and then fails: it is not added again."""
    one = fence(table)
    create = one._create

    def lost(actions: object, properties: object) -> Exception | None:
        create(actions, properties)  # type: ignore[arg-type]
        return OSError("the answer was lost")

    monkeypatch.setattr(one, "_create", lost)
    assert one.append(TAKE, mark=Mark(1, 0)).version == 1
    assert one.append(STEP, mark=Mark(1, 1)).version == 2
    assert newest_version(table) == 2


def test_an_entry_that_never_lands_is_an_error_and_no_stop(
    table: TableDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = fence(table)
    one.append(TAKE, mark=Mark(1, 0))
    with monkeypatch.context() as patched:
        patched.setattr(one, "_create", lambda actions, properties: OSError("disk full"))
        with pytest.raises(StorageError, match="cannot commit") as caught:
            one.append(STEP, mark=Mark(1, 1))
    assert "disk full" in caught.value.detail
    assert one.append(STEP, mark=Mark(1, 1)).version == 2


def test_an_unknown_outcome_stops_it(table: TableDir, monkeypatch: pytest.MonkeyPatch) -> None:
    one = fence(table)
    one.append(TAKE, mark=Mark(1, 0))
    with monkeypatch.context() as patched:
        patched.setattr(one, "_recorded", lambda: 1 / 0)
        with pytest.raises(StorageError, match="cannot read the table"):
            one.append(STEP, mark=Mark(1, 1))
    with pytest.raises(StorageError, match="cannot read the table"):
        one.append(STEP, mark=Mark(1, 2))


def test_foreign_entries_do_not_stop_it(table: TableDir) -> None:
    """Somebody changes a property of the table: no conflict, and the version is found."""
    one = fence(table)
    one.append(TAKE, mark=Mark(1, 0))
    DeltaTable(str(table.path)).alter.set_table_properties({"delta.checkpointInterval": "30"})
    assert one.append(STEP, mark=Mark(1, 1)).version == 3


def test_M1_of_two_takers_of_one_epoch_one_gets_it(table: TableDir) -> None:
    takers = [fence(table, owner=str(number)) for number in range(4)]
    won = []
    for taker in takers:
        try:
            taker.append(TAKE, mark=Mark(1, 0))
            won.append(taker.owner)
        except Fenced:
            continue
    assert won == ["0"]
    entry = read_entry(table, 1)
    assert entry is not None
    assert entry.kind == "take-over"
