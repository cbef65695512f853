"""Who this host is, and which of its lives this is.

The name and the mesh of a home are fixed when the home is first used. The incarnation is raised
and durable before anybody hears of it. It begins at the wall clock's seconds, so that a peer whose
disk was lost, and whose name the others still know, comes back with a higher one; after that it
only has to grow, whatever the clock says.

    host/name    host/mesh    host/incarnation    host/revocations
"""

from collections.abc import Mapping

from shoal.host.clock import wall_seconds
from shoal.host.disk.store import Store
from shoal.kernel.errors import UserError

__all__ = ["OWN", "begin", "of_machines"]

#: The first part of the keys that are the host's own.
OWN = "host/"


def begin(store: Store, *, name: str, mesh: str) -> int:
    """Check that the home is this peer's, and return the incarnation of this life, durable."""
    for key, value in (("host/name", name), ("host/mesh", mesh)):
        known = store.values.get(key)
        if known is not None and known.decode() != value:
            word = key.removeprefix(OWN)
            raise UserError(
                f"home belongs to {word} {known.decode()!r}, not {value!r}",
                detail=f"the {word} of a home never changes",
                hint=f"give --{'name' if word == 'name' else 'keys'} as before, or another --home",
            )
    last = int(store.values.get("host/incarnation", b"0"))
    incarnation = max(last + 1, wall_seconds())
    store.write(
        [
            ("host/name", name.encode()),
            ("host/mesh", mesh.encode()),
            ("host/incarnation", str(incarnation).encode()),
        ]
    )
    return incarnation


def of_machines(values: Mapping[str, bytes]) -> dict[str, bytes]:
    """What the machines of earlier lives stored."""
    return {key: value for key, value in values.items() if not key.startswith(OWN)}
