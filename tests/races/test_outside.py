"""Tools that know nothing of Shoal read a table while its owner commits, compacts and trims."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.log.housekeep import Upkeep
from shoal.log.root import Root
from shoal.log.validate import validate
from shoal.log.writer import Writer
from tests.races.steps import INSTANCE, PART_ROWS, commit_step, create

#: As in production but for the pace: more happens while a reader looks.
UPKEEP = Upkeep(checkpoint_every=5, log_entries_kept=60, merge_from=6, sweep_every_s=0, grace_s=30)
STEPS = 120

READERS = {
    "polars": "import polars as pl\n"
    "def read(table): return pl.scan_delta(table).select('_step').collect()['_step'].to_list()",
    "polars, pruned by statistics": "import polars as pl\n"
    "def read(table):\n"
    "    rows = pl.scan_delta(table).filter(pl.col('_step') >= 1).select('_step').collect()\n"
    "    return rows['_step'].to_list()",
    "delta-rs and pyarrow": "from deltalake import DeltaTable\n"
    "def read(table):\n"
    "    dataset = DeltaTable(table).to_pyarrow_dataset()\n"
    "    return dataset.to_table(columns=['_step']).column('_step').to_pylist()",
}
#: Reads until the last step is there; every time a prefix of whole steps, and never less.
LOOP = """
import sys
table, last, rows, reads, newest = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), 0, 0
print("ready", flush=True)
while newest < last:
    steps = sorted(read(table))
    assert steps == [step for step in range(1, steps[-1] + 1) for _ in range(rows)], steps
    assert steps[-1] >= newest
    newest, reads = steps[-1], reads + 1
print(reads)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_L4_an_outside_reader_sees_a_prefix_of_whole_steps(root: Path, name: str) -> None:
    """A process of its own reads as fast as it can while the owner writes."""
    opened = Root.open(root)
    create(opened)
    writer = Writer.take_over(opened, INSTANCE, owner="someone", upkeep=UPKEEP)
    commit_step(writer, parts=1, rng=random.Random(0), trace=str)
    reader = subprocess.Popen(
        [
            sys.executable,
            "-c",
            READERS[name] + LOOP,
            str(writer.table.path),
            str(STEPS),
            str(PART_ROWS),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    with reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        for number in range(1, STEPS):
            commit_step(writer, parts=1, rng=random.Random(number), trace=str)
            writer.housekeep(horizon=None)
        reads = int(reader.stdout.readline() or -1)
    assert reader.returncode == 0
    assert reads >= 1
    assert validate(opened, INSTANCE) == ()
