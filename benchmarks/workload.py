"""The one workload of the benchmarks: smart meters and the queries people ask of them.

5,000 meters in 50 zones, one Parquet file of 100,000 tuples at a time, and sets of queries that
together match one tuple in 100 whatever their number: more queries mean narrower ones, so what
is measured is the price of a query and not the price of its results. Everything is a function
of `SEED`. Files are made once, into a cache folder outside the repository.

Not here: how the tuples are fed and what is measured (harness, sharing, install).
"""

import math
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = [
    "COLUMNS_TEXT",
    "MATCH_SHARE",
    "METERS",
    "TUPLES_PER_FILE",
    "ZONES",
    "Columns",
    "QuerySet",
    "columns_of",
    "equality_and_range",
    "narrow_ranges",
    "one_sided_ranges",
    "source_file",
    "tuples",
    "zone_and_range",
]

SEED = 20_240_101
METERS = 5_000
ZONES = 50
TUPLES_PER_FILE = 100_000
#: The share of tuples that match, over all queries of a set together.
MATCH_SHARE = 0.01
#: Event time between neighbours: 100,000 tuples are 20 minutes, each meter once a minute.
SPACING_US = 12_000
#: Tuples are out of order by at most this much, far below the lateness the streams allow.
JITTER_US = 1_000_000
START_US = 1_704_067_200_000_000
KWH_MEAN = 1.5
VOLTAGE_MEAN, VOLTAGE_DEVIATION = 230.0, 3.0
STATUSES = {"ok": 0.90, "estimated": 0.06, "fault": 0.03, "tamper": 0.01}
COLUMNS_TEXT = "ts TIMESTAMP, meter INT, zone INT, kwh DOUBLE, voltage DOUBLE, status STRING"

_SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("meter", pa.int32()),
        ("zone", pa.int32()),
        ("kwh", pa.float64()),
        ("voltage", pa.float64()),
        ("status", pa.string()),
    ]
)

#: The columns of some tuples by name, as arrays.
Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySet:
    """Some queries as SQL text, and the number of rows they must give over given tuples."""

    name: str
    texts: tuple[str, ...]
    #: Counted with NumPy, apart from any engine; one entry per query.
    matches: Callable[[Columns], np.ndarray]


def tuples(index: int, *, rows: int = TUPLES_PER_FILE) -> pa.Table:
    """The tuples of the file with this number. Event time goes on from file to file."""
    rng = np.random.default_rng([SEED, rows, index])
    meter = (rng.permutation(rows) if rows >= METERS else rng.integers(0, METERS, rows)) % METERS
    first = START_US + index * rows * SPACING_US
    ts = first + np.arange(rows) * SPACING_US + rng.integers(-JITTER_US, JITTER_US, rows)
    status = rng.choice(list(STATUSES), size=rows, p=list(STATUSES.values()))
    return pa.table(
        [
            pa.array(ts, pa.timestamp("us", tz="UTC")),
            pa.array(meter.astype(np.int32)),
            pa.array((meter % ZONES).astype(np.int32)),
            pa.array(rng.exponential(KWH_MEAN, rows)),
            pa.array(rng.normal(VOLTAGE_MEAN, VOLTAGE_DEVIATION, rows)),
            pa.array(status.tolist(), pa.string()),
        ],
        schema=_SCHEMA,
    )


def columns_of(table: pa.Table) -> Columns:
    """The columns as NumPy arrays; event time in microseconds."""
    arrays = {name: table[name].to_numpy() for name in table.column_names if name != "ts"}
    arrays["status"] = arrays["status"].astype(np.str_)
    return {**arrays, "ts": table["ts"].cast(pa.int64()).to_numpy()}


def source_file(index: int, *, rows: int = TUPLES_PER_FILE, cache: Path | None = None) -> Path:
    """The path of a file of the workload, made if it is not there yet."""
    base = cache or Path(tempfile.gettempdir()) / "shoal-benchmarks"
    folder = base / f"meters-{SEED}-{rows}"
    path = folder / f"{index:06d}.parquet"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = folder / f".{index:06d}.{os.getpid()}"
        pq.write_table(tuples(index, rows=rows), made, compression="snappy")
        made.replace(path)
    return path


