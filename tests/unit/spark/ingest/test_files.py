"""Files: each found once, whatever the folder does; what a batch holds; where a split ends."""

import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.kernel.errors import StorageError, UserError
from shoal.kernel.time import DAY, SECOND
from shoal.log.journal import FORGET_AFTER, Journal
from shoal.query.catalog import Column, SourceDef
from shoal.spark.ingest import files as module
from shoal.spark.ingest.files import FileSource
from shoal.spark.ingest.footers import Footer
from tests.unit.spark.ingest.world import stream_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Far after anything was written here, so that every time stamp has settled.
LATER = 4_000_000_000 * SECOND
#: No options of its own.
NONE: Mapping[str, str] = MappingProxyType({})
COLUMNS = (Column(name="a", type="INT"), Column(name="b", type="STRING"))


class Site:
    """A folder of files and the source that reads it."""

    def __init__(self, folder: Path, **options: str) -> None:
        self.inbox = folder / "in"
        self.inbox.mkdir(exist_ok=True)
        self._folder = folder
        self._written = len(list(self.inbox.rglob("*.json")))
        self.source = self.opened(options)

    def opened(self, options: Mapping[str, str] = NONE, *, keep: bool = False) -> FileSource:
        journal = Journal(self._folder / "journal", forget_after=FORGET_AFTER)
        journal.claim(1)
        given = {"path": str(self.inbox), "format": "json", **options}
        return FileSource(SourceDef(kind="files", options=given), journal, keep=keep)

    def put(self, name: str, text: str = '{"a": 1}\n') -> Path:
        """A file, dated after the one before."""
        path = self.inbox / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self._written += 1
        stamp = (1_700_000_000 + self._written) * 10**9
        os.utime(path, ns=(stamp, stamp))
        return path

    def names(self, *, after: int = 0) -> list[str]:
        """What the source finds, as paths below the folder."""
        self.source.discover(LATER)
        found = []
        while batch := self.source.next_batch(after):
            found += self.source.describe(batch).split(", ")
            after = batch.upto
        return [str(Path(name).relative_to(self.inbox)) for name in found]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_files_come_once_in_the_order_of_their_dates(site: Site) -> None:
    site.put("b.json")
    site.put("deep/er/a.json")
    assert site.names() == ["b.json", "deep/er/a.json"]
    site.put("c.json")
    assert site.names(after=2) == ["c.json"]
    site.source = site.opened()
    assert site.names() == ["b.json", "deep/er/a.json", "c.json"]


def test_what_hides_or_is_empty_is_left_alone(site: Site) -> None:
    for name in ("_x.json", ".x.json", "_temporary/0/x.json", ".hidden/x.json", "d/.e/x.json"):
        site.put(name)
    site.put("empty.json", "")
    site.put("d/seen.json")
    assert site.names() == ["d/seen.json"]


def test_a_pattern_chooses_by_name(tmp_path: Path) -> None:
    site = Site(tmp_path, pattern="*.json")
    site.put("a.json")
    site.put("a.json.tmp")
    site.put("d/b.json")
    assert site.names() == ["a.json", "d/b.json"]


def test_a_folder_that_is_not_there_yet_has_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.inbox.rmdir()
    assert site.names() == []
    site.inbox.mkdir()
    site.put("a.json")
    assert site.names() == ["a.json"]


def test_a_folder_that_has_not_changed_is_not_listed_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    scandir = os.scandir

    def counting(folder: Path) -> "os._ScandirIterator[str]":
        listed.append(Path(folder).name)
        return scandir(folder)

    site.put("one/a.json")
    site.put("two/b.json")
    site.names()
    monkeypatch.setattr(FileSource._files_of.__globals__["os"], "scandir", counting)
    settled = site.inbox / "one", site.inbox / "two", site.inbox
    for folder in settled:
        os.utime(folder, ns=(10**18, 10**18))
    site.names()
    listed.clear()
    site.source.discover(LATER)
    # os.walk goes through every folder once; only a folder that changed is looked at again.
    assert sorted(listed) == ["in", "one", "two"]
    os.utime(site.inbox / "two", ns=(10**18 + 1, 10**18 + 1))
    listed.clear()
    site.source.discover(LATER)
    assert sorted(listed) == ["in", "one", "two", "two"]


