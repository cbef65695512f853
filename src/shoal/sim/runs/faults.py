"""The kinds of faults, one class each; a scenario file names them by `kind`.

When a fault strikes is the same for all: at given seconds (`at_s`), again and again (`every_s`, the
mean of random waits), soon after peers were asked something (`after = "Publish"`, with a `chance`),
or while a host is writing, and then there (`after = "write"`).

    crash       a process is gone; it comes back with the same, an empty or an old disk, as
                another peer, or never
    leave       a peer ends in good order, and may come back
    join        a new host starts a peer
    churn       one of the three above, at random
    pause       a process stands still and goes on: garbage collection, SIGSTOP, a frozen machine
    slow        every event takes its time
    clog        one direction of a link, or a pair, holds back what is sent
    swizzle     links of some hosts clog one after another and open in another order
    partition   two sides do not hear each other; or one does not hear the other
    isolate     a partition with one host on one side
    weather     other rates of loss, duplicates, reordering, heavy tails for a while
    clock       a clock leaps, forward or back, or drifts
    corrupt     the state of a machine is damaged through a named hook (`hooks.py`)

Each that really happened counts as a probe of the world, by the name in `world.probes`; a
scenario can require it.

Not here   full disks and mixed versions: the contract of effects has no word for the first, and
           the second needs two versions of the code.
"""

from functools import partial
from typing import Any, Literal

from msgspec import Struct

from shoal.kernel.time import MILLISECOND, SECOND
from shoal.sim.network import Weather
from shoal.sim.node import UP, Node
from shoal.sim.runs.storm import Storm

__all__ = [
    "KINDS",
    "Churn",
    "Clock",
    "Clog",
    "Corrupt",
    "Crash",
    "Fault",
    "Isolate",
    "Join",
    "Leave",
    "Partition",
    "Pause",
    "Slow",
    "Swizzle",
    "WeatherChange",
]

Who = Literal["any", "neighbours"]


