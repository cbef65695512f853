"""What a machine is to its peer: what is written there is what peers and tests rely on."""

from shoal.peer.machine import Machine
from tests.casts.toy import Toy
from tests.checked import Checked


def test_the_protocol_is_small() -> None:
    """A name, two tables, and three verbs; nothing else may be expected of a machine."""
    names = [name for name in vars(Machine) if not name.startswith("_")]
    assert names == ["handle", "validate", "view"]
    assert list(Machine.__annotations__) == ["name", "messages", "questions"]


def test_a_machine_need_not_know_of_the_protocol() -> None:
    """Whatever has these is one, wrapped or not."""
    toy: Machine = Toy([])
    wrapped: Machine = Checked(toy)
    assert toy.name == wrapped.name == "toy"
    assert wrapped.messages == toy.messages
