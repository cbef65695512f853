"""Checks L1 to L4 from outside: raw JSON, raw Parquet, and what owners and readers wrote down.

It shares no code with shoal.log, so a mistake there cannot hide itself here. Rows of a race say
which attempt wrote them and how many rows that attempt has in all:

    L1  every acknowledged step is there, and every step there is one whole attempt
    L2  each step number was committed once, without a gap
    L3  epochs never fall; each epoch was taken over once (M1)
    L4  the live rows of each step are those of its commit, once; so are those that any reader
        was handed; the library sees the same files
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

__all__ = ["Findings", "check", "rows_of"]

STEP_MASK = (1 << 40) - 1
COLUMNS = ["_step", "_id", "attempt", "rows"]

Row = tuple[int, int, int, int]


@dataclass(slots=True, kw_only=True)
class Findings:
    """What was seen, and what was wrong, by promise."""

    commits: int = 0
    take_overs: int = 0
    compactions: int = 0
    violations: dict[str, list[str]] = field(default_factory=dict)

    def complain(self, promise: str, detail: str) -> None:
        """Note one violation."""
        self.violations.setdefault(promise, []).append(detail)


def check(
    table: Path,
    *,
    acknowledged: Iterable[tuple[int, int, int]] = (),
    read: Iterable[Mapping[int, list[Row]]] = (),
) -> Findings:
    """Judge a table; acknowledged are (epoch, step, attempt), read is step to rows per reader."""
    findings = Findings()
    committed, live = _replay(table, findings)
    rows = _live_rows(table, live, findings)
    for step, attempt in committed.items():
        _check_step(step, attempt, rows.get(step, []), "the table", findings)
    for step in rows:
        if step not in committed:
            findings.complain("L4", f"rows of step {step}, which was not committed")
    for epoch, step, attempt in acknowledged:
        if committed.get(step) != attempt:
            findings.complain("L1", f"acknowledged epoch {epoch}, step {step} is not there")
    for handed in read:
        if handed and len(handed) != max(handed) - min(handed) + 1:
            findings.complain("L4", f"a reader missed steps: it was handed {sorted(handed)}")
        for step, some in handed.items():
            _check_step(step, committed.get(step, -1), some, "a reader", findings)
    seen = sorted(uri.partition(f"/{table.name}/")[2] for uri in DeltaTable(str(table)).file_uris())
    if seen != sorted(live):
        findings.complain("L4", f"the library sees {len(seen)} files, the entries say {len(live)}")
    return findings


def rows_of(path: Path) -> list[Row]:
    """The rows of one file as far as they matter here."""
    content = pq.read_table(path, columns=COLUMNS, partitioning=None, use_threads=False)
    return list(zip(*(content.column(name).to_pylist() for name in COLUMNS), strict=True))


def _replay(table: Path, findings: Findings) -> tuple[dict[int, int], dict[str, int]]:
    """Step to attempt, and the live files with their sizes, from every entry since the first."""
    committed: dict[int, int] = {}
    live: dict[str, int] = {}
    epoch = step = 0
    for version, lines in enumerate(_entries(table)):
        adds = [line["add"] for line in lines if "add" in line]
        fences = [line["txn"] for line in lines if line.get("txn", {}).get("appId") == "shoal"]
        said: dict[str, Any] = next(
            (line["commitInfo"].get("shoal", {}) for line in lines if "commitInfo" in line), {}
        )
        for line in lines:
            if "remove" in line and live.pop(line["remove"]["path"], None) is None:
                findings.complain("L4", f"version {version} removes what is not there")
        live |= {add["path"]: add["size"] for add in adds}
        if not fences:
            continue
        now, at = fences[0]["version"] >> 40, fences[0]["version"] & STEP_MASK
        kind = said.get("kind")
        if now < epoch or (now > epoch) != (kind == "take-over") or now > epoch + 1:
            findings.complain("L3", f"version {version}: {kind} of epoch {now} after {epoch}")
        if at in committed and kind == "step":
            findings.complain("L2", f"version {version} commits step {at} again")
        if at != step + (kind == "step") or (kind != "step" and any(a["dataChange"] for a in adds)):
            findings.complain("L2", f"version {version}: {kind} at step {at} after {step}")
        if kind == "step":
            committed[at] = int(said["info"]["attempt"])
        findings.commits += kind == "step"
        findings.take_overs += kind == "take-over"
        findings.compactions += kind == "compact"
        epoch, step = max(now, epoch), at
    return committed, live


def _entries(table: Path) -> Iterable[list[dict[str, Any]]]:
    """Every entry from version 0 on; one that was moved to the history is the one to believe."""
    version = 0
    while True:
        name = f"{version:020d}.json"
        paths = [table / folder / name for folder in ("_history", "_delta_log")]
        path = next((path for path in paths if path.exists()), None)
        if path is None:
            return
        yield [json.loads(line) for line in path.read_text().splitlines()]
        version += 1


def _live_rows(table: Path, live: Mapping[str, int], findings: Findings) -> dict[int, list[Row]]:
    rows: dict[int, list[Row]] = {}
    for path, size in live.items():
        try:
            found = rows_of(table / path)
            whole = (table / path).stat().st_size == size
        except (OSError, pa.ArrowException) as error:
            findings.complain("L1", f"{path}: {error}")
            continue
        if not whole:
            findings.complain("L1", f"{path} has not the size that its commit says")
        for row in found:
            rows.setdefault(row[0], []).append(row)
    return rows


def _check_step(step: int, attempt: int, rows: list[Row], where: str, findings: Findings) -> None:
    """One step's rows: of the attempt that was committed, whole, each once."""
    said = f"step {step} in {where}"
    if any(row[2] != attempt for row in rows):
        findings.complain("L4", f"{said}: rows of another attempt than {attempt}")
    wanted = attempt % 100
    if len(rows) != wanted:
        promise = "L4" if len(rows) > wanted else "L1"
        findings.complain(promise, f"{said}: {len(rows)} rows, committed {wanted}")
    for identity, count in Counter(row[1] for row in rows).items():
        if count > 1:
            findings.complain("L4", f"{said}: row {identity} {count} times")