def test_a_folder_stamped_just_now_is_listed_until_its_stamp_has_settled(site: Site) -> None:
    """Two files may come within one tick of the file system's clock."""
    site.put("a.json")
    stamp = 2_000_000_000 * 10**9
    now = stamp // 1000 + SECOND
    os.utime(site.inbox, ns=(stamp, stamp))
    site.source.discover(now)
    site.put("b.json")
    os.utime(site.inbox, ns=(stamp, stamp))
    site.source.discover(now)
    found = site.source.next_batch(0)
    assert found is not None
    assert found.parts == 2


def test_a_step_is_bounded_by_files_bytes_and_splits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, files_per_step="3")
    for number in range(7):
        site.put(f"{number % 4}/{number}.json", "x" * (100 if number == 5 else 10))

    def sizes() -> list[int]:
        site.source.discover(LATER)
        ends = [0]
        while batch := site.source.next_batch(ends[-1]):
            ends.append(batch.upto)
        return [b - a for a, b in itertools.pairwise(ends)]

    assert sizes() == [3, 3, 1]
    monkeypatch.setattr(module, "BYTES_PER_STEP", 25)
    assert sizes() == [2, 2, 1, 1, 1]
    monkeypatch.setattr(module, "BYTES_PER_STEP", 1000)
    monkeypatch.setattr(module, "SPLITS_PER_STEP", 2)
    assert sizes() == [2, 2, 2, 1]


def test_a_batch_is_a_function_of_its_range(site: Site) -> None:
    for name in ("north/a.json", "south/b.json", "north/c.json"):
        site.put(name)
    site.source.discover(LATER)
    batch = site.source.batch(0, 3)
    assert (batch.parts, batch.splits, batch.bytes) == (3, ("north", "south"), 27)
    assert site.source.next_batch(0) == batch == site.opened().batch(0, 3)
    assert site.source.batch(1, 2).splits == ("south",)
    assert site.source.waiting(1) == ("south", "north")
    assert site.source.waiting(3) == ()


def test_a_split_is_the_folder_or_what_the_expression_says(tmp_path: Path) -> None:
    site = Site(tmp_path, split_by="/(site-[0-9]+)[.]")
    site.put("x/site-7.json")
    site.put("y/site-7.json")
    site.put("y/other.json")
    site.source.discover(LATER)
    assert site.source.waiting(0) == ("site-7", "")


