"""The cast `peer`: whole peers, with ring, directory and gossip, as a host runs them.

`start p2 join=p1` joins through p1's address. Names of keys are names of streams.
"""

from collections.abc import Callable, Mapping, Sequence

from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.peer.build import PeerConfig, build_machines
from shoal.peer.machine import Machine
from tests.scripts import Cast


def build(
    me: Contact, rng: Rng, options: Mapping[str, str], contact: Callable[[str], Contact]
) -> Sequence[Machine]:
    """A peer of all machines."""
    seeds = [contact(name).address for name in options.get("join", "").split(",") if name]
    return build_machines(me, PeerConfig().joining(*seeds), rng)


CAST = Cast(build=build)
