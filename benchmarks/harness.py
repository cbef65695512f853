"""What all benchmarks share: the command line, repeats, raw rows, the table, the last line.

A benchmark states its question, measures every case in interleaved repeats (A B A B A B),
keeps each measurement as a raw row, reduces them to *keys* (mostly ratios, each the median of
its repeats), holds the keys against their *bars*, and ends with one line of JSON, which has each
key at its top too.

    bench = Bench("sharing", "what does one more query cost?", bars=(Bar(...), ...))
    bench.row(case="plain 5", repeat=1, cpu_seconds=8.4, files=10)
    bench.key("select_ratio_1000", [231.0, 228.4, 236.1])
    bench.finish()

A bar that is not met does not fail the run: figures are reported as they are. A key that was
not measured at all does. With `--quick` everything runs on a fraction of the work to show that
it runs; its figures do not count and cannot be kept.

Not here: what is measured (the benchmark's own folder), how (measure, side).
"""

import argparse
import csv
import json
import os
import platform
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

__all__ = [
    "Bar",
    "Bench",
    "Options",
    "columns",
    "interleaved",
    "last_line",
    "least_squares_slope",
    "machine",
    "parse_options",
    "write_rows",
]

REPEATS = 3
_RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("pyspark", "deltalake", "pyarrow")

Value = str | int | float | bool
Case = TypeVar("Case")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What a key must reach: `at_least` or `at_most`, one of them."""

    key: str
    at_least: float | None = None
    at_most: float | None = None

    def met(self, value: float) -> bool:
        low = self.at_least is None or value >= self.at_least
        return low and (self.at_most is None or value <= self.at_most)

    def text(self) -> str:
        if self.at_least == self.at_most:
            return f"= {self.at_least:g}"
        return f">= {self.at_least:g}" if self.at_least is not None else f"<= {self.at_most:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line asked for."""

    raw: Path | None
    keep: bool
    quick: bool
    only: tuple[str, ...]
    plain_fair: bool = False

    def wants(self, part: str) -> bool:
        """Whether this part of a benchmark was asked for; without `--only` every part is."""
        return not self.only or part in self.only


def parse_options(
    name: str, question: str, arguments: Sequence[str] | None = None, *, plain: bool = False
) -> Options:
    """What the command line asks of a benchmark; `plain`: it has plain Spark as a side."""
    parser = argparse.ArgumentParser(prog=f"benchmarks.{name}", description=question)
    parser.add_argument("--raw", type=Path, help="write every measurement to this CSV file")
    parser.add_argument("--keep", action="store_true", help="keep the result as the accepted one")
    parser.add_argument("--quick", action="store_true", help="a smoke run: figures do not count")
    parser.add_argument("--only", action="append", default=[], help="only this part; repeatable")
    parser.set_defaults(plain_fair=False)
    if plain:
        parser.add_argument(
            "--plain-fair",
            action="store_true",
            help="plain Spark's queries in pools of their own under FAIR scheduling",
        )
    found = parser.parse_args(arguments)
    if found.keep and (found.quick or found.plain_fair):
        parser.error("a run that is not the whole comparison cannot be kept: leave out --keep")
    return Options(
        raw=found.raw,
        keep=found.keep,
        quick=found.quick,
        only=tuple(found.only),
        plain_fair=found.plain_fair,
    )


