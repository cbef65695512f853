"""The canonical text of a predicate over READINGS, for tests of single rules."""

from shoal.query.canonical import conjuncts, normalise
from shoal.query.sql import parse
from shoal.query.terms.tree import Term, bottom_up, show
from tests.property.streams import READINGS

__all__ = ["canonical", "read", "rewritten"]


def read(text: str) -> Term:
    """The tree of a predicate, as it is written."""
    parsed = parse(f"SELECT meter FROM readings WHERE {text}", READINGS, ())
    assert parsed.where is not None
    return parsed.where


def rewritten(text: str, rule: object) -> str:
    """The text after one rule."""
    return show(bottom_up(read(text), rule.rewrite))  # type: ignore[attr-defined]


def canonical(text: str) -> str:
    """The text after all rules, conjunct by conjunct."""
    return " & ".join(show(part) for part in conjuncts(normalise(read(text))))
