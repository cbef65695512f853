"""A query in the hands of its user."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from shoal.cli.local import Mesh

__all__ = ["Query"]


class Query:
    """A query that runs; what it does goes through its mesh."""

    def __init__(self, mesh: "Mesh", name: str) -> None:
        self._mesh = mesh
        self.name = name

    def __repr__(self) -> str:
        return f"Query({self.name!r})"

    def rows(self, *, after: int = 0) -> list[dict[str, Any]]:
        """Results so far, in order; with `after`, those of later steps only."""
        rows: list[dict[str, Any]] = self.to_arrow(after=after).to_pylist()
        return rows

    def to_arrow(self, *, after: int = 0) -> pa.Table:
        """Results so far, as Arrow."""
        return self._mesh.results(self.name, after=after)

    def alter(
        self,
        sql: str | None = None,
        *,
        weight: float | None = None,
        within: str | None = None,
        loss: float | None = None,
    ) -> None:
        """Another text from now on, or another weight, latency bound, tolerated loss."""
        self._mesh.alter(self.name, sql, weight=weight, within=within, loss=loss)

    def keep(self, share: float) -> None:
        """Look at a share of the tuples only."""
        self._mesh.keep(self.name, share)

    def resume(self) -> None:
        """Try its sink again, after it was suspended."""
        self._mesh.resume(self.name)

    def drop(self, *, now: bool = False) -> None:
        """End it; what is due within the lateness still appears, unless `now`."""
        self._mesh.drop(self.name, now=now)