@pytest.mark.parametrize(("text", "said"), [("(", "not a regular expression"), ("a+", "no group")])
def test_an_expression_that_cannot_tell_splits_apart(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        Site(tmp_path, split_by=text)


def test_what_is_committed_may_be_forgotten_unless_readers_come(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.put("a.json")
    site.put("b.json")
    site.source.discover(LATER)
    site.source.release(1, LATER)
    with pytest.raises(StorageError, match="are gone"):
        site.source.batch(0, 2)
    assert site.source.batch(1, 2).parts == 1
    (tmp_path / "other").mkdir()
    kept = Site(tmp_path / "other")
    kept.source = kept.opened(keep=True)
    kept.put("a.json")
    kept.source.discover(LATER)
    kept.source.release(1, LATER)
    assert kept.source.batch(0, 1).parts == 1
    kept.source.forget(1)
    with pytest.raises(StorageError, match="are gone"):
        kept.source.batch(0, 1)


def test_Q2_a_batch_is_whole_also_where_the_ingest_runs_elsewhere(tmp_path: Path) -> None:
    """A reader's own view of the journal follows; a batch is never the part that it knows."""
    site = Site(tmp_path)
    journal = Journal(tmp_path / "journal", forget_after=FORGET_AFTER)
    given = {"path": str(site.inbox), "format": "json"}
    reader = FileSource(SourceDef(kind="files", options=given), journal, keep=True)
    site.put("a.json")
    assert site.names() == ["a.json"]
    assert reader.batch(0, 1) == site.source.batch(0, 1)
    site.put("b.json")
    site.put("c.json")
    assert site.names(after=1) == ["b.json", "c.json"]
    assert reader.batch(1, 3) == site.source.batch(1, 3)
    assert reader.describe(reader.batch(1, 3)) == site.source.describe(site.source.batch(1, 3))
    with pytest.raises(StorageError, match="not all known"):
        reader.batch(1, 4)


def test_footers_speak_for_a_batch_or_not_at_all(tmp_path: Path) -> None:
    site = Site(tmp_path, format="parquet")
    stream = stream_of("ts TIMESTAMP, a INT")

    def write(name: str, values: list[int | None]) -> None:
        instants = pa.array(values, pa.timestamp("us", "UTC"))
        numbers = pa.array([1] * len(values), pa.int32())
        path = site.put(name)
        pq.write_table(pa.table({"ts": instants, "a": numbers}), path)
        os.utime(path, ns=(1_700_000_000 * 10**9, 1_700_000_000 * 10**9))

    write("n/1", [DAY, 7])
    write("s/2", [9])
    site.source.discover(LATER)
    assert site.source.footers(site.source.batch(0, 2), stream) == [
        ("n", Footer(rows=2, earliest=7, latest=DAY)),
        ("s", Footer(rows=1, earliest=9, latest=9)),
    ]
    assert site.source.footers(site.source.batch(0, 2), stream_of("a INT", timestamp="")) is None
    write("t/3", [None])
    site.source.discover(LATER)
    assert site.source.footers(site.source.batch(0, 3), stream) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({"format": "json"}, ['{"a": 1, "b": "x"}', '{"a": "no"}', '{"a": 3, "b": "ÿ"}']),
        ({"format": "csv"}, ["1,x", "no,y", "3,ÿ"]),
        ({"format": "csv", "header": "true", "delimiter": ";"}, ["a;b", "1;x", "no;y", "3;ÿ"]),
    ],
    ids=["json", "csv", "csv with header"],
)
def test_a_malformed_line_keeps_its_place_and_its_text(
    tmp_path: Path, spark: "SparkSession", options: Mapping[str, str], lines: list[str]
) -> None:
    site = Site(tmp_path, **options)
    site.put("n/1.x", "\n".join(lines) + "\n")
    site.put("s/2.x", "\n".join(lines[:-2]) + "\n")
    site.source.discover(LATER)
    batch = site.source.batch(0, 2)
    raw = site.source.read(spark, batch, COLUMNS)
    found = raw.frame.selectExpr(
        "a", f"{raw.corrupt} AS c", f"{raw.part} AS p", f"{raw.row} AS r", f"{raw.split} AS s"
    ).collect()
    assert sorted((row.p, row.r, row.s, row.c is None) for row in found) == [
        (0, 0, 0, True),
        (0, 1, 0, False),
        (0, 2, 0, True),
        (1, 0, 1, True),
    ]
    (bad,) = [row.c for row in found if row.c is not None]
    assert bad == lines[-2]


@pytest.mark.slow
def test_parquet_is_read_by_name(tmp_path: Path, spark: "SparkSession") -> None:
    site = Site(tmp_path, format="parquet")
    pq.write_table(
        pa.table({"b": ["x"], "extra": [1], "a": pa.array([7], pa.int32())}), site.put("[1]*.x")
    )
    site.source.discover(LATER)
    raw = site.source.read(spark, site.source.batch(0, 1), COLUMNS)
    (row,) = raw.frame.selectExpr("a", "b", f"{raw.corrupt} AS c", f"{raw.split} AS s").collect()
    assert row.asDict() == {"a": 7, "b": "x", "c": None, "s": 0}


@pytest.mark.slow
def test_json_text_is_one_tuple_a_line(tmp_path: Path, spark: "SparkSession") -> None:
    site = Site(tmp_path)
    site.put("x.json", "\n".join(json.dumps({"a": n, "b": "two\nlines"}) for n in range(3)))
    site.source.discover(LATER)
    raw = site.source.read(spark, site.source.batch(0, 1), COLUMNS)
    rows = raw.frame.selectExpr("a", "b", f"{raw.row} AS r").collect()
    assert [(row.a, row.r, row.b) for row in rows] == [(n, n, "two\nlines") for n in range(3)]
