"""A read-only picture of one directory, for people, tests and checkers."""

from msgspec import Struct

from shoal.control.directory.messages import Ident, Version
from shoal.kernel.keys import Contact, Key

__all__ = ["DirectoryView", "Held"]


class Held(Struct, frozen=True):
    """One item as a keeper or a replica holds it; `left` is what its lease still has."""

    ident: Ident
    version: Version
    state: int
    left: int


class DirectoryView(Struct, frozen=True):
    """What a directory is about."""

    #: Its state, and its range (low, own key]; low is empty where the range is not known.
    state: str
    low: Key
    backups: tuple[Contact, ...]
    #: Items held: alive, withdrawn, expired.
    live: int
    withdrawn: int
    expired: int
    #: Records of its own, and those that are on their way to their keepers.
    own: int
    unsettled: int
    #: Questions and exchanges under way.
    searches: int
    stores: int
    copies: int
    comparisons: int
    routes: int
    lookups: int
    watches: int
    followers: int
