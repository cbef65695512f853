"""Shoal runs thousands of continuous SQL queries on the Spark you already have."""

from typing import Any

__all__ = ["connect", "files", "push", "rate"]


def __getattr__(name: str) -> Any:
    """Load the way in only when somebody uses it: the pure side needs neither Spark nor Java."""
    if name in __all__:
        from shoal.cli import local

        return getattr(local, name)
    raise AttributeError(f"module 'shoal' has no attribute {name!r}")
