"""The files that the examples of a page read, made before the page runs."""

import json
from pathlib import Path

__all__ = ["prepare"]


def prepare(page: str, folder: Path) -> None:
    """Make what the examples of `page` need in `folder`; most need nothing."""
    if page == "README.md":
        _meter_readings(folder / "in")


def _meter_readings(folder: Path) -> None:
    folder.mkdir()
    rows = [
        {"ts": f"2026-03-01T12:00:{i:02d}Z", "meter": i, "zone": 6 + i % 2, "kwh": 3.0 + i / 10}
        for i in range(20)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "part-0.json").write_text(text, encoding="utf-8")
