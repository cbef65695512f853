"""Shoal runs thousands of continuous SQL queries on the Spark you already have."""

import importlib
from typing import Any

__all__ = [
    "connect",
    "files",
    "push",
    "rate",
    "to_console",
    "to_delta",
    "to_files",
    "to_jsonl",
]

_HOMES = {"connect": "local", "files": "sources", "push": "sources", "rate": "sources"}


def __getattr__(name: str) -> Any:
    """Load the way in only when somebody uses it: the pure side needs neither Spark nor Java."""
    if name in __all__:
        return getattr(importlib.import_module(f"shoal.cli.{_HOMES.get(name, 'sinks')}"), name)
    raise AttributeError(f"module 'shoal' has no attribute {name!r}")
