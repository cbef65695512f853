"""Does a broadcast reach every living peer, and how many messages does it take?

A ring of 1,024 peers with random keys, successor lists of 16 and fingers, all right while nobody
is dead. Then 5, 10, 20 and 40 % die at once, and nobody repairs a table or tells anybody. Shoal's
side is the real machine of `control/gossip`, message by message, each taking 20 ms; comparison
of stores is put off, so only spreading counts. Beside it the paper's methods (DHTJoin: finger
flooding, its reductions and the readings of its optimisation) and interval partition without
repair, over the same tables, with the same dead.

`messages` are those that carry the facts, to living or dead; Shoal's acknowledgements, one for
each interval taken over, are counted beside them (`acks`). The paper's methods have none.
"""

import statistics
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace

from benchmarks.harness import Bar, Bench, Options, parse_options
from shoal.control.gossip.config import GossipConfig
from shoal.control.gossip.messages import Broadcast
from shoal.kernel.keys import key_of_name
from shoal.kernel.rng import Rng
from shoal.kernel.time import HOUR, MINUTE, SECOND
from shoal.sim.baselines.dhtjoin import METHODS, flood, partition
from shoal.sim.baselines.still import Still, tables_of

QUESTION = "does a broadcast reach every living peer, and how many messages does it take?"
PEERS = 1_024
SUCCESSORS = 16
DEAD = (5, 10, 20, 40)
REPEATS = 20
LOSS = 0.05
LOSSY = "shoal, 5 % of messages lost"
#: Comparison would fill gaps that spreading leaves; here it must not: it comes after a lifetime.
LONG = 1_000_000 * HOUR
CONFIG = replace(GossipConfig(), compare_every_us=LONG, removed_life_us=30 * LONG)

BARS = (
    Bar(key="messages_1024", at_least=1_023, at_most=1_023),
    Bar(key="hops_1024", at_most=10),
    Bar(key="reached_0", at_least=1.0),
    *(Bar(key=f"reached_{percent}", at_least=1.0) for percent in DEAD),
)


class Figures:
    """What was measured, by method and percent dead."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], list[Mapping[str, float]]] = {}

    def add(self, method: str, percent: int, **values: float) -> None:
        self._found.setdefault((method, percent), []).append(values)

    def of(self, method: str, percent: int, name: str) -> list[float]:
        return [values[name] for values in self._found[method, percent]]

    def middle(self, method: str, percent: int, name: str) -> float:
        """The median of all rings: what every figure is, unless it says otherwise."""
        return statistics.median(self.of(method, percent, name))

    def methods(self) -> list[str]:
        return list(dict.fromkeys(method for method, _ in self._found))


def names_of(peers: int, repeat: int) -> list[str]:
    """The peers of one repeat: other names, other places."""
    return [f"r{repeat}p{number}" for number in range(peers)]


def dead_of(peers: int, percent: int, repeat: int) -> tuple[int, dict[int, None]]:
    """Who asks, and who is dead, by place in the ring's order."""
    rng = Rng(repeat, f"dead/{percent}")
    places = rng.sample(range(peers), peers)
    return places[0], dict.fromkeys(places[1 : 1 + round(peers * percent / 100)])


