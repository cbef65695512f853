"""Errors say what, why and what to do, in this order."""

import pytest

from shoal.kernel.errors import (
    Fenced,
    LocalError,
    RemoteError,
    ShoalError,
    StorageError,
    UserError,
)


@pytest.mark.parametrize("kind", [Fenced, LocalError, RemoteError, StorageError, UserError])
def test_three_parts(kind: type[ShoalError]) -> None:
    """Each part on its own line; parts that are missing leave no line."""
    assert str(kind("it broke", detail="why", hint="mend it")) == (
        "it broke\n  detail: why\n  hint: mend it"
    )
    assert str(kind("it broke")) == "it broke"
    assert str(kind("it broke", hint="mend it")) == "it broke\n  hint: mend it"
    assert isinstance(kind("x"), ShoalError)


def test_a_place_in_a_text() -> None:
    """Where in the text, after what."""
    error = UserError("no such column", detail="kwhh", line=2, column=7)
    assert str(error) == "no such column (line 2, column 7)\n  detail: kwhh"
    assert str(UserError("odd", line=3)) == "odd (line 3, column 1)"
