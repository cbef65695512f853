"""The source journal: each file once, in order, also over owners, crashes and weeks."""

from pathlib import Path

import pytest

from shoal.kernel.errors import Fenced, LocalError, StorageError
from shoal.kernel.time import DAY, HOUR
from shoal.log import numbered
from shoal.log.durable import create_if_absent
from shoal.log.journal import FILES_PER_OBJECT, FORGET_AFTER, FoundFile, Journal
from shoal.log.numbered import SNAPSHOT_AFTER, NumberedLog

NOW = 1_000 * DAY


def file(path: str, age: int = 0, split: str = "s") -> FoundFile:
    """A file that changed this many microseconds before NOW."""
    return FoundFile(path=path, size=10, mtime_ns=(NOW - age) * 1_000, split=split)


def opened(folder: Path, epoch: int = 1) -> Journal:
    journal = Journal(folder, forget_after=FORGET_AFTER)
    journal.claim(epoch)
    return journal


def paths(journal: Journal, after: int = 0) -> list[str]:
    return [entry.path for entry in journal.entries(after, journal.head)]


def test_files_are_numbered_once_oldest_first(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    found = journal.discover([file("b"), file("a"), file("old", age=HOUR), file("a")], now=NOW)
    assert [(entry.sequence, entry.path) for entry in found.appended] == [
        (1, "old"),
        (2, "a"),
        (3, "b"),
    ]
    again = journal.discover([file("b"), file("a"), file("c", split="t")], now=NOW)
    (entry,) = again.appended
    assert (entry.sequence, entry.path, entry.size, entry.split) == (4, "c", 10, "t")
    assert journal.discover([file("c")], now=NOW).appended == ()
    assert journal.head == 4
    assert paths(journal) == ["old", "a", "b", "c"]
    assert [entry.path for entry in journal.entries(1, 3)] == ["a", "b"]
    assert journal.entries(4, 99) == ()
    assert journal.entries(0, 0) == ()


def test_a_listing_without_news_writes_nothing(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.discover([file("a")], now=NOW)
    before = sorted(tmp_path.iterdir())
    journal.discover([file("a")], now=NOW)
    assert sorted(tmp_path.iterdir()) == before


def test_a_changed_file_is_still_the_same_path(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.discover([file("a", age=HOUR)], now=NOW)
    assert journal.discover([file("a")], now=NOW).appended == ()


def test_L3_the_next_owner_knows_the_listings_of_the_one_before(tmp_path: Path) -> None:
    old = opened(tmp_path)
    old.discover([file("a")], now=NOW)
    new = opened(tmp_path, epoch=2)
    for _ in range(2):
        with pytest.raises(Fenced):
            old.discover([file("b")], now=NOW)
    found = new.discover([file("a"), file("b")], now=NOW)
    assert [(entry.sequence, entry.path) for entry in found.appended] == [(2, "b")]


def test_a_failed_listing_is_settled_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = opened(tmp_path)

    def unsure(path: Path, data: bytes) -> bool:
        create_if_absent(path, data)
        raise StorageError("the folder could not be synced")

    monkeypatch.setattr(numbered, "create_if_absent", unsure)
    with pytest.raises(StorageError):
        journal.discover([file("a")], now=NOW)
    monkeypatch.undo()
    assert journal.discover([file("a")], now=NOW).appended == ()
    assert paths(journal) == ["a"]


def test_readers_follow_without_owning(tmp_path: Path) -> None:
    reader = Journal(tmp_path, forget_after=FORGET_AFTER)
    assert reader.refresh() == 0
    journal = opened(tmp_path)
    for number in range(2 * SNAPSHOT_AFTER + 50):
        journal.discover([file(f"f{number}")], now=NOW)
        if number == 3:
            assert reader.refresh() == 4
    assert reader.refresh() == journal.head
    assert paths(reader) == paths(journal)
    with pytest.raises(LocalError, match="without a claim"):
        reader.discover([file("x")], now=NOW)


def test_pruned_files_are_gone_and_not_listed_again(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.discover([file("a"), file("b"), file("c")], now=NOW)
    journal.prune(2)
    journal.prune(1)
    assert paths(journal, 2) == ["c"]
    with pytest.raises(StorageError, match="files 1 to 2") as caught:
        journal.entries(0, 3)
    assert caught.value.hint
    assert journal.discover([file("a"), file("d")], now=NOW).appended[0].sequence == 4
    again = opened(tmp_path, epoch=2)
    assert paths(again, 2) == ["c", "d"]
    assert again.discover([file("a")], now=NOW).appended == ()
    with pytest.raises(LocalError, match="pruned to 9"):
        journal.prune(9)


def test_old_files_are_ignored_and_counted(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    first = journal.discover([file("new"), file("ancient", age=900 * DAY)], now=NOW)
    assert (len(first.appended), first.ignored) == (2, 0)
    later = journal.discover([file("edge", age=7 * DAY), file("old", age=7 * DAY + 1)], now=NOW)
    assert [entry.path for entry in later.appended] == ["edge"]
    assert later.ignored == 1
    again = opened(tmp_path, epoch=2)
    assert again.discover([file("old", age=7 * DAY + 1)], now=NOW).ignored == 1


def test_a_date_in_the_future_does_not_age_the_others(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.discover([file("future", age=-500 * DAY)], now=NOW)
    found = journal.discover([file("present", age=HOUR)], now=NOW)
    assert [entry.path for entry in found.appended] == ["present"]


@pytest.mark.slow
def test_memory_goes_with_the_files_of_the_last_days(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for day in range(60):
        moment = NOW + day * DAY
        journal.discover(
            [file(f"{day}-{number}", age=-day * DAY) for number in range(1_000)], now=moment
        )
        journal.prune(journal.head)
    assert len(journal._seen) <= 20_000
    again = Journal(tmp_path, forget_after=FORGET_AFTER)
    again.claim(2)
    assert len(again._seen) <= 8_000
    assert again.head == 60_000
    stale = [file(f"5-{number}", age=-5 * DAY) for number in range(10)]
    assert again.discover(stale, now=NOW + 60 * DAY).ignored == 10


@pytest.mark.slow
def test_a_hundred_thousand_files(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    files = [file(f"in/part-{number:06d}.json", age=number) for number in range(100_000)]
    assert len(journal.discover(files, now=NOW).appended) == 100_000
    assert len(list(tmp_path.glob("*.json"))) == 1 + 100_000 // FILES_PER_OBJECT
    again = opened(tmp_path, epoch=2)
    assert again.head == 100_000
    assert again.discover(files, now=NOW).appended == ()


def test_the_folder_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    journal = opened(tmp_path)
    for number in range(5 * SNAPSHOT_AFTER):
        journal.discover([file(f"f{number}")], now=NOW)
        journal.prune(journal.head - 1)
    assert len(list(tmp_path.iterdir())) <= 4 * SNAPSHOT_AFTER
    assert paths(opened(tmp_path, epoch=2), journal.head - 1) == [f"f{5 * SNAPSHOT_AFTER - 1}"]


@pytest.mark.parametrize(
    "entry",
    [
        {},
        3,
        {"newest": 1, "pruned": 0, "files": [[2, "a", 1, 1, "s"]]},
        {"newest": 1, "pruned": 0, "files": [[1, "a"]]},
        {"newest": 1, "pruned": 5, "files": []},
    ],
)
def test_entries_that_are_no_files(tmp_path: Path, entry: object) -> None:
    log = NumberedLog(tmp_path)
    log.claim(1)
    log.append([entry])
    with pytest.raises(StorageError, match="cannot be read") as caught:
        opened(tmp_path, epoch=2)
    assert caught.value.hint


@pytest.mark.parametrize("name", ["\ud800", "a\nb", "x" * 10_000, "", "../../etc/passwd"])
def test_any_path_is_kept_as_it_is(tmp_path: Path, name: str) -> None:
    opened(tmp_path).discover([file(name, split=name)], now=NOW)
    (entry,) = opened(tmp_path, epoch=2).entries(0, 1)
    assert (entry.path, entry.split) == (name, name)