@dataclass(slots=True)
class Bench:
    """One run of one benchmark."""

    name: str
    question: str
    bars: Sequence[Bar]
    options: Options
    results: Path = _RESULTS
    say: Callable[[str], None] = print
    _rows: list[Mapping[str, Value]] = field(default_factory=list)
    _keys: dict[str, float] = field(default_factory=dict)
    _spread: dict[str, tuple[float, float]] = field(default_factory=dict)
    _tables: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.say(f"{self.name}: {self.question}")
        if self.options.quick:
            self.say("quick: a smoke run on a fraction of the work; its figures do not count")

    def row(self, **values: Value) -> None:
        """Keep one measurement, and say it at once."""
        self._rows.append(values)
        self.say("  " + "  ".join(f"{key} {_short(value)}" for key, value in values.items()))

    def raw(self, **values: Value) -> None:
        """Keep one measurement of very many for `--raw`, and say nothing."""
        if self.options.raw is not None:
            self._rows.append(values)

    def key(self, name: str, repeats: Sequence[float]) -> None:
        """A figure of the result: the median of its repeats."""
        if not repeats:
            raise ValueError(f"{name} was not measured")
        self._keys[name] = statistics.median(repeats)
        self._spread[name] = (min(repeats), max(repeats))

    def table(self, name: str, cells: Mapping[str, Any]) -> None:
        """Figures that belong together, by label: part of the result, beside the keys."""
        self._tables[name] = cells

    def value(self, name: str) -> float:
        return self._keys[name]

    def finish(self) -> int:
        """Table, difference to the kept result, raw rows, and the JSON line last."""
        if self.options.raw is not None:
            write_rows(self.options.raw, self._rows)
        kept = self._kept()
        self.say(self._table(kept))
        result = self._result()
        if self.options.keep:
            self.results.mkdir(parents=True, exist_ok=True)
            path = self.results / f"{self.name}.json"
            whole = self._merged(result) if self.options.only else result
            path.write_text(json.dumps(whole, indent=2, sort_keys=True) + "\n")
            self.say(f"kept in {path}")
        missing = [] if self.options.only else self._missing()
        if missing:
            self.say(f"not measured: {', '.join(missing)}")
        self.say(last_line(result))
        return 1 if missing else 0

    def _missing(self) -> list[str]:
        return [bar.key for bar in self.bars if bar.key not in self._keys]

    def _result(self) -> dict[str, Any]:
        bars = {bar.key: bar for bar in self.bars}
        return {
            "benchmark": self.name,
            "quick": self.options.quick,
            "keys": {name: _rounded(value) for name, value in self._keys.items()},
            "spread": {name: [_rounded(v) for v in pair] for name, pair in self._spread.items()},
            "bars": {name: bar.text() for name, bar in bars.items() if name in self._keys},
            "met": {
                name: bar.met(self._keys[name]) for name, bar in bars.items() if name in self._keys
            },
            "machine": machine(),
            **self._tables,
        }

    def _merged(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """The kept result with the keys of a run of some parts in place of its own."""
        path = self.results / f"{self.name}.json"
        kept = json.loads(path.read_text()) if path.exists() else {}
        merged = {**kept, **result}
        for name in ("keys", "spread", "bars", "met"):
            merged[name] = {**kept.get(name, {}), **result[name]}
        return merged

    def _kept(self) -> Mapping[str, float]:
        path = self.results / f"{self.name}.json"
        if not path.exists():
            return {}
        kept: Mapping[str, float] = json.loads(path.read_text())["keys"]
        return kept

    def _table(self, kept: Mapping[str, float]) -> str:
        bars = {bar.key: bar for bar in self.bars}
        lines = [("key", "median", "lowest", "highest", "bar", "", "kept", "change")]
        for name, value in self._keys.items():
            low, high = self._spread[name]
            bar = bars.get(name)
            verdict = "" if bar is None else "met" if bar.met(value) else "MISSED"
            before = kept.get(name)
            lines.append(
                (
                    name,
                    _short(value),
                    _short(low),
                    _short(high),
                    "" if bar is None else bar.text(),
                    verdict,
                    "" if before is None else _short(before),
                    "" if not before else f"{(value - before) / before:+.0%}",
                )
            )
        return columns(lines)


def last_line(result: Mapping[str, Any]) -> str:
    """A result as one line of JSON, with its keys at the top as well: they are what is read."""
    keys = result["keys"]
    double = [name for name in keys if name in result]
    if double:
        raise ValueError(f"names of keys that a result has itself: {', '.join(double)}")
    return json.dumps({**keys, **result}, sort_keys=True)


def interleaved(cases: Sequence[Case], *, repeats: int = REPEATS) -> Iterator[tuple[int, Case]]:
    """A B C A B C A B C: what disturbs the machine for a while disturbs every case alike."""
    for repeat in range(1, repeats + 1):
        for case in cases:
            yield repeat, case


def least_squares_slope(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the line through (x, y) points with the least squared error."""
    if len({x for x, _ in points}) < 2:
        raise ValueError("a slope needs two different x")
    return statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope


def columns(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells as text: the first column to the left, the others to the right."""
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    rendered = []
    for line in lines:
        first, *others = line
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        rendered.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(rendered)


def write_rows(path: Path, rows: Sequence[Mapping[str, Value]]) -> None:
    """All rows as CSV; a column for every name that any row has, in order of appearance."""
    names = list({name: None for row in rows for name in row})
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, restval="")
        writer.writeheader()
        writer.writerows(rows)


def machine() -> dict[str, Value]:
    """Where the figures come from; ratios are what compares between machines."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        **{package: version(package) for package in _PACKAGES},
    }


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _short(value: Value) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"
    return str(value)