class _Base(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """When it strikes. Times are seconds after faults begin."""

    at_s: tuple[float, ...] = ()
    every_s: float = 0.0
    after: str = ""
    chance: float = 1.0

    def strike(self, storm: Storm) -> None:
        """Do it."""
        raise NotImplementedError


class Crash(_Base, frozen=True, kw_only=True, tag="crash"):
    """Processes end at once, several at a time if `count` says so."""

    count: int = 1
    who: Who = "any"
    #: Until it is started again; 0 is never.
    down_s: float = 5.0
    #: What the next peer finds. `empty` is the same name with nothing stored; `another` is a new
    #: name as well, as when a machine is replaced.
    disk: Literal["same", "empty", "old", "another"] = "same"
    #: What becomes of writes under way.
    writes: Literal["lost", "torn", "kept"] = "lost"

    def strike(self, storm: Storm) -> None:
        if not storm.may_lose(self.count):
            return
        victims = storm.victims(self.count, self.who)
        storm.lost(len(victims))
        for node in victims:
            storm.world.crash(node, writes=self.writes)
            storm.world.mark(f"crash, {self.disk} disk" if self.down_s else "crash for good")
            if self.down_s:
                storm.bring_back(node, self._down(storm), partial(self._prepare, storm))
        if len(victims) > 1:
            storm.world.mark(f"crash of {len(victims)} {self.who} at once")

    def _down(self, storm: Storm) -> int:
        return 1 + int(storm.rng.exponential(self.down_s * SECOND))

    def _prepare(self, storm: Storm, node: Node) -> None:
        if self.disk == "another":
            storm.world.rename(node)
        elif self.disk == "empty":
            node.disk.wipe()
        elif self.disk == "old" and node.disk.restore():
            storm.world.mark("an old disk that differs")


class Leave(_Base, frozen=True, kw_only=True, tag="leave"):
    """Peers end in good order, for good or to start again: an upgrade, a reboot."""

    count: int = 1
    who: Who = "any"
    #: Until it is started again; 0 is never.
    down_s: float = 0.0

    def strike(self, storm: Storm) -> None:
        if storm.may_lose(self.count):
            victims = storm.victims(self.count, self.who)
            storm.lost(len(victims))
            for node in victims:
                storm.world.stop(node)
                storm.world.mark("leave and come back" if self.down_s else "leave")
                if self.down_s:
                    wait = SECOND + int(storm.rng.exponential(self.down_s * SECOND))
                    storm.bring_back(node, wait, _nothing_before)


class Join(_Base, frozen=True, kw_only=True, tag="join"):
    """New hosts start peers, all at once."""

    count: int = 1

    def strike(self, storm: Storm) -> None:
        for _ in range(self.count):
            node = storm.world.add_host()
            storm.world.start(node, storm.seeds())
            storm.world.mark("join")
        if self.after:
            storm.world.mark(f"join after {self.after}")


class Churn(_Base, frozen=True, kw_only=True, tag="churn"):
    """One peer leaves, crashes for good, or joins; more of them in a burst."""

    count: int = 1

    def strike(self, storm: Storm) -> None:
        for _ in range(self.count):
            kind = storm.rng.choice((Leave(), Crash(down_s=0.0), Join()))
            kind.strike(storm)
        if self.count > 1:
            storm.world.mark("churn burst")


class Pause(_Base, frozen=True, kw_only=True, tag="pause"):
    """Processes stand still for a while."""

    count: int = 1
    who: Who = "any"
    span_s: float = 5.0

    def strike(self, storm: Storm) -> None:
        for node in storm.victims(self.count, self.who):
            storm.world.pause(node)
            storm.turn_on("pause", _span(storm, self), partial(storm.world.resume, node))


class Slow(_Base, frozen=True, kw_only=True, tag="slow"):
    """A host takes so long for each event."""

    count: int = 1
    service_ms: float = 20.0
    span_s: float = 20.0

    def strike(self, storm: Storm) -> None:
        for node in storm.victims(self.count, "any"):
            storm.world.slow_down(node, int(self.service_ms * MILLISECOND))
            end = partial(storm.world.slow_down, node, 0)
            storm.turn_on("slow", _span(storm, self), end)


class Clog(_Base, frozen=True, kw_only=True, tag="clog"):
    """A link holds back what is sent, in one direction or both."""

    one_way: bool = False
    span_s: float = 5.0

    def strike(self, storm: Storm) -> None:
        pair = storm.victims(2, "any")
        if len(pair) < 2:
            return
        one, other = (node.index for node in pair)
        span = _span(storm, self)
        until = storm.world.now + span
        storm.world.network.clog_link(one, other, until)
        if not self.one_way:
            storm.world.network.clog_link(other, one, until)
        storm.turn_on("clog one direction" if self.one_way else "clog pair", span, _nothing)


class Swizzle(_Base, frozen=True, kw_only=True, tag="swizzle"):
    """Links of some hosts clog one after another and open in another order."""

    share: float = 0.3
    span_s: float = 10.0

    def strike(self, storm: Storm) -> None:
        world = storm.world
        hosts = storm.victims(max(2, round(len(world.running()) * self.share)), "any")
        span = _span(storm, self)
        for node in hosts:
            clogs = storm.rng.below(span // 2)
            opens = span // 2 + storm.rng.below(span // 2)
            world.call_in(clogs, world.network.clog_host, node.index, world.now + opens)
        storm.turn_on("swizzle", span, partial(self._open, storm, hosts))

    def _open(self, storm: Storm, hosts: list[Node]) -> None:
        for node in hosts:
            storm.world.network.unclog_host(node.index)


class Partition(_Base, frozen=True, kw_only=True, tag="partition"):
    """A share of the hosts is cut off from the rest, or hears it no longer."""

    share: float = 0.5
    one_way: bool = False
    span_s: float = 20.0

    def strike(self, storm: Storm) -> None:
        running = storm.world.running()
        side = storm.rng.sample(running, max(1, round(len(running) * self.share)))
        kind = "partition, asymmetric" if self.one_way else "partition"
        _cut(storm, kind, side, one_way=self.one_way, span=_span(storm, self))


class Isolate(_Base, frozen=True, kw_only=True, tag="isolate"):
    """One host is cut off from all others."""

    span_s: float = 20.0

    def strike(self, storm: Storm) -> None:
        side = storm.victims(1, "any")
        _cut(storm, "isolate one", side, one_way=False, span=_span(storm, self))


class WeatherChange(_Base, frozen=True, kw_only=True, tag="weather"):
    """Other rates for a while."""

    rates: Weather
    span_s: float = 10.0

    def strike(self, storm: Storm) -> None:
        network = storm.world.network
        network.set_weather(self.rates)
        end = partial(network.set_weather, storm.weather)
        storm.turn_on("weather", _span(storm, self), end)


class Clock(_Base, frozen=True, kw_only=True, tag="clock"):
    """A clock leaps by so many seconds, and drifts from then on until faults end."""

    leap_s: float = 0.0
    drift_ppm: int = 0
    span_s: float = 30.0

    def strike(self, storm: Storm) -> None:
        world = storm.world
        for node in storm.victims(1, "any"):
            if self.leap_s:
                world.leap(node, int(self.leap_s * SECOND))
                world.mark("clock leaps forward" if self.leap_s > 0 else "clock leaps back")
            if self.drift_ppm:
                world.drift(node, self.drift_ppm)
                end = partial(world.drift, node, 0)
                storm.turn_on("clock drifts", _span(storm, self), end)


class Corrupt(_Base, frozen=True, kw_only=True, tag="corrupt"):
    """The state of a machine is damaged, through a hook that tests know by name."""

    hook: str
    count: int = 1

    def strike(self, storm: Storm) -> None:
        for node in storm.victims(self.count, "any"):
            if node.state == UP and storm.hooks[self.hook](node.peer):
                storm.world.say(node, f"corrupt {node.name}: {self.hook}")
                storm.world.mark(f"corrupt {self.hook}")


Fault = (
    Crash
    | Leave
    | Join
    | Churn
    | Pause
    | Slow
    | Clog
    | Swizzle
    | Partition
    | Isolate
    | WeatherChange
    | Clock
    | Corrupt
)

KINDS: dict[str, type[Struct]] = {
    "crash": Crash,
    "leave": Leave,
    "join": Join,
    "churn": Churn,
    "pause": Pause,
    "slow": Slow,
    "clog": Clog,
    "swizzle": Swizzle,
    "partition": Partition,
    "isolate": Isolate,
    "weather": WeatherChange,
    "clock": Clock,
    "corrupt": Corrupt,
}


def _span(storm: Storm, fault: Any) -> int:
    """As long as it says if it strikes at a given time; else half to one and a half of that."""
    factor = 1.0 if fault.at_s else 0.5 + storm.rng.uniform()
    return max(2, int(fault.span_s * SECOND * factor))


def _cut(storm: Storm, kind: str, side: list[Node], *, one_way: bool, span: int) -> None:
    network = storm.world.network
    name = f"{kind} at {storm.world.now}"
    network.partition(name, [node.index for node in side], one_way=one_way)
    storm.world.say(None, f"{kind}: {', '.join(node.name for node in side)}")
    storm.turn_on(kind, span, partial(network.heal, name))


def _nothing_before(node: Node) -> None:
    """A host that was stopped in good order starts as it is."""


def _nothing() -> None:
    """A clog ends by itself."""
