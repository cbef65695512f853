"""Does the ring stay one ring under churn, loss and a partition, and what does it cost?

Everything runs in the simulator with its checker on (`sim/checkers/ring.py`): the lists of touched
neighbours at every event, all lists every simulated second, except while the network is parted and
`EXCUSED_S` after. A violation ends the run.

    churn    1,000 peers that begin in a whole ring. Ten minutes; every six seconds one peer leaves,
             crashes for good or joins (1 % a minute); one message in twenty is lost; from minute
             4.5 to 5.5 a random half hears nothing of the other. Look-ups of random keys all the
             time, 20 a second. Then faults end, and 90 s later 2,000 look-ups of random peers must
             be right, all of them.
    records  the same churn with a directory beside each ring, and its checker on (`records.py`).
             After it each record that should be there is asked for, and each that should not.
    sizes    10, 100, 1,000 and 10,000 peers in a whole ring that nobody disturbs: messages per peer
             and second in half a minute, and hops of 2,000 look-ups. Every message is counted,
             the look-ups' own only in the hops.

`recover_s` is the time from the end of the partition until predecessors and whole lists of all
peers were right at once, though peers go on leaving, crashing and joining meanwhile; `settle_s` the
same from the end of all faults. `events_per_s` is by the CPU time of the one process (other work on
the machine does not count), checks included; `events_per_wall_s` is by the clock on the wall, and
`wall_s` the wall time of the churn part.
"""

import math
import sys
import time
from collections.abc import Sequence

from benchmarks.harness import Bar, Bench, Options, columns, parse_options
from benchmarks.ring.mesh import EXCUSED_S, SPAN_S, Counter, Mesh
from benchmarks.ring.records import under_churn as records_under_churn
from shoal.kernel.time import SECOND

QUESTION = "does the ring stay one ring under churn, loss and a partition, and what does it cost?"
PEERS = 1_000
LOSS = 0.05
LOOKUPS = 2_000
FORMED = 200
SIZES = (10, 100, 1_000, 10_000)

BARS = (
    Bar(key="lookup_correct", at_least=1.0, at_most=1.0),
    Bar(key="hops_mean", at_most=0.5 * math.log2(PEERS) + 1),
    Bar(key="hops_over_bar", at_most=0.0),
    Bar(key="hops_mean_formed", at_most=0.5 * math.log2(FORMED) + 1),
    Bar(key="recover_s", at_most=EXCUSED_S),
    Bar(key="events_per_s", at_least=30_000),
    Bar(key="records_lost", at_most=0.0),
    Bar(key="records_doubled", at_most=0.0),
)


def under_churn(bench: Bench, options: Options) -> None:
    """The part `churn`."""
    peers, scale = (60, 10) if options.quick else (PEERS, 1)
    wall, cpu = time.perf_counter(), time.process_time()
    mesh = Mesh(bench, peers, loss=LOSS, case="churn")
    world = mesh.world
    world.call_in(SECOND, mesh.counter.again, SPAN_S // scale * SECOND)
    recover = mesh.storm(scale=scale)
    under = mesh.counter
    settle = mesh.calm()
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
    wall_s = time.perf_counter() - wall
    bench.key("events_per_s", [world.events / spent])
    bench.key("events_per_wall_s", [world.events / wall_s])
    bench.key("wall_s", [wall_s])


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
        counter = stable_lookups(mesh, options)
        speed = world.events / (time.process_time() - cpu)
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


def formed(bench: Bench, options: Options) -> None:
    """The part `formed`."""
    peers = 30 if options.quick else FORMED
    mesh = Mesh(bench, peers, loss=0.0, case="formed", whole=False)
    counter = stable_lookups(mesh, options)
    bench.row(part="formed", peers=peers, hops=counter.hops_mean, most=max(counter.hops))
    bench.key("hops_mean_formed", [counter.hops_mean])


def stable_lookups(mesh: Mesh, options: Options) -> Counter:
    """Look-ups in a ring that nobody disturbs: all of them are right."""
    for _ in range(LOOKUPS // (10 if options.quick else 1)):
        mesh.counter.ask()
        mesh.world.run_for(SECOND // 1_000)
    mesh.world.run_for(15 * SECOND)
    counter = mesh.counter
    assert counter.share == 1.0, f"{counter.right} of {len(counter.hops)} look-ups were right"
    return counter


def main(arguments: Sequence[str] | None = None) -> int:
    """All parts."""
    options = parse_options("ring", QUESTION, arguments)
    bench = Bench("ring", QUESTION, bars=BARS, options=options)
    if options.wants("formed"):
        formed(bench, options)
    if options.wants("sizes"):
        by_size(bench, options)
    if options.wants("churn"):
        under_churn(bench, options)
    if options.wants("records"):
        peers, scale = (60, 10) if options.quick else (PEERS, 1)
        records_under_churn(bench, peers, scale=scale, loss=LOSS)
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
