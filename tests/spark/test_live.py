"""Queries come, change and go while tuples flow: nothing restarts, nobody else is touched."""

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shoal.dataplane import commands as c
from shoal.dataplane.reports import Failed, FencedOff
from tests.spark.setting import Setting
from tests.system.live import change_and_check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


class _Gone(BaseException):
    """The process dies here; nobody catches it."""


def test_Q1_Q3_seventy_queries_come_and_go_while_tuples_flow(
    tmp_path: Path, spark: "SparkSession"
) -> None:
    """Each is added, altered and dropped; `python -m tests.system.live` does so with a thousand."""
    figures = change_and_check(tmp_path, spark, queries=70, controls=50, seed=1)
    assert (figures.dropped, figures.restarts) == (70, 0)
    assert figures.changes >= 3 * 70


def test_Q3_controls_equal_an_undisturbed_run(tmp_path: Path, spark: "SparkSession") -> None:
    """The same rows with the same identities, with and without changes around them."""
    calm = _controls(tmp_path / "calm", spark, disturbed=False)
    busy = _controls(tmp_path / "busy", spark, disturbed=True)
    assert calm == busy
    assert any(calm)


def _controls(folder: Path, spark: "SparkSession", *, disturbed: bool) -> list[list[str]]:
    """What twenty queries answer over four rounds of files."""
    rng = random.Random(5)
    with Setting(folder, spark, seed=23) as setting:
        setting.select({f"c{n}": f"kwh > {n / 3 - 3}" for n in range(20)})
        for turn in range(4):
            setting.world.drop(setting.source, files=3, rows=40)
            if disturbed:
                _disturb(setting, rng, turn)
            setting.drain()
        return [_rows(setting, f"c{n}") for n in range(20)]


def _disturb(setting: Setting, rng: random.Random, turn: int) -> None:
    setting.select({f"x{turn}_{n}": f"kwh > {rng.random()}" for n in range(5)})
    setting.select({f"y{turn}": "kwh / zone > 1"})
    setting.alter(f"x{turn}_0", "kwh > 7")
    setting.alter(f"x{turn}_1", "meter = 3")
    setting.mesh.query(f"x{turn}_2").drop(now=True)
    setting.mesh.query(f"x{turn}_3").drop()
    setting.mesh.query(f"x{turn}_4").keep(0.25)


def _rows(setting: Setting, name: str) -> list[str]:
    table = setting.mesh.query(name).to_arrow().drop_columns(["_step"])
    return [repr(row) for row in table.to_pylist()]


def test_Q1_dropped_and_altered_rows_end_where_the_table_says(
    tmp_path: Path, spark: "SparkSession"
) -> None:
    """What is due within the lateness still comes after a drop and a restart; not if NOW."""
    with Setting(tmp_path, spark, seed=29, lateness="1 hour") as setting:
        setting.select({"stays": "TRUE", "ends": "TRUE", "cut": "TRUE", "turns": "TRUE"})
        setting.select({"alone": "meter = 7 OR zone = 2"})
        setting.round(files=3, rows=100)
        setting.end("ends")
        setting.end("cut", now=True)
        setting.end("alone")
        setting.alter("turns", "kwh > 1")
        setting.reopen()
        setting.round(files=6, rows=100)
        oracle = setting.check()
        setting.check_intervals(oracle)
        late = setting.mesh.results("ends", after=0).num_rows
        assert late > setting.mesh.results("cut", after=0).num_rows


def test_Q1_a_drop_now_ends_what_an_older_version_still_owed(
    tmp_path: Path, spark: "SparkSession"
) -> None:
    """In the component of the old text and in that of the new one, also after a restart."""
    with Setting(tmp_path, spark, seed=41, lateness="1 hour") as setting:
        setting.select({"same": "kwh > -9", "moved": "kwh > -9", "stays": "kwh > -9"})
        setting.round(files=3, rows=100)
        setting.alter("same", "kwh > 1")
        setting.alter("moved", "meter = 7")
        for name in ("same", "moved"):
            setting.end(name, now=True)
        before = {name: setting.mesh.results(name, after=0).num_rows for name in ("same", "moved")}
        setting.round(files=3, rows=100)
        setting.reopen()
        setting.round(files=3, rows=100)
        for name, rows in before.items():
            assert setting.mesh.results(name, after=0).num_rows == rows > 0
        setting.check_intervals(setting.check())


def test_Q1_a_name_that_is_used_again(tmp_path: Path, spark: "SparkSession") -> None:
    """A dropped query's name may be taken; the new one has none of the old one's results."""
    with Setting(tmp_path, spark, seed=31) as setting:
        setting.select({"twice": "kwh > 1"})
        setting.round(files=3, rows=50)
        setting.mesh.query("twice").drop(now=True)
        setting.select({"twice": "kwh > 2"})
        (row,) = [row for row in setting.rows_of("twice") if row.cut > 1 << 60]
        setting.round(files=3, rows=50)
        steps = [i >> 35 for i in setting.mesh.query("twice").to_arrow().column("_id").to_pylist()]
        assert steps
        assert min(steps) > row.since


@pytest.mark.parametrize("before", [c.ReplaceRow, c.AddRows])
def test_Q1_a_crash_between_catalog_and_roster(
    tmp_path: Path, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch, before: type
) -> None:
    """What the catalog has and the roster has not is put right at the next start."""
    with Setting(tmp_path, spark, seed=37, lateness="1 hour") as setting:
        setting.select({"same": "kwh > 1", "other": "kwh > 1", "calm": "kwh > 2"})
        setting.round(files=3, rows=50)
        call = setting.mesh._call

        def crash(command: c.Command) -> object:
            if isinstance(command, before):
                raise _Gone
            return call(command)

        monkeypatch.setattr(setting.mesh, "_call", crash)
        attempts = (
            [lambda: setting.alter("same", "kwh > 5"), lambda: setting.alter("other", "meter = 7")]
            if before is c.ReplaceRow
            else [lambda: setting.select({"fresh": "kwh > 0.5"})]
        )
        for attempt in attempts:
            with pytest.raises(_Gone):
                attempt()
        setting.reopen()
        setting.read_catalog()
        setting.round(files=3, rows=50)
        oracle = setting.check()
        setting.check_intervals(oracle)
        assert not [r for r in setting.gather() if isinstance(r, Failed | FencedOff)]
