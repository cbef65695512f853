"""Events: what can happen to a peer."""

from typing import get_args

import msgspec
import pytest

from shoal.kernel import events
from shoal.kernel.events import Event


def test_the_union_names_every_event() -> None:
    """What is exported is what a peer has to take, and the union leaves none out."""
    kinds = [getattr(events, name) for name in events.__all__ if name not in ("AWAY", "Event")]
    assert sorted(map(repr, get_args(Event))) == sorted(map(repr, kinds))


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_every_event_is_explained_and_frozen(kind: type[msgspec.Struct]) -> None:
    """A line in the module's docstring; nobody changes an event that others may still read."""
    assert events.__doc__ is not None
    assert f"\n    {kind.__name__} " in events.__doc__
    assert kind.__struct_config__.frozen
