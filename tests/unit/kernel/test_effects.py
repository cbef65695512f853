"""Effects: what a host is asked for."""

from typing import get_args

import msgspec
import pytest

from shoal.kernel import effects
from shoal.kernel.effects import Effect, Persist, Send, SetTimer
from shoal.kernel.keys import Contact


def test_the_union_names_every_effect() -> None:
    """What is exported is what a host has to know, and the union leaves none out."""
    kinds = [getattr(effects, name) for name in effects.__all__ if name != "Effect"]
    assert sorted(map(repr, get_args(Effect))) == sorted(map(repr, kinds))


@pytest.mark.parametrize("kind", get_args(Effect), ids=lambda kind: kind.__name__)
def test_every_effect_is_explained_and_frozen(kind: type[msgspec.Struct]) -> None:
    """A line in the module's docstring; nobody changes an effect on its way to the host."""
    assert effects.__doc__ is not None
    assert f"\n    {kind.__name__} " in effects.__doc__
    assert kind.__struct_config__.frozen


def test_effects_compare_by_value() -> None:
    """Tests say what they expect by writing it down."""
    peer = Contact("p1", "h:1", 1)
    assert SetTimer("a/b", 5) == SetTimer("a/b", 5) != SetTimer("a/b", 6)
    assert Send(peer, Persist("a", None)) == Send(Contact("p1", "h:1", 1), Persist("a", None))
