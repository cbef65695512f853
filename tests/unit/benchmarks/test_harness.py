"""The arithmetic and the last line of a benchmark."""

import csv
import json
from pathlib import Path

import pytest

from benchmarks.harness import (
    Bar,
    Bench,
    Options,
    columns,
    interleaved,
    least_squares_slope,
    parse_options,
)
from benchmarks.install.__main__ import percentile_95
from benchmarks.sharing.fixed import last_over_first

_BARS = (Bar(key="ratio", at_least=2), Bar(key="growth", at_most=1.5))


def _bench(folder: Path, said: list[str], **options: object) -> Bench:
    asked = {"raw": None, "keep": False, "quick": False, "only": (), **options}
    return Bench(
        "example",
        "does it add up?",
        _BARS,
        Options(**asked),  # type: ignore[arg-type]
        results=folder / "results",
        say=said.append,
    )


def test_cases_take_turns() -> None:
    order = list(interleaved(["a", "b"], repeats=3))
    assert order == [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (3, "a"), (3, "b")]


def test_slope_is_the_price_of_one_more() -> None:
    assert least_squares_slope([(1, 0.5), (5, 1.3), (20, 4.3)]) == pytest.approx(0.2)


def test_slope_needs_two_points() -> None:
    with pytest.raises(ValueError, match="two different"):
        least_squares_slope([(1, 0.5), (1, 0.6)])


def test_percentile_is_a_value_that_was_measured() -> None:
    assert percentile_95([1.0] * 95 + [9.0] * 5) == 1.0
    assert percentile_95([1.0] * 94 + [9.0] * 6) == 9.0
    assert percentile_95([3.0]) == 3.0


def test_growth_compares_the_ends() -> None:
    assert last_over_first([1.0] * 50 + [2.0] * 50) == 2.0
    assert last_over_first([2, 2, 2, 9, 4, 4, 4]) == 2.0


def test_the_last_line_is_json_with_medians_and_verdicts(tmp_path) -> None:
    said: list[str] = []
    bench = _bench(tmp_path, said)
    bench.key("ratio", [3.0, 1.0, 2.5])
    bench.key("growth", [1.6])
    bench.key("free", [7.0])
    assert bench.finish() == 0
    assert "\n" not in said[-1]
    result = json.loads(said[-1])
    assert result["benchmark"] == "example"
    assert result["keys"] == {"ratio": 2.5, "growth": 1.6, "free": 7.0}
    assert result["spread"]["ratio"] == [1.0, 3.0]
    assert result["met"] == {"ratio": True, "growth": False}
    assert "MISSED" in said[-2]


def test_the_last_line_has_the_keys_at_its_top_and_what_is_kept_has_not(tmp_path) -> None:
    """Programs read one, the table of differences the other."""
    said: list[str] = []
    bench = _bench(tmp_path, said, keep=True)
    bench.key("ratio", [3.0])
    bench.key("growth", [1.0])
    bench.table("reached", {"5": 1.0})
    bench.finish()
    result = json.loads(said[-1])
    assert (result["ratio"], result["growth"], result["reached"]) == (3.0, 1.0, {"5": 1.0})
    kept = json.loads((tmp_path / "results" / "example.json").read_text())
    assert kept["keys"] == {"ratio": 3.0, "growth": 1.0}
    assert kept["reached"] == {"5": 1.0}
    assert "ratio" not in kept


def test_a_key_that_a_result_has_itself_is_refused(tmp_path) -> None:
    bench = _bench(tmp_path, [], only=("x",))
    bench.key("machine", [1.0])
    with pytest.raises(ValueError, match="machine"):
        bench.finish()


def test_a_key_that_was_not_measured_fails_the_run(tmp_path) -> None:
    said: list[str] = []
    bench = _bench(tmp_path, said)
    bench.key("ratio", [3.0])
    assert bench.finish() == 1
    assert any("not measured: growth" in line for line in said)
    json.loads(said[-1])


def test_a_partial_run_need_not_measure_everything(tmp_path) -> None:
    assert _bench(tmp_path, [], only=("ratio",)).finish() == 0


def test_a_kept_result_is_what_the_next_run_is_compared_with(tmp_path) -> None:
    first = _bench(tmp_path, [], keep=True)
    first.key("ratio", [2.0])
    first.key("growth", [1.0])
    first.finish()
    said: list[str] = []
    second = _bench(tmp_path, said)
    second.key("ratio", [3.0])
    second.key("growth", [1.0])
    second.finish()
    line = next(line for line in said[-2].splitlines() if line.startswith("ratio"))
    assert line.split()[-2:] == ["2", "+50%"]


def test_rows_of_different_cases_share_one_table(tmp_path) -> None:
    raw = tmp_path / "raw.csv"
    bench = _bench(tmp_path, [], raw=raw, only=("x",))
    bench.row(case="a", cpu=1.5)
    bench.row(case="b", steps=3)
    bench.finish()
    with raw.open() as file:
        assert list(csv.DictReader(file)) == [
            {"case": "a", "cpu": "1.5", "steps": ""},
            {"case": "b", "cpu": "", "steps": "3"},
        ]


def test_a_run_that_is_not_the_comparison_is_not_kept(capsys) -> None:
    with pytest.raises(SystemExit):
        parse_options("example", "?", ["--keep", "--quick"])
    with pytest.raises(SystemExit):
        parse_options("example", "?", ["--keep", "--plain-fair"], plain=True)
    with pytest.raises(SystemExit):
        parse_options("example", "?", ["--plain-fair"])
    assert parse_options("example", "?", ["--plain-fair"], plain=True).plain_fair
    assert "cannot be kept" in capsys.readouterr().err


def test_a_part_that_is_kept_leaves_the_other_keys(tmp_path) -> None:
    whole = _bench(tmp_path, [], keep=True)
    whole.key("ratio", [2.0])
    whole.key("growth", [1.0])
    whole.finish()
    part = _bench(tmp_path, [], keep=True, only=("growth",))
    part.key("growth", [9.0])
    part.finish()
    kept = json.loads((tmp_path / "results" / "example.json").read_text())
    assert kept["keys"] == {"ratio": 2.0, "growth": 9.0}
    assert kept["met"] == {"ratio": True, "growth": False}


def test_a_part_that_is_kept_leaves_the_tables_of_others(tmp_path) -> None:
    whole = _bench(tmp_path, [], keep=True)
    whole.key("ratio", [2.0])
    whole.key("growth", [1.0])
    whole.table("reached", {"5": 1.0})
    whole.finish()
    part = _bench(tmp_path, [], keep=True, only=("growth",))
    part.key("growth", [9.0])
    part.finish()
    kept = json.loads((tmp_path / "results" / "example.json").read_text())
    assert kept["reached"] == {"5": 1.0}


def test_columns_line_up() -> None:
    assert columns([("key", "value"), ("a", "1")]) == "key  value\na        1"
