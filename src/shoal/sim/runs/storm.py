"""The storm: when each fault of a scenario strikes, whom, and that it ends.

It keeps to what the promises allow: never more hosts lost at once, within the time that repair
takes, than the scenario says (`losses_max`), and never fewer peers than the stable base. When
faults end (`calm`), whatever was bent is straight again: who was paused goes on, who was to come
back comes back, links are open.

Not here   what each kind of fault does (`faults.py`).
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from shoal.kernel.rng import Rng
from shoal.kernel.time import SECOND, Instant
from shoal.sim.network import Weather
from shoal.sim.node import PAUSED, UP, Node
from shoal.sim.world import World

__all__ = ["WRITE", "Storm", "Strike"]

#: Addresses through which a peer joins; a person would give two or three.
_SEEDS = 3
#: How often disks are copied, for restarts with an old one.
_BACKUP = 40 * SECOND
#: What faults that lie in wait for a write have as `after`.
WRITE = "write"


class Strike(Protocol):
    """A fault as the storm needs it; `faults.py` has the kinds."""

    @property
    def at_s(self) -> tuple[float, ...]:
        """Seconds after faults begin at which it strikes."""
        ...

    @property
    def every_s(self) -> float:
        """The mean of random waits between strikes; 0 is never."""
        ...

    @property
    def after(self) -> str:
        """The question that it lies in wait for."""
        ...

    @property
    def chance(self) -> float:
        """How likely it then strikes."""
        ...

    def strike(self, storm: "Storm") -> None:
        """Do it."""
        ...


class Storm:
    """Faults under way in one world."""

    def __init__(
        self,
        world: World,
        rng: Rng,
        *,
        weather: Weather,
        peers_min: int,
        losses_max: int,
        repair: int,
        hooks: Mapping[str, Callable[[Any], bool]] | None = None,
    ) -> None:
        self.world = world
        self.rng = rng
        #: The weather of the scenario, to which faults that change it return.
        self.weather = weather
        self.hooks = hooks or {}
        self._peers_min = peers_min
        self._losses_max = losses_max
        self._repair = repair
        #: Instants of the last losses of peers.
        self._losses: deque[Instant] = deque()
        self._until: Instant = 0
        self._over = True
        self._triggered: list[Strike] = []
        #: The host that a fault lay in wait for.
        self._aim: Node | None = None
        #: Hosts that are down and will come back: how to start them.
        self._coming_back: dict[int, Callable[[], None]] = {}
        #: Faults that are on: how to end each, by number.
        self._on: dict[int, Callable[[], None]] = {}
        self._number = 0

    # --- when -----------------------------------------------------------------------------------

    def begin(self, faults: Sequence[Strike], until: Instant) -> None:
        """Let these faults strike from now on until that instant."""
        self._until = until
        self._over = False
        self.world.on_write = self.writing
        self._back_up()
        for fault in faults:
            for at_s in fault.at_s:
                self.world.call_in(int(at_s * SECOND), self._strike, fault, False)
            if fault.every_s:
                self.world.call_in(self._wait(fault), self._strike, fault, True)
            if fault.after:
                self._triggered.append(fault)

    def _back_up(self) -> None:
        """Keep a copy of every disk: what a restart with an old disk will find."""
        for node in self.world.nodes:
            node.disk.remember()
        if not self._over:
            self.world.call_in(_BACKUP, self._back_up)

    def asked(self, question: str) -> None:
        """Somebody was asked this just now: faults may lie in wait for it."""
        for fault in self._triggered:
            if fault.after == question and not self._over and self.rng.chance(fault.chance):
                self.world.call_in(self.rng.below(SECOND // 5), self._strike, fault, False)

    def writing(self, node: Node, took: int) -> None:
        """A write begins on a host: faults that lie in wait for it strike there before it ends."""
        for fault in self._triggered:
            if fault.after == WRITE and not self._over and self.rng.chance(fault.chance):
                self.world.call_in(self.rng.below(took), self._strike_at, fault, node)

    def _strike_at(self, fault: Strike, node: Node) -> None:
        self._aim = node
        self._strike(fault, False)
        self._aim = None

    def _strike(self, fault: Strike, again: bool) -> None:  # noqa: FBT001 (called by the world)
        if self._over or self.world.now >= self._until:
            return
        fault.strike(self)
        if again:
            self.world.call_in(self._wait(fault), self._strike, fault, True)

    def _wait(self, fault: Strike) -> int:
        return 1 + int(self.rng.exponential(fault.every_s * SECOND))

    # --- whom -----------------------------------------------------------------------------------

    def victims(self, count: int, who: str) -> list[Node]:
        """Peers that are up: any, or neighbours on the ring."""
        if self._aim is not None:
            return [self._aim] if self._aim.state == UP else []
        nodes = [node for node in self.world.nodes if node.state == UP]
        if who == "any":
            return self.rng.sample(nodes, count)
        nodes.sort(key=lambda node: node.contact.key)
        if not nodes:
            return []
        first = self.rng.below(len(nodes))
        return [nodes[(first + i) % len(nodes)] for i in range(min(count, len(nodes)))]

    def may_lose(self, count: int) -> bool:
        """Whether so many may end now without breaking what promises presuppose."""
        now = self.world.now
        while self._losses and self._losses[0] <= now - self._repair:
            self._losses.popleft()
        if len(self._losses) + count > self._losses_max:
            return False
        return len(self.world.running()) - count >= self._peers_min

    def lost(self, count: int) -> None:
        """So many have ended."""
        self._losses.extend([self.world.now] * count)

    def seeds(self, newcomer: Node | None = None) -> list[str]:
        """Addresses of some peers that run, through which another joins."""
        nodes = [node for node in self.world.running() if node is not newcomer]
        return [node.address for node in self.rng.sample(nodes, _SEEDS)]

    # --- what ends again ------------------------------------------------------------------------

    def bring_back(self, node: Node, wait: int, prepare: Callable[[Node], None]) -> None:
        """Start a peer on this host after a while."""

        def start() -> None:
            if self._coming_back.pop(node.index, None) is not None and not node.running:
                self.world.crash(node)  # one that still writes its last words
                prepare(node)
                self.world.start(node, self.seeds())
                self.world.mark("restart")

        self._coming_back[node.index] = start
        self.world.call_in(wait, start)

    def turn_on(self, fault: str, span: int, end: Callable[[], None]) -> None:
        """A fault that lasts: it is on now, and `end` will undo it."""
        self._number += 1
        number = self._number
        self.world.disturb(fault)

        def finish() -> None:
            if self._on.pop(number, None) is not None:
                end()
                self.world.undisturb(fault)

        self._on[number] = finish
        self.world.call_in(span, finish)

    def calm(self, weather: Weather) -> None:
        """Faults are over: undo all that is still on."""
        self._over = True
        for finish in list(self._on.values()):
            finish()
        self.world.network.calm(weather)
        for node in self.world.nodes:
            if node.state == PAUSED:
                self.world.resume(node)
            self.world.slow_down(node, 0)
        for start in list(self._coming_back.values()):
            start()