def equality_and_range(queries: int, *, stream: str = "readings") -> QuerySet:
    """`meter = ? AND kwh > ?`; few queries ask for zones, because a meter is too rare for them."""
    if queries <= ZONES:
        return zone_and_range(queries, stream=stream)
    return _keyed("equality_and_range", "meter", METERS, queries, stream)


def zone_and_range(queries: int, *, stream: str = "readings") -> QuerySet:
    """`zone = ? AND kwh > ?` at any number: with 10,000, each tuple meets 200 rows of its zone."""
    return _keyed("zone_and_range", "zone", ZONES, queries, stream)


def _keyed(name: str, key: str, keys: int, queries: int, stream: str) -> QuerySet:
    share = MATCH_SHARE * keys / queries
    if share * 1.5 > 1 and queries > 1:
        raise ValueError(f"{queries} queries over {keys} values of {key} cannot match enough")
    values, bounds = [], []
    for number in range(queries):
        values.append(number * 7919 % keys)
        bounds.append(_kwh_above(share * _spread(number, queries)))
    texts = tuple(
        f"SELECT ts, meter, kwh FROM {stream} WHERE {key} = {value} AND kwh > {bound:.12f}"
        for value, bound in zip(values, bounds, strict=True)
    )

    def matches(columns: Columns) -> np.ndarray:
        order = np.argsort(columns[key], kind="stable")
        edges = np.searchsorted(columns[key][order], np.arange(keys + 1))
        kwh = columns["kwh"][order]
        return np.array(
            [
                np.count_nonzero(kwh[edges[value] : edges[value + 1]] > round(bound, 12))
                for value, bound in zip(values, bounds, strict=True)
            ]
        )

    return QuerySet(name=name, texts=texts, matches=matches)


def narrow_ranges(queries: int, *, stream: str = "readings") -> QuerySet:
    """`kwh BETWEEN ? AND ?`: disjoint intervals, as narrow as their number asks for."""
    share = MATCH_SHARE / queries
    pairs = []
    for number in range(queries):
        below = (number + 0.5) / queries * (1 - MATCH_SHARE)
        pairs.append((_kwh_above(1 - below), _kwh_above(1 - below - share)))
    texts = tuple(
        f"SELECT ts, meter, kwh FROM {stream} WHERE kwh BETWEEN {low:.12f} AND {high:.12f}"
        for low, high in pairs
    )

    def matches(columns: Columns) -> np.ndarray:
        kwh = np.sort(columns["kwh"])
        edges = np.round(np.array(pairs), 12)
        above = np.searchsorted(kwh, edges[:, 1], side="right")
        return np.asarray(above - np.searchsorted(kwh, edges[:, 0], side="left"))

    return QuerySet(name="narrow_ranges", texts=texts, matches=matches)


def one_sided_ranges(queries: int, *, stream: str = "readings") -> QuerySet:
    """`kwh > ?`: the k-th query asks for 1/k of what the first asks for.

    One-sided ranges contain each other, so a high tuple matches many queries at once: the mean
    is one match in 100 tuples, single files are far from it.
    """
    weights = 1 / np.arange(1, queries + 1)
    shares = MATCH_SHARE * weights / weights.sum()
    bounds = [round(_kwh_above(float(share)), 12) for share in shares]
    texts = tuple(
        f"SELECT ts, meter, kwh FROM {stream} WHERE kwh > {bound:.12f}" for bound in bounds
    )

    def matches(columns: Columns) -> np.ndarray:
        kwh = np.sort(columns["kwh"])
        return np.asarray(len(kwh) - np.searchsorted(kwh, bounds, side="right"))

    return QuerySet(name="one_sided_ranges", texts=texts, matches=matches)


def _kwh_above(share: float) -> float:
    """The value that this share of the tuples' kwh exceeds (kwh is exponential)."""
    return -KWH_MEAN * math.log(share)


def _spread(number: int, queries: int) -> float:
    """Between 0.5 and 1.5 with mean 1, so that no two queries have the same constants."""
    return 0.5 + (number + 0.5) / queries
