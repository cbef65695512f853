"""All messages that cross the wire between peers, by tag: what each machine says, joined.

    0x01xx ring    0x02xx directory    0x03xx gossip    0x0fxx the host's own (hello, good-bye)

A tag is never used again for another message.
"""

from collections.abc import Mapping

from msgspec import Struct

from shoal.control.directory import messages as directory
from shoal.control.gossip import messages as gossip
from shoal.control.ring import messages as ring
from shoal.kernel.errors import LocalError

__all__ = ["MESSAGES", "RANGES", "joined"]

#: Which tags belong to whom: the upper byte of the tag.
RANGES: Mapping[int, str] = {0x01: "ring", 0x02: "directory", 0x03: "gossip", 0x0F: "host"}


def joined(tables: Mapping[str, Mapping[int, type[Struct]]]) -> dict[int, type[Struct]]:
    """One table of several, by owner; LocalError where a tag or a message is not its owner's."""
    table: dict[int, type[Struct]] = {}
    for owner, messages in tables.items():
        for tag, message in messages.items():
            if RANGES.get(tag >> 8) != owner:
                raise LocalError(f"tag {tag:#06x} of {message.__name__} is not one of {owner}")
            if tag in table or message in table.values():
                raise LocalError(f"message {message.__name__} or tag {tag:#06x} is there twice")
            table[tag] = message
    return table


#: The table of a whole peer.
MESSAGES: Mapping[int, type[Struct]] = joined(
    {"ring": ring.MESSAGES, "directory": directory.MESSAGES, "gossip": gossip.MESSAGES}
)
