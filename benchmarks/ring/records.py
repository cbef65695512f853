"""Is a record lost or doubled while the ring goes through churn, loss and a partition?

Every peer publishes two records when it starts, and every second a peer withdraws one and
publishes another. The checker of the directory watches, and knows from the owners' questions and
answers what must be there (`sim/checkers/directory.py`). What is counted at the end is asked of
random peers: each record of each living owner, which must be found once, and each that was
withdrawn or whose owner has ended, which must not be found when every lease has run out.
"""

from typing import Any

from benchmarks.harness import Bench
from benchmarks.ring.mesh import SETTLE_S, SPAN_S, Mesh
from shoal.control.directory.messages import (
    Find,
    Found,
    Publish,
    Record,
    StreamRecord,
    Withdraw,
    ident_of,
)
from shoal.kernel.keys import key_of_name
from shoal.kernel.time import SECOND, Instant
from shoal.sim.checkers.checker import Checker
from shoal.sim.checkers.directory import DirectoryChecker
from shoal.sim.node import UP, Node

__all__ = ["under_churn"]

RECORDS = 2
CHANGES_PER_S = 1
FINDS_PER_S = 10
#: Between two questions of the last count.
_PAUSE = SECOND // 200


class Owners(Checker):
    """Publishes for every peer that starts, and keeps what must be found in the end."""

    name = "owners"

    def __init__(self) -> None:
        self.mesh: Mesh
        #: What each running host owns now, and what must not be found any more.
        self.owned: dict[Node, list[Record]] = {}
        self.over: list[Record] = []
        self.made = 0
        self.found = self.asked = 0
        self._open: dict[int, Record] = {}

    def up(self, node: Node) -> None:
        self.owned[node] = []
        self.world.call_in(SECOND, self._begin, node, node.starts)

    def down(self, node: Node) -> None:
        self.over += self.owned.pop(node, [])

    def _begin(self, node: Node, starts: int) -> None:
        if node.state == UP and node.starts == starts:
            self.publish(node, RECORDS)

    def publish(self, node: Node, count: int) -> None:
        """It owns some more."""
        made = []
        for _ in range(count):
            self.made += 1
            key = key_of_name(f"stream {self.made}")
            made.append(StreamRecord(key, node.contact, f"ingest-{self.made}"))
        self.owned[node] += made
        self.world.ask(node, Publish(tuple(made)), self)

    def change(self, until: Instant) -> None:
        """One withdraws a record and publishes another; again after a random wait."""
        if self.world.now < until:
            node = self.mesh.rng.choice([node for node, owned in self.owned.items() if owned])
            if node.state == UP:
                gone = self.owned[node].pop(0)
                self.over.append(gone)
                self.world.ask(node, Withdraw((ident_of(gone),)), self)
                self.publish(node, 1)
            wait = int(self.mesh.rng.exponential(SECOND / CHANGES_PER_S))
            self.world.call_in(1 + wait, self.change, until)

    def find(self, until: Instant) -> None:
        """One looks for a record of somebody; again after a random wait."""
        if self.world.now < until:
            owned = [owned for owned in self.owned.values() if owned]
            self.look_for(self.mesh.rng.choice(self.mesh.rng.choice(owned)))
            wait = int(self.mesh.rng.exponential(SECOND / FINDS_PER_S))
            self.world.call_in(1 + wait, self.find, until)

    def look_for(self, record: Record) -> None:
        """A random peer looks for it."""
        ready = [node for node in self.world.nodes if node.state == UP]
        request = self.world.ask(self.mesh.rng.choice(ready), Find(record.key), self)
        self._open[request] = record

    def answered(self, node: Node, request: int, result: Any) -> None:
        """The world has an answer."""
        record = self._open.pop(request, None)
        if record is not None:
            self.asked += 1
            self.found += isinstance(result, Found) and record in result.records

    def lost(self, node: Node, request: int) -> None:
        """The peer that was asked is gone."""
        self._open.pop(request, None)


class Count:
    """What is found when everything has settled."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self._open: dict[int, tuple[Record, bool]] = {}
        self.lost_records = self.doubled = self.asked = 0

    def ask_all(self) -> None:
        """One question for each record, of a random peer; then wait for the answers."""
        owners = self._owners
        world = owners.world
        there = [record for owned in owners.owned.values() for record in owned]
        asked = [*((record, True) for record in there), *((one, False) for one in owners.over)]
        for record, wanted in asked:
            node = owners.mesh.rng.choice(world.running())
            self._open[world.ask(node, Find(record.key), self)] = record, wanted
            world.run_for(_PAUSE)
        world.run_for(15 * SECOND)
        self.lost_records += sum(wanted for _, wanted in self._open.values())

    def answered(self, node: Node, request: int, result: Any) -> None:
        """The world has an answer."""
        record, wanted = self._open.pop(request)
        self.asked += 1
        times = 0
        if isinstance(result, Found):
            times = sum(ident_of(one) == ident_of(record) for one in result.records)
        self.lost_records += wanted and times == 0
        self.doubled += times > wanted

    def lost(self, node: Node, request: int) -> None:
        """Nobody ends any more."""
        raise AssertionError(f"{node.name} has ended")


def under_churn(bench: Bench, peers: int, *, scale: int, loss: float) -> None:
    """The part `records`."""
    owners = Owners()
    checker = DirectoryChecker()
    mesh = Mesh(bench, peers, loss=loss, case="records", beside=[checker, owners], directory=True)
    owners.mesh = mesh
    until = SPAN_S // scale * SECOND
    mesh.world.call_in(2 * SECOND, owners.change, until)
    mesh.world.call_in(5 * SECOND, owners.find, until)
    mesh.storm(scale=scale)
    mesh.calm()
    mesh.world.run_for(SETTLE_S * SECOND)
    count = Count(owners)
    count.ask_all()
    mesh.world.finish()
    figures = checker.figures()
    now = sum(map(len, owners.owned.values()))
    bench.row(part="records", made=owners.made, now=now, withdrawn=len(owners.over))
    bench.row(part="records", finds_judged=figures["finds_judged"], events=mesh.world.events)
    bench.key("records", [now])
    bench.key("records_lost", [count.lost_records])
    bench.key("records_doubled", [count.doubled])
    bench.key("records_found_under_faults", [owners.found / owners.asked])
