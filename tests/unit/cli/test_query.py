"""A query in hand: each thing it can do reaches its mesh under its name, with what was said."""

from typing import Any

import pyarrow as pa

from shoal.cli.query import Query


class Mesh:
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def results(self, name: str, *, after: int) -> pa.Table:
        self.asked.append(("results", name, after))
        return pa.table({"a": [1, 2]})

    def alter(self, name: str, sql: str | None, **wishes: object) -> None:
        said = {key: value for key, value in wishes.items() if value is not None}
        self.asked.append(("alter", name, sql, said))

    def keep(self, name: str, share: float) -> None:
        self.asked.append(("keep", name, share))

    def resume(self, name: str) -> None:
        self.asked.append(("resume", name))

    def drop(self, name: str, *, now: bool) -> None:
        self.asked.append(("drop", name, now))


def test_it_asks_its_mesh() -> None:
    mesh: Any = Mesh()
    query = Query(mesh, "hot")
    query.alter("SELECT 1")
    query.alter(weight=2.0, within="2 seconds")
    query.keep(0.5)
    query.resume()
    query.drop()
    query.drop(now=True)
    assert mesh.asked == [
        ("alter", "hot", "SELECT 1", {}),
        ("alter", "hot", None, {"weight": 2.0, "within": "2 seconds"}),
        ("keep", "hot", 0.5),
        ("resume", "hot"),
        ("drop", "hot", False),
        ("drop", "hot", True),
    ]
    assert repr(query) == "Query('hot')"


def test_its_rows_are_plain() -> None:
    mesh: Any = Mesh()
    query = Query(mesh, "hot")
    assert query.rows() == [{"a": 1}, {"a": 2}]
    assert query.to_arrow(after=7).num_rows == 2
    assert query.rows(after=9) == query.rows()
    assert [asked[2] for asked in mesh.asked] == [0, 7, 9, 0]
