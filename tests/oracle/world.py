"""A made-up world: tuples that are late, malformed, doubled, NULL, ahead of the clock, extreme.

    world = World(seed=7)
    world.drop(folder, files=12, rows=200)      a round of files in the folder

Every file knows what it holds, so the oracle needs no reader of files: `File.tuples` are values as
they were meant, None where the line is malformed. One seed gives one world.

Not here   which of the tuples are ok, late or dead (model.py).
"""

import json
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["COLUMNS", "SCHEMA", "SPLITS", "SPLIT_BY", "File", "Tuple", "World", "arrow_of"]

#: The stream of all worlds, as it is declared.
SCHEMA = (
    "n BIGINT, ts TIMESTAMP, meter INT, zone SMALLINT, tiny TINYINT, big BIGINT, kwh DOUBLE, "
    "ratio FLOAT, price DECIMAL(10,2), name STRING, flag BOOLEAN, day DATE, seen TIMESTAMP"
)
_ARROW = pa.schema(
    [
        ("n", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("meter", pa.int32()),
        ("zone", pa.int16()),
        ("tiny", pa.int8()),
        ("big", pa.int64()),
        ("kwh", pa.float64()),
        ("ratio", pa.float32()),
        ("price", pa.decimal128(10, 2)),
        ("name", pa.string()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("seen", pa.timestamp("us", "UTC")),
    ]
)
COLUMNS = tuple(_ARROW.names)
Tuple = dict[str, Any]

_BASE = datetime(2024, 3, 1, tzinfo=UTC)
_FAR_AHEAD = datetime(2096, 2, 29, 12, tzinfo=UTC)
_NAMES = (
    "alpha", "Alpha", "ALPHA", "a%b", "a_b", "Straße", "ΑΘΗΝΑ", "αθήνα", "Київ", "東京", "서울",
    "القاهرة", "עברית", "हिन्दी", "🐟 shoal", "e\u0301", "\u00e9", "I", "ı", "x" * 300, " pad ",
)  # fmt: skip
_DOUBLES = (0.0, -0.0, 1e-308, 1.7976931348623157e308, -1.5, 2.5, 3.25)
_WILD = (float("nan"), float("inf"), float("-inf"))
_BIGS = (-(1 << 63), (1 << 63) - 1, 0, -1, 1, 1 << 53, (1 << 53) + 1)
_DAYS = (date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(2023, 12, 31))
_SEEN = (datetime(1970, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC))
#: Splits: the idle one has files in the first rounds only.
SPLITS = ("north", "south", "idle")
SPLIT_BY = "^r[0-9]+/([a-z]+)/"


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file as it was made; a malformed line is None."""

    path: Path
    split: str
    #: Files of one round appear at the same instant; pushed ones as they are sent.
    round: int
    #: Which of its split's it is, from 0: the number that a client gives it.
    sequence: int
    tuples: tuple[Tuple | None, ...]

    @property
    def pushed(self) -> bool:
        """Whether it is a batch that its split pushes, and lies nowhere."""
        return self.path.suffix == ".push"


class World:
    """Makes files, and remembers them in the order of their times of change."""

    def __init__(
        self,
        seed: int,
        *,
        format: str = "json",  # noqa: A002
        calm: bool = False,
    ) -> None:
        self._rng = random.Random(seed)
        self.format = format
        #: Every other file has neither late tuples nor any without a time or ahead of it.
        self._calm = calm
        self.files: list[File] = []
        self._made = 0
        self._clock = dict.fromkeys(SPLITS, _BASE)

    def drop(self, folder: Path, *, files: int, rows: int, idle: bool = True) -> list[File]:
        """Put a round of files into the folder at one instant; `idle` False leaves that split out.

        They lie in <round>/<split>/, so a stream tells its splits by `SPLIT_BY`. What is to be
        pushed is made, and left to the caller.
        """
        number = self.files[-1].round + 1 if self.files else 0
        aside, made = folder.parent / f".{folder.name}-{number}", []
        for _ in range(files):
            place = len(self.files)
            split = SPLITS[place % (3 if idle else 2)]
            path = aside / split / f"part-{place:05}.{self.format}"
            tuples = tuple(self.tuple(split) for _ in range(rows))
            made.append(self._file(path, split, number, tuples))
            _write(made[-1], place)
        if self.format != "push":
            folder.mkdir(exist_ok=True)
            aside.rename(folder / f"r{number:05}")
        return made

    def _file(self, path: Path, split: str, number: int, tuples: tuple[Tuple | None, ...]) -> File:
        sequence = sum(1 for file in self.files if file.split == split)
        self.files.append(
            File(path=path, split=split, round=number, sequence=sequence, tuples=tuples)
        )
        return self.files[-1]

    def repeat_newest(self, folder: Path, *, rows: int) -> None:
        """A round with tuples at the greatest event time there was, and a little after it."""
        seen = [t["ts"] for f in self.files for t in f.tuples if t is not None and t["ts"]]
        newest = max(ts for ts in seen if ts < _FAR_AHEAD)
        self._clock = dict.fromkeys(SPLITS, newest)
        number, place = self.files[-1].round + 1, len(self.files)
        aside = folder.parent / f".{folder.name}-{number}"
        tuples = []
        for n in range(rows):
            self._made += 1
            ts = newest + timedelta(milliseconds=n // 2 * (n % 3))
            tuples.append({"n": self._made, "ts": ts, **self._values(), "kwh": float(n)})
        tuples += [dict(tuples[-1]), dict(tuples[-1])]
        path = aside / SPLITS[0] / f"part-{place:05}.{self.format}"
        _write(self._file(path, SPLITS[0], number, tuple(tuples)), place)
        aside.rename(folder / f"r{number:05}")

    def tuple(self, split: str) -> Tuple | None:
        """The next tuple of a split: one in twenty late, one in fifty malformed, and so on."""
        rng = self._rng
        kind = rng.random()
        if kind < 0.02 and self.format not in ("parquet", "push"):
            return None
        if kind < 0.03 and self.files and self.files[-1].tuples:
            again = rng.choice(self.files[-1].tuples)
            return None if again is None else dict(again)
        self._made += 1
        self._clock[split] += timedelta(milliseconds=rng.choice((0, 1, 250, 1000)))
        ts: datetime | None = self._clock[split] - timedelta(seconds=rng.choice((0, 0, 1, 4)))
        if self._calm and len(self.files) % 2 == 0:
            ts = self._clock[split]
        elif 0.03 <= kind < 0.08:
            ts = self._clock[split] - timedelta(hours=rng.choice((1, 5, 300)))
        elif 0.08 <= kind < 0.09:
            ts = None
        elif 0.09 <= kind < 0.10:
            ts = _FAR_AHEAD
        return {"n": self._made, "ts": ts, **self._values()}

    def _values(self) -> Tuple:
        rng = self._rng
        double = rng.choice(_DOUBLES) if rng.random() < 0.2 else round(rng.uniform(-10, 10), 3)
        if self.format != "csv" and rng.random() < 0.02:
            double = rng.choice(_WILD)
        values: Tuple = {
            "meter": rng.choice((-(1 << 31), (1 << 31) - 1, *range(40))),
            "zone": rng.choice((-32768, 32767, *range(8))),
            "tiny": rng.choice((-128, 127, *range(-3, 4))),
            "big": rng.choice((*_BIGS, rng.getrandbits(40))),
            "kwh": double,
            "ratio": rng.choice((0.5, -0.0, 0.25, 1.0, -2.0, 3.4028234663852886e38)),
            "price": Decimal(rng.choice((-99999999_99, 99999999_99, 0, rng.randrange(10_000))))
            / 100,
            "name": rng.choice(_NAMES),
            "flag": rng.random() < 0.5,
            "day": rng.choice((*_DAYS, date(2024, 3, 1) + timedelta(days=rng.randrange(300)))),
            "seen": rng.choice((*_SEEN, _BASE + timedelta(microseconds=rng.getrandbits(40)))),
        }
        if self.format in ("json", "push", "parquet") and rng.random() < 0.02:
            values["name"] = rng.choice(("", 'quo"te', "back\\slash", "new\nline", "ta\tb", "\x00"))
        for name in values:
            if rng.random() < 0.06:
                values[name] = None
        return values


def arrow_of(tuples: list[Tuple]) -> pa.Table:
    """The tuples as Arrow, in the stream's types."""
    return pa.Table.from_pylist(tuples, schema=_ARROW)


def _write(file: File, place: int) -> None:
    """Write a file and date it after the file before it: the journal's order is that of dates."""
    if file.pushed:
        return
    file.path.parent.mkdir(parents=True, exist_ok=True)
    WRITERS[file.path.suffix[1:]](file, file.path)
    stamp = (1_700_000_000 + place) * 10**9
    os.utime(file.path, ns=(stamp, stamp))


def _text(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, date):
        return value.isoformat()
    return value


def _json_line(values: Tuple | None, number: int) -> str:
    if values is None:
        return ('{"n": 1, "ts": "2024-03', '{"n": 1, "meter": "seven"}', "not json at all")[
            number % 3
        ]
    fields = {k: _text(v) for k, v in values.items() if v is not None or number % 2}
    # A number's digits as they are: `json` would write a decimal as text.
    return json.dumps(fields, ensure_ascii=bool(number % 2), default=float)


def _write_json(file: File, path: Path) -> None:
    lines = [_json_line(values, number) for number, values in enumerate(file.tuples)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _csv_line(values: Tuple | None, number: int) -> str:
    if values is None:
        return ("1,2024", ",".join(["x"] * len(COLUMNS)))[number % 2]
    cells = [_text(values[name]) for name in COLUMNS]
    cells = ["" if cell is None else str(cell) for cell in cells]
    return ",".join(f'"{cell}"' if "," in cell or number % 5 == 0 else cell for cell in cells)


def _write_csv(file: File, path: Path) -> None:
    lines = [_csv_line(values, number) for number, values in enumerate(file.tuples)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_parquet(file: File, path: Path) -> None:
    pq.write_table(arrow_of([t for t in file.tuples if t is not None]), path)


WRITERS: Mapping[str, Callable[[File, Path], None]] = {
    "json": _write_json,
    "csv": _write_csv,
    "parquet": _write_parquet,
}
