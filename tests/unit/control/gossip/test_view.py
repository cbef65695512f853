"""The view is a picture: it does not change when the machine does."""

from shoal.control.gossip.config import GossipConfig
from shoal.control.gossip.machine import GossipMachine
from shoal.control.gossip.messages import Broadcast
from shoal.control.gossip.view import GossipView
from shoal.kernel.events import Asked, Started, TimerFired
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng


def test_a_picture_of_one_peer() -> None:
    machine = GossipMachine(Contact("p1", "p1:1", 1), GossipConfig(), Rng(1))
    machine.handle(Started({}), 0)
    before = machine.view()
    machine.handle(Asked(1, Broadcast("query", "q1", b"x")), 0)
    assert machine.view().state == "holding"
    machine.handle(TimerFired("gossip/hold"), 1)
    after = machine.view()
    assert isinstance(after, GossipView)
    assert (before.facts, before.known, before.digest) == (0, (), 0)
    assert after.facts == 1
    assert [fact.key for fact in after.known] == ["q1"]
    assert after.state == "free"
