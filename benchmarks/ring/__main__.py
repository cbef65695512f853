"""Does the ring stay one ring under churn, loss and a partition, and what does it cost?

Everything runs in the simulator with its checker on (`sim/checkers/ring.py`): the lists of touched
neighbours at every event, all lists every simulated second, except while the network is parted and
`EXCUSED_S` after. A violation ends the run.

    churn    1,000 peers that begin in a whole ring. Ten minutes; every six seconds one peer leaves,
             crashes for good or joins (1 % a minute); one message in twenty is lost; from minute
             4.5 to 5.5 a random half hears nothing of the other. Look-ups of random keys all the
             time, 20 a second. Then faults end, and 90 s later 2,000 look-ups of random peers must
             be right, all of them.
    sizes    10, 100, 1,000 and 10,000 peers in a whole ring that nobody disturbs: messages per peer
             and second in half a minute, and hops of 2,000 look-ups. Every message is counted,
             the look-ups' own only in the hops.

`recover_s` is the time from the end of the partition until predecessors and whole lists of all
peers were right at once, though peers go on leaving, crashing and joining meanwhile; `settle_s` the
same from the end of all faults. `events_per_s` is by the CPU time of the one process (other work on
the machine does not count), checks included; `wall_s` is the wall time of the churn part.
"""

import math
import sys
import time
from typing import Any

from benchmarks.harness import Bar, Bench, Options, columns, parse_options
from shoal.control.ring.config import RingConfig
from shoal.control.ring.join import Place
from shoal.control.ring.machine import RingMachine
from shoal.control.ring.messages import Located, Lookup
from shoal.control.ring.policy import stable_tables
from shoal.kernel.keys import Contact, key_of_name
from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND, Instant
from shoal.peer.peer import Peer
from shoal.sim.checkers.ring import RingChecker
from shoal.sim.network import Weather
from shoal.sim.node import UP, Node
from shoal.sim.world import World

QUESTION = "does the ring stay one ring under churn, loss and a partition, and what does it cost?"
PEERS = 1_000
SPAN_S = 600
CHURN_S = 6.0
PARTED_S = (270, 330)
LOSS = 0.05
LOOKUPS_PER_S = 20
LOOKUPS = 2_000
EXCUSED_S = 30.0
SETTLE_S = 90
SIZES = (10, 100, 1_000, 10_000)

BARS = (
    Bar(key="lookup_correct", at_least=1.0, at_most=1.0),
    Bar(key="hops_mean", at_most=0.5 * math.log2(PEERS) + 1),
    Bar(key="hops_over_bar", at_most=0.0),
    Bar(key="recover_s", at_most=EXCUSED_S),
    Bar(key="events_per_s", at_least=30_000),
)


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
    """A simulated ring that is whole at its begin."""

    def __init__(self, bench: Bench, peers: int, *, loss: float, case: str) -> None:
        self.rng = Rng(peers, case)
        self._places: dict[str, Place] = {}
        self.checker = RingChecker(bound_s=SETTLE_S, excused_s=EXCUSED_S)
        self.world = World(1, self._peer, weather=Weather(loss=loss), checkers=[self.checker])
        nodes = [self.world.add_host() for _ in range(peers)]
        contacts = [Contact(node.name, node.address, 1) for node in nodes]
        self._places = stable_tables(contacts, RingConfig().successors_max)
        for node in nodes:
            self.world.start(node, [])
        self._places = {}
        self.counter = self.count(bench, case)

    def _peer(self, me: Contact, seeds: Any, rng: Rng) -> Peer:
        place = self._places.get(me.name)
        ring = RingMachine(me, RingConfig(seeds=tuple(seeds)), rng.split("ring"), place=place)
        return Peer(me, [ring], story_lines_max=100)

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


def under_churn(bench: Bench, options: Options) -> None:
    """The part `churn`."""
    peers, scale = (60, 10) if options.quick else (PEERS, 1)
    wall, cpu = time.perf_counter(), time.process_time()
    mesh = Mesh(bench, peers, loss=LOSS, case="churn")
    world = mesh.world
    until = SPAN_S // scale * SECOND
    world.call_in(SECOND, mesh.churn, until)
    world.call_in(SECOND, mesh.counter.again, until)
    world.run(PARTED_S[0] // scale * SECOND)
    mesh.part()
    world.run(PARTED_S[1] // scale * SECOND)
    mesh.heal()
    world.run(until)
    recover = mesh.checker.recovered_s
    under = mesh.counter
    mesh.checker.calm()
    world.network.calm(Weather())
    world.calm()
    world.run_for(SETTLE_S * SECOND)
    settle = mesh.checker.recovered_s
    world.settle()
    final = mesh.count(bench, "settled")
    for _ in range(LOOKUPS // scale):
        final.ask()
        world.run_for(SECOND // 100)
    world.run_for(15 * SECOND)
    world.finish()
    spent = time.process_time() - cpu
    joins, gone = world.probes["join"], world.probes["leave"] + world.probes["crash for good"]
    bench.row(part="churn", peers=peers, joined=joins, gone=gone, now=len(world.running()))
    bench.row(part="churn", lists_checked=mesh.checker.checks, events=world.events)
    bench.row(part="churn", lookups=len(under.hops), right_under_faults=under.share)
    bench.key("peers", [peers])
    bench.key("lookup_correct", [final.right / (LOOKUPS // scale)])
    bench.key("lookup_correct_under_faults", [under.share])
    bench.key("recover_s", [recover if recover >= 0 else math.inf])
    bench.key("settle_s", [settle if settle >= 0 else math.inf])
    bench.key("events_per_s", [world.events / spent])
    bench.key("wall_s", [time.perf_counter() - wall])


def by_size(bench: Bench, options: Options) -> None:
    """The part `sizes`."""
    sizes = SIZES[:2] if options.quick else SIZES
    over = -math.inf
    lines = [("peers", "messages/peer/s", "hops", "most", "bar", "events/s")]
    for peers in sizes:
        cpu = time.process_time()
        mesh = Mesh(bench, peers, loss=0.0, case=f"size {peers}")
        world = mesh.world
        world.run_for(20 * SECOND)
        before = world.messages
        world.run_for(30 * SECOND)
        rate = (world.messages - before) / 30 / peers
        for _ in range(LOOKUPS // (10 if options.quick else 1)):
            mesh.counter.ask()
            world.run_for(SECOND // 1_000)
        world.run_for(15 * SECOND)
        speed = world.events / (time.process_time() - cpu)
        counter = mesh.counter
        assert counter.share == 1.0, f"{counter.right} of {len(counter.hops)} look-ups were right"
        bar = 0.5 * math.log2(peers) + 1
        over = max(over, counter.hops_mean - bar)
        bench.row(part="sizes", peers=peers, messages_per_peer_s=rate, hops=counter.hops_mean)
        cells = (rate, counter.hops_mean, max(counter.hops), bar, speed)
        lines.append((f"{peers:,}", *(f"{cell:.4g}" for cell in cells)))
        bench.key(f"messages_per_peer_s_{peers}", [rate])
        bench.key(f"hops_mean_{peers}", [counter.hops_mean])
        if peers == PEERS or options.quick:
            bench.key("hops_mean", [counter.hops_mean])
    bench.key("hops_over_bar", [over])
    bench.say(columns(lines))


def main() -> int:
    """Both parts."""
    options = parse_options("ring", QUESTION)
    bench = Bench("ring", QUESTION, bars=BARS, options=options)
    if options.wants("sizes"):
        by_size(bench, options)
    if options.wants("churn"):
        under_churn(bench, options)
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
