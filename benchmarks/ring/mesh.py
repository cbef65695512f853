"""A simulated ring, whole at its begin or formed by joins, and what is asked of it."""

from collections.abc import Sequence
from typing import Any

from benchmarks.harness import Bench
from shoal.control.directory.config import DirectoryConfig
from shoal.control.directory.machine import DirectoryMachine
from shoal.control.ring.config import RingConfig
from shoal.control.ring.join import Place
from shoal.control.ring.machine import RingMachine
from shoal.control.ring.messages import Located, Lookup
from shoal.control.ring.policy import stable_tables
from shoal.kernel.keys import Contact, key_of_name
from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND, Instant
from shoal.peer.machine import Machine
from shoal.peer.peer import Peer
from shoal.sim.checkers.checker import Checker
from shoal.sim.checkers.ring import RingChecker
from shoal.sim.network import Weather
from shoal.sim.node import UP, Node
from shoal.sim.world import World

SPAN_S = 600
CHURN_S = 6.0
PARTED_S = (270, 330)
LOOKUPS_PER_S = 20
EXCUSED_S = 30.0
SETTLE_S = 90
#: A ring that forms: a peer joins so often; then so much time before anything is asked.
JOIN = SECOND // 10
FORM_S = 120


class Counter:
    """Asks, and compares every answer with who really owns the key."""

    def __init__(self, bench: Bench, rng: Rng, case: str) -> None:
        self._bench = bench
        self._rng = rng
        self._case = case
        self._open: dict[int, tuple[Instant, bytes, str]] = {}
        self.world: World
        self.checker: RingChecker
        self.right = 0
        self.asked = 0
        self.hops: list[int] = []

    def ask(self) -> None:
        """One look-up of a random key by a random peer."""
        ready = [node for node in self.world.nodes if node.state == UP]
        key = key_of_name(f"{self._case} {self.asked}")
        request = self.world.ask(self._rng.choice(ready), Lookup(key), self)
        self._open[request] = self.world.now, key, self.checker.owner_of(key)
        self.asked += 1

    def again(self, until: Instant) -> None:
        """Now, and then at random instants."""
        if self.world.now < until:
            self.ask()
            wait = int(self._rng.exponential(SECOND / LOOKUPS_PER_S))
            self.world.call_in(1 + wait, self.again, until)

    def answered(self, node: Node, request: int, result: Any) -> None:
        """The world has an answer."""
        began, key, owned = self._open.pop(request)
        assert isinstance(result, Located)
        found = result.owner.name if result.owner is not None else ""
        # Who owned it when it was asked, or who does now: in between it may have changed hands.
        right = found in (owned, self.checker.owner_of(key))
        self.right += right
        self.hops.append(result.hops)
        self._bench.raw(
            case=self._case,
            at_s=began / SECOND,
            peer=node.name,
            key=key.hex(),
            found=found,
            right=right,
            hops=result.hops,
            took_ms=(self.world.now - began) / 1_000,
        )

    def lost(self, node: Node, request: int) -> None:
        """The peer that was asked is gone."""
        del self._open[request]

    @property
    def share(self) -> float:
        """Of all answers, how many were right."""
        return self.right / len(self.hops)

    @property
    def hops_mean(self) -> float:
        """Peers asked in a look-up, on average."""
        return sum(self.hops) / len(self.hops)


class Mesh:
    """A simulated ring: whole at its begin, or not `whole`, which means formed by joins."""

    def __init__(
        self,
        bench: Bench,
        peers: int,
        *,
        loss: float,
        case: str,
        beside: Sequence[Checker] = (),
        directory: bool = False,
        whole: bool = True,
    ) -> None:
        self.rng = Rng(peers, case)
        self._places: dict[str, Place] = {}
        self._directory = directory
        self.checker = RingChecker(bound_s=SETTLE_S, excused_s=EXCUSED_S)
        checkers = [self.checker, *beside]
        self.world = World(1, self._peer, weather=Weather(loss=loss), checkers=checkers)
        if whole:
            self._begin(peers)
        else:
            self._form(peers)
        self.counter = self.count(bench, case)

    def _begin(self, peers: int) -> None:
        """All at once, with the tables that a ring comes to which nobody disturbs."""
        nodes = [self.world.add_host() for _ in range(peers)]
        contacts = [Contact(node.name, node.address, 1) for node in nodes]
        self._places = stable_tables(contacts, RingConfig().successors_max)
        for node in nodes:
            self.world.start(node, [])
        self._places = {}

    def _form(self, peers: int) -> None:
        """One joins after the other; then time for fingers: each peer has looked all of them up."""
        world = self.world
        world.disturb("forming")
        for _ in range(peers):
            seeds = [node.address for node in self.rng.sample(world.running(), 3)]
            world.start(world.add_host(), seeds)
            world.run_for(JOIN)
        world.run_for(FORM_S * SECOND)
        world.undisturb("forming")

    def _peer(self, me: Contact, seeds: Any, rng: Rng) -> Peer:
        place = self._places.get(me.name)
        ring = RingMachine(me, RingConfig(seeds=tuple(seeds)), rng.split("ring"), place=place)
        machines: list[Machine] = [ring]
        if self._directory:
            machines.append(DirectoryMachine(me, DirectoryConfig(), rng.split("directory")))
        return Peer(me, machines, story_lines_max=100)

    def count(self, bench: Bench, case: str) -> Counter:
        """A new counter of look-ups."""
        counter = Counter(bench, self.rng.split("look-ups"), case)
        counter.world, counter.checker = self.world, self.checker
        return counter

    def churn(self, until: Instant) -> None:
        """One peer leaves, crashes or joins; again after a random wait."""
        world, rng = self.world, self.rng
        if world.now >= until:
            return
        fate = rng.below(3)
        running = world.running()
        if fate == 0:
            world.stop(rng.choice(running))
            world.mark("leave")
        elif fate == 1:
            world.crash(rng.choice(running))
            world.mark("crash for good")
        else:
            seeds = [node.address for node in rng.sample(running, 3)]
            world.start(world.add_host(), seeds)
            world.mark("join")
        world.call_in(1 + int(rng.exponential(CHURN_S * SECOND)), self.churn, until)

    def part(self) -> None:
        """A random half hears nothing of the other."""
        running = self.world.running()
        side = [node.index for node in self.rng.sample(running, len(running) // 2)]
        self.world.network.partition("half", side, one_way=False)
        self.world.disturb("partition")

    def heal(self) -> None:
        """The network is whole again."""
        self.world.network.heal("half")
        self.world.undisturb("partition")
        self.checker.calm()

    def storm(self, *, scale: int) -> float:
        """Churn, and a partition in the middle; the seconds that it took to be whole after that."""
        world = self.world
        until = SPAN_S // scale * SECOND
        world.call_in(SECOND, self.churn, until)
        world.run(PARTED_S[0] // scale * SECOND)
        self.part()
        world.run(PARTED_S[1] // scale * SECOND)
        self.heal()
        world.run(until)
        return self.checker.recovered_s

    def calm(self) -> float:
        """Faults end and everything settles; the seconds that it took."""
        self.world.network.calm(Weather())
        self.world.calm()
        self.world.run_for(SETTLE_S * SECOND)
        settled = self.checker.recovered_s
        self.world.settle()
        return settled
