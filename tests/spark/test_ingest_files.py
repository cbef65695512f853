"""Files as a source: which split a tuple belongs to, whatever the folder is called."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import shoal
from tests.oracle.model import entries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

#: A URI writes each of these in its own way.
FOLDERS = ("plain", "two words", "größe", "東京", "100%", "it's", "a+b", "x#1", "é", "back\\slash")
FOLDERS += ("[ab]", "{c,d}", "e*", "f?")


def test_Q1_each_split_has_its_watermark(root: Path, tmp_path: Path, spark: "SparkSession") -> None:
    """Several splits in one step: each moves its own watermark, and the least is the stream's."""
    source = tmp_path / "in"
    for minute, folder in enumerate(FOLDERS):
        (source / folder).mkdir(parents=True)
        line = {"ts": f"2024-03-01T00:{minute:02}:00Z", "a": minute}
        (source / folder / "f.json").write_text(json.dumps(line) + "\n")
    with shoal.connect(root, spark=spark) as mesh:
        files = shoal.files(source, format="json")
        mesh.create_stream("s", "ts TIMESTAMP, a INT", timestamp="ts", source=files)
        mesh.drain(timeout=120)
        (view,) = mesh.status().components
        names = [key for e in entries(root / "tables" / view.instance) for key in e.state]
    assert sorted({key[6:] for key in names if key.startswith("split/")}) == sorted(FOLDERS)
    assert view.watermark == 1_709_251_200_000_000