def shoal(
    peers: int, percent: int, repeat: int, figures: Figures, *, loss: float = 0.0
) -> Mapping[str, float]:
    """One broadcast of the real machine; every peer's store is looked at in the end."""
    still = Still(names_of(peers, repeat), successors=SUCCESSORS, seed=repeat, config=CONFIG)
    still.settle()
    origin, dead = dead_of(peers, percent, repeat)
    for place in dead:
        still.dead[still.contacts[place].name] = None
    still.loss = loss
    began = still.now + CONFIG.batch_us
    still.ask(still.contacts[origin].name, Broadcast("query", "q1", b"select"))
    still.run(still.now + 5 * MINUTE)
    if still.sent["Compare"]:
        raise RuntimeError("stores were compared: gaps would not show")
    name = ("query", "q1")
    holding = sum(name in still.facts(peer) for peer in still.living)
    times = sorted(at - began for at in still.reached_at.values())
    values = {
        "reached": holding / len(still.living),
        "messages": still.sent["Spread"],
        "acks": still.sent["Taken"],
        "hops": max(still.hops.values()),
        "seconds": times[-1] / SECOND,
        "seconds_99": times[len(times) * 99 // 100] / SECOND,
    }
    figures.add(LOSSY if loss else "shoal", percent, **values)
    return values


def baselines(peers: int, percent: int, repeat: int, figures: Figures) -> None:
    """The paper's methods over the same tables, with the same dead."""
    keys = sorted(key_of_name(name) for name in names_of(peers, repeat))
    tables = tables_of(keys, SUCCESSORS)
    origin, dead = dead_of(peers, percent, repeat)
    outcomes = {
        method: flood(tables, method, origin=origin, dead=dead, rng=Rng(repeat, method))
        for method in METHODS
    }
    outcomes["partition, no repair"] = partition(tables, origin=origin, dead=dead)
    for method, outcome in outcomes.items():
        figures.add(
            method,
            percent,
            reached=outcome.hit,
            messages=outcome.messages,
            redundant=outcome.redundant,
            hops=outcome.hops,
        )


def by_method(figures: Figures) -> dict[str, dict[str, float]]:
    """What the page about gossip shows of each method: medians, and the reach of the worst ring."""
    found = {}
    for method in figures.methods():
        if method == LOSSY:
            continue
        cells = {name: figures.middle(method, 0, name) for name in ("messages", "hops")}
        reached = {f"reached_{n}": min(figures.of(method, n, "reached")) for n in DEAD}
        found[method] = {**cells, **{name: round(value, 4) for name, value in reached.items()}}
    return found


def lines(figures: Figures, peers: int, repeats: int) -> Iterator[str]:
    """Two tables for people: nobody dead, and what is reached as more are dead."""
    yield f"nobody dead, {repeats} rings of {peers} peers, medians:"
    yield f"  {'method':22s} {'reached':>8s} {'messages':>9s} {'hops':>7s}"
    for method in figures.methods():
        reached, messages, hops = (
            figures.middle(method, 0, name) for name in ("reached", "messages", "hops")
        )
        yield f"  {method:22s} {reached:8.4f} {messages:9.1f} {hops:7.1f}"
    yield "share of the living that is reached, median (worst), tables not repaired:"
    head = "".join(f"{f'{percent} % dead':>20s}" for percent in DEAD)
    yield f"  {'method':22s}{head}"
    for method in figures.methods():
        if method == LOSSY:
            continue
        cells = ""
        for percent in DEAD:
            found = figures.of(method, percent, "reached")
            cells += f"{f'{statistics.median(found):.4f} ({min(found):.4f})':>20s}"
        yield f"  {method:22s}{cells}"
    yield "what repair takes (shoal), medians:"
    for percent in (0, *DEAD):
        messages, acks, seconds, most = (
            figures.middle("shoal", percent, name)
            for name in ("messages", "acks", "seconds", "seconds_99")
        )
        yield (
            f"  {percent:2d} % dead: {messages:.0f} messages, {acks:.0f} acks, "
            f"99 % reached after {most:.2f} s, all after {seconds:.2f} s"
        )


def main(options: Options) -> int:
    bench = Bench("gossip", QUESTION, BARS, options)
    peers, repeats = (128, 2) if options.quick else (PEERS, REPEATS)
    figures = Figures()
    for repeat in range(1, repeats + 1):
        for percent in (0, *DEAD):
            values = shoal(peers, percent, repeat, figures)
            baselines(peers, percent, repeat, figures)
            bench.row(repeat=repeat, dead=percent, **values)
        bench.row(repeat=repeat, loss=LOSS, **shoal(peers, 0, repeat, figures, loss=LOSS))
    bench.key("messages_1024", figures.of("shoal", 0, "messages"))
    bench.key("acks_1024", figures.of("shoal", 0, "acks"))
    bench.key("hops_1024", figures.of("shoal", 0, "hops"))
    for percent in (0, *DEAD):
        # The worst ring decides: a median would hide a peer that was missed.
        bench.key(f"reached_{percent}", [min(figures.of("shoal", percent, "reached"))])
        bench.key(f"messages_{percent}_dead", figures.of("shoal", percent, "messages"))
        bench.key(f"seconds_{percent}_dead", figures.of("shoal", percent, "seconds"))
    # Spreading alone: what it leaves out under loss is what comparison is for.
    bench.key("spread_with_loss", figures.of(LOSSY, 0, "reached"))
    bench.key("messages_with_loss", figures.of(LOSSY, 0, "messages"))
    fingers = figures.middle("m fingers", 0, "messages")
    bench.key("paper_ratio", [fingers / figures.middle("shoal", 0, "messages")])
    worst = {str(n): min(figures.of("shoal", n, "reached")) for n in (0, *DEAD)}
    bench.table("reached", worst)
    bench.table("methods", by_method(figures))
    for line in lines(figures, peers, repeats):
        bench.say(line)
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main(parse_options("gossip", QUESTION)))
