"""The stream that tests of selections read, with a column of each type."""

from shoal.query.catalog import SourceDef, StreamDef, parse_schema

READINGS = StreamDef(
    name="readings",
    columns=parse_schema(
        "ts TIMESTAMP, meter INT, zone INT, kwh DOUBLE, price DECIMAL(10,2), name STRING, "
        "flag BOOLEAN, day DATE, raw BINARY, total BIGINT, tiny TINYINT, small SMALLINT, "
        "ratio FLOAT, `größe` INT"
    ),
    timestamp="ts",
    lateness=10_000_000,
    store=True,
    idle_advances=False,
    source=SourceDef(kind="push", options={}),
)
