"""A process that runs a mesh until it is killed: what `kills.py` kills.

It reads commands from its standard input, one a line, and says `done <line>` once each is
acknowledged:

    select NAME WHERE...    alter NAME WHERE...    drop NAME    now NAME
    push CLIENT SEQUENCE FILE
"""

import sys
from pathlib import Path

import pyarrow.parquet as pq

import shoal
from shoal.cli.local import Mesh
from shoal.spark.session import build
from tests.spark.setting import create_stream

__all__ = ["LATENESS", "main"]

#: Long, so that how long a restart takes makes no split idle.
LATENESS = "1 hour"


def main() -> None:
    """Run a mesh: root, source folder, format, files per step, whether to store."""
    root, source, kind, files_per_step, store = sys.argv[1:]
    session = build("local[2]", {"spark.driver.memory": "1g"})
    mesh = shoal.connect(root, spark=session)
    create_stream(
        mesh, Path(source), kind, int(files_per_step), store=store == "True", lateness=LATENESS
    )
    _say("ready")
    for line in sys.stdin:
        _obey(mesh, line.strip())
        _say(f"done {line.strip()}")


def _obey(mesh: Mesh, line: str) -> None:
    word, _, rest = line.partition(" ")
    name, _, where = rest.partition(" ")
    match word:
        case "select":
            mesh.select(name, f"SELECT n, ts, name FROM w WHERE {where}")
        case "alter":
            mesh.query(name).alter(f"SELECT n, ts, name FROM w WHERE {where}")
        case "drop":
            mesh.query(name).drop()
        case "now":
            mesh.query(name).drop(now=True)
        case "push":
            sequence, _, path = where.partition(" ")
            mesh.append("w", pq.read_table(path), client=name, sequence=int(sequence))
        case _:
            raise ValueError(f"{line!r} is no command")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
