"""`make demo`: smart meters, hundreds of live queries, and a check of every result.

Everything happens in a folder of its own that is removed at the end. Set SHOAL_DEMO_KEEP=1 to
keep it and look around.
"""

import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from shoal.cli.local import Mesh, connect
from shoal.cli.sources import files
from shoal.dataplane.reports import StepDone
from shoal.kernel.errors import ShoalError
from shoal.kernel.time import SECOND

__all__ = ["main"]

QUERIES = 500
METERS = 5_000
ZONES = 50
FILES = 8
TUPLES_PER_FILE = 50_000
START = 1_772_323_200 * SECOND

say = Console(highlight=False)


def main() -> int:
    """Run the demo; 0 if every result was right."""
    folder = Path(tempfile.mkdtemp(prefix="shoal-demo-"))
    incoming = folder / "incoming"
    incoming.mkdir()
    try:
        say.print("[bold]Shoal[/] starts a Spark peer in this process (some ten seconds) ...")
        began = time.monotonic()
        with connect(folder / "root") as mesh:
            say.print(f"  ready after {time.monotonic() - began:.0f} s, root {folder / 'root'}\n")
            right = _tour(mesh, incoming)
        _next_steps(folder)
        return 0 if right else 1
    except ShoalError as error:
        say.print(f"[red]the demo stopped:[/] {error}")
        return 2
    except KeyboardInterrupt:
        say.print("\nstopped; nothing is left behind")
        return 130
    finally:
        if not os.environ.get("SHOAL_DEMO_KEEP"):
            shutil.rmtree(folder, ignore_errors=True)


def _tour(mesh: Mesh, incoming: Path) -> bool:
    schema = "ts TIMESTAMP, meter INT, zone INT, kwh DOUBLE, status STRING"
    mesh.create_stream(
        "readings",
        schema,
        timestamp="ts",
        lateness="10 seconds",
        source=files(incoming, format="parquet", files_per_step=1),
    )
    _title(f"{QUERIES} queries join while nothing restarts")
    texts = _queries()
    began = time.monotonic()
    mesh.select_many(texts.items())
    took = time.monotonic() - began
    say.print(f"  {QUERIES} queries accepted in {took:.1f} s, for example")
    for name in ("hot_7", "night_3"):
        say.print(f"    {name}: [cyan]{texts[name]}[/]", soft_wrap=True)

    _title(f"{FILES} files of {TUPLES_PER_FILE:,} meter readings arrive")
    written = []
    for number in range(FILES // 2):
        written.append(_write(incoming, number))
        mesh.drain()
    _steps(mesh)

    _title("one query is altered, one dropped, one refused")
    mesh.query("hot_7").alter("SELECT ts, meter, kwh FROM readings WHERE zone = 7 AND kwh > 4.9")
    mesh.query("hot_8").drop()
    say.print("  hot_7 now asks for kwh > 4.9; hot_8 is gone; and this one is refused:")
    try:
        mesh.select("typo", "SELECT ts, metre FROM readings WHERE kwh > 3")
    except ShoalError as error:
        say.print("    [yellow]" + str(error).replace("\n", "\n    ") + "[/]")
    mesh.select("shares", "SELECT ts, meter FROM readings WHERE 10 / (zone - 3) > 9 AND meter < 99")
    say.print("  shares divides by zero in zone 3: counted, and nobody else notices")
    for number in range(FILES // 2, FILES):
        written.append(_write(incoming, number))
        mesh.drain()
    _steps(mesh)

    _title("every result against DuckDB")
    return _check(mesh, texts, written)


def _queries() -> dict[str, str]:
    texts = {}
    for number in range(QUERIES // 2):
        limit = 4.0 + (number % 17) / 20
        texts[f"hot_{number}"] = (
            f"SELECT ts, meter, kwh FROM readings WHERE zone = {number % ZONES} AND kwh > {limit}"
        )
        low = number * METERS // QUERIES
        texts[f"night_{number}"] = (
            f"SELECT ts, meter, kwh, status FROM readings "
            f"WHERE meter BETWEEN {low} AND {low + 3} AND status = 'off'"
        )
    return texts


def _write(incoming: Path, number: int) -> Path:
    draw = random.Random(number)
    rows = TUPLES_PER_FILE
    meters = [draw.randrange(METERS) for _ in range(rows)]
    base = START + number * 10 * SECOND
    table = pa.table(
        {
            "ts": pa.array(
                sorted(base + draw.randrange(10 * SECOND) for _ in range(rows)),
                pa.timestamp("us", "UTC"),
            ),
            "meter": pa.array(meters, pa.int32()),
            "zone": pa.array([meter % ZONES for meter in meters], pa.int32()),
            "kwh": pa.array([draw.random() * 5 for _ in range(rows)]),
            "status": pa.array(draw.choices(("on", "off", None), (80, 15, 5), k=rows)),
        }
    )
    hidden, whole = incoming / f".{number}", incoming / f"{number:03d}.parquet"
    pq.write_table(table, hidden)
    hidden.rename(whole)
    return whole


def _steps(mesh: Mesh) -> None:
    done = [report for report in mesh.reports() if isinstance(report, StepDone) and report.rows_in]
    table = Table(box=None, padding=(0, 2))
    for column in ("step of", "tuples in", "rows out", "queries", "milliseconds"):
        table.add_column(column, justify="left" if column == "step of" else "right")
    for report in done[-6:]:
        table.add_row(
            report.instance,
            f"{report.rows_in:,}",
            f"{report.rows_out:,}",
            f"{report.roster_rows or ''}",
            f"{report.busy * 1000:.0f}",
        )
    say.print(table)


def _check(mesh: Mesh, texts: Mapping[str, str], written: list[Path]) -> bool:
    judge = duckdb.connect()
    judge.execute("SET TimeZone = 'UTC'")
    listed = ", ".join(f"'{path}'" for path in written)
    judge.execute(f"CREATE VIEW readings AS SELECT * FROM read_parquet([{listed}])")
    untouched = [name for name in texts if name not in ("hot_7", "hot_8")]
    wrong, rows = [], 0
    for name in untouched:
        expected = judge.sql(texts[name]).to_arrow_table()
        got = mesh.query(name).to_arrow().select(expected.column_names)
        rows += got.num_rows
        order = [(column, "ascending") for column in expected.column_names]
        if not got.sort_by(order).equals(expected.cast(got.schema).sort_by(order)):
            wrong.append(name)
    if wrong:
        say.print(f"  [red]{len(wrong)} queries differ[/]: {', '.join(wrong[:5])}")
        return False
    say.print(f"  {len(untouched)} queries, {rows:,} result rows: [green]all equal[/]")
    return True


def _title(text: str) -> None:
    say.print(f"\n[bold]{text}[/]")


def _next_steps(folder: Path) -> None:
    say.print("\n[bold]what next[/]")
    say.print("  make test            everything that is promised, checked")
    say.print("  README.md            the ten lines of Python behind this")
    say.print("  docs/model.md        what exactly is promised")
    if os.environ.get("SHOAL_DEMO_KEEP"):
        say.print(f"  {folder}/root/tables   the results, as Delta tables")


if __name__ == "__main__":
    sys.exit(main())
