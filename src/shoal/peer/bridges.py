"""Where two machines meet: whose news concerns whom, in that machine's own words.

    ring       TableChanged ──▶ directory Neighbours, gossip Routes
    ring       PeerLost ──────▶ directory OwnerLost, gossip RouteLost
    ring       Found ─────────▶ directory OwnerFound          if it was the directory that asked
    directory  NeedOwner ─────▶ ring Find

Machines of `control/` never import each other. This is the only file with the names of two. What
stands here translates and decides nothing.

A token that crosses the bridge carries the asker's name in front, so that an answer finds its way
back and no two askers can meet.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from shoal.control.directory import messages as directory
from shoal.control.gossip import messages as gossip
from shoal.control.ring import messages as ring

__all__ = ["heard_by"]

#: Events for siblings: the machine's name, and the event in its words.
Heard = Sequence[tuple[str, Struct]]

_NOBODY: Heard = ()
_DIRECTORY = "directory/"


def heard_by(news: Struct) -> Heard:
    """Who hears this news, and as what; news that concerns nobody here may still be a story."""
    bridge = _BRIDGES.get(type(news))
    return _NOBODY if bridge is None else bridge(news)


def _table_changed(news: ring.TableChanged) -> Heard:
    return (
        ("directory", directory.Neighbours(news.predecessor, news.successors)),
        ("gossip", gossip.Routes(news.predecessor, news.successors, news.fingers)),
    )


def _peer_lost(news: ring.PeerLost) -> Heard:
    return (
        ("directory", directory.OwnerLost(news.peer)),
        ("gossip", gossip.RouteLost(news.peer)),
    )


def _need_owner(news: directory.NeedOwner) -> Heard:
    return (("ring", ring.Find(_DIRECTORY + news.token, news.key)),)


def _found(news: ring.Found) -> Heard:
    if not news.token.startswith(_DIRECTORY):
        return _NOBODY
    token = news.token.removeprefix(_DIRECTORY)
    return (("directory", directory.OwnerFound(token, news.key, news.owner)),)


_BRIDGES: dict[type[Struct], Callable[[Any], Heard]] = {
    ring.TableChanged: _table_changed,
    ring.PeerLost: _peer_lost,
    ring.Found: _found,
    directory.NeedOwner: _need_owner,
}
