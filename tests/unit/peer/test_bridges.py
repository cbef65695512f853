"""Bridges: whom news concerns, word for word; and nobody waits for an answer that cannot come."""

import msgspec
from msgspec import Struct

from shoal.control.directory import messages as directory
from shoal.control.gossip import messages as gossip
from shoal.control.ring import messages as ring
from shoal.kernel.keys import Contact, key_of_name
from shoal.peer.bridges import heard_by

KEY = key_of_name("meters")
P1, P2, P3 = (Contact(f"p{number}", f"h:{number}", number) for number in (1, 2, 3))


class Unknown(Struct, frozen=True):
    """News of nobody."""


def test_the_table_of_the_ring_reaches_both() -> None:
    """The directory knows neighbours, gossip also fingers."""
    news = ring.TableChanged(P1, (P2, P3), (P3,))
    assert heard_by(news) == (
        ("directory", directory.Neighbours(P1, (P2, P3))),
        ("gossip", gossip.Routes(P1, (P2, P3), (P3,))),
    )


def test_a_lost_peer_is_lost_to_both() -> None:
    """A hint for one, a way less for the other."""
    assert heard_by(ring.PeerLost(P1)) == (
        ("directory", directory.OwnerLost(P1)),
        ("gossip", gossip.RouteLost(P1)),
    )


def test_an_owner_that_is_needed_is_found() -> None:
    """The token goes to the ring and comes back as it was, whatever is in it."""
    for token in ("17", "", "directory/17", "a/b"):
        ((hearer, find),) = heard_by(directory.NeedOwner(token, KEY))
        assert (hearer, type(find)) == ("ring", ring.Find)
        assert isinstance(find, ring.Find)
        for owner in (P1, None):
            found = ring.Found(find.token, find.key, owner, 3)
            assert heard_by(found) == (("directory", directory.OwnerFound(token, KEY, owner)),)


def test_an_answer_for_somebody_else_is_not_for_the_directory() -> None:
    """Askers are told apart by what stands in front of their tokens."""
    assert heard_by(ring.Found("compose/17", KEY, P1, 3)) == ()


def test_news_that_concerns_nobody() -> None:
    """Nobody hears it, and nothing breaks."""
    for news in (Unknown(), ring.Joined(), ring.PeerBack(P1)):
        assert heard_by(news) == ()


def test_every_bridge_leads_to_words_of_its_hearer() -> None:
    """What a machine hears is defined in its own messages, never in the teller's."""
    homes = {"ring": ring, "directory": directory, "gossip": gossip}
    for news in (
        ring.TableChanged(P1, (P2,), ()),
        ring.PeerLost(P1),
        ring.Found("directory/1", KEY, P1, 0),
        directory.NeedOwner("1", KEY),
    ):
        for hearer, event in heard_by(news):
            assert type(event).__module__ == homes[hearer].__name__
            assert type(event).__name__ in homes[hearer].__all__
            assert msgspec.structs.fields(event)
