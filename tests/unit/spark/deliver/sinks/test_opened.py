"""From a definition to a sink; and the Delta sink, whose table records how far it is."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from shoal.dataplane.commands import Sink
from shoal.kernel.errors import Fenced, LocalError, ShoalError
from shoal.spark.deliver.sinks.contract import OpenSink
from shoal.spark.deliver.sinks.local import ConsoleSink, FileSink, LinesSink
from shoal.spark.deliver.sinks.opened import DeltaSink, open_sink
from tests.unit.spark.deliver.sinks.rows import SCHEMA, To, batches


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("files", {"path": "/x", "format": "csv"}, FileSink),
        ("jsonl", {"path": "/x"}, LinesSink),
        ("delta", {"path": "/x"}, DeltaSink),
        ("console", {}, ConsoleSink),
    ],
)
def test_each_kind_is_opened_and_nothing_touched(
    kind: str, options: dict[str, str], expected: type
) -> None:
    sink = open_sink(Sink(kind=kind, options=options), "hot-1", "hot")
    assert isinstance(sink, expected)
    assert not Path("/x").exists()


def test_a_kind_that_is_not_known() -> None:
    with pytest.raises(LocalError, match="sink fax is not known"):
        open_sink(Sink(kind="fax", options={}), "hot-1", "hot")


def delta(path: Path, *, identity: bool = True) -> OpenSink:
    options = {"path": str(path), "identity": "true" if identity else "false"}
    return open_sink(Sink(kind="delta", options=options), "hot-1", "hot")


def values(path: Path) -> list[int]:
    found: list[int] = DeltaTable(str(path)).to_pyarrow_table().column("a").to_pylist()
    return sorted(found)


def test_L2_a_step_is_added_once_whoever_repeats_it(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = delta(path)
    sink.prepare(SCHEMA)
    assert sink.place(None) == 0
    assert sink.write(batches(2, 1), place=0, target=To(upto=3)) == 1
    sink.write(batches(2, 1), place=0, target=To(upto=3))
    delta(path).write(batches(2, 1), place=0, target=To(upto=3, epoch=2))
    assert values(path) == [0, 1, 2]
    delta(path).write(batches(1, begin=3), place=1, target=To(upto=4, epoch=2))
    assert values(path) == [0, 1, 2, 3]
    with pytest.raises(Fenced):
        sink.write(batches(1, begin=9), place=1, target=To(upto=5))
    assert values(path) == [0, 1, 2, 3]


def test_two_tables_of_one_delivery_do_not_hide_each_other(tmp_path: Path) -> None:
    """A query that moved to another component delivers steps with lower numbers."""
    sink = delta(tmp_path / "t")
    sink.write(batches(1), place=0, target=To(upto=9))
    sink.write(batches(1, begin=1), place=1, target=To(upto=2, table="select-2"))
    assert values(tmp_path / "t") == [0, 1]


@pytest.mark.parametrize("identity", [True, False])
def test_identity_may_be_left_out(tmp_path: Path, identity: bool) -> None:
    sink = delta(tmp_path / "t", identity=identity)
    sink.prepare(SCHEMA)
    sink.write(batches(1), place=0, target=To(upto=1))
    names = [field.name for field in DeltaTable(str(tmp_path / "t")).schema().fields]
    assert names == (["a", "_version", "_step", "_id"] if identity else ["a"])


def test_a_table_that_rows_do_not_fit_is_refused_before_the_first(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path / "t"), pa.schema([("b", pa.int32())]))
    with pytest.raises(ShoalError, match="has no column a"):
        delta(tmp_path / "t").prepare(SCHEMA)
