"""Interaction scripts: what a few peers do to each other, told as a story, kept as a golden file.

    # A crash of the successor is noticed and mended.
    start p1 p2 p3
    quiet run 30s
    ----
    412 events

    crash p2
    run 5s
    ----
    31.003 p1 ring  timer ring/probe
        Send p2 Probe(nonce=7)
        SetTimer ring/probe +1s
    ...

A block is commands, `----`, and what they gave. `--update` rewrites what is below the lines; the
difference is what is reviewed. Each script lives in tests/golden/machines/<cast>/<story>.txt, and
the cast, tests/casts/<cast>.py, says which machines its peers have (`Cast`).

    start p1 p2 [word=value ..]   peers begin; the words go to the cast
    deliver [p1] [>p2] [Kind]     the first message in flight from p1, to p2, of that kind; `all`
                                  in front: every one of them now in flight; `last`: the newest
    drop ...                      the same, but lost
    double ...                    the same, but it arrives twice
    settle                        deliver, in order, until nothing is in flight
    run 5s                        timers and deliveries in their order; each message takes 10 ms
    advance 5s                    timers only; what is sent stays in flight
    ask p1 Lookup key             a question; arguments in the order of its fields (script_text.py)
    event p1 Neighbours - p2      an event of a sibling, straight to the first machine of the cast
    receive p1 p2 Probe 7         a message that p2 never sent, as from p2
    crash p2 | crash loud p2      silently, or so that senders hear that it is unreachable
    restart p2 [empty]            with its disk, or without; a new incarnation
    stop p2                       it says good-bye
    pause p2 / resume p2          its events wait
    cut p1,p2 p3 / heal           between the sides nothing arrives
    show p1 [machine]             the view of a machine, field by field
    flight                        what is in flight
    seed 7                        another random stream; before the first start
    trace Note Tell Answer        show only these effects (and no event without them); `trace all`
    quiet <command>               do it, and say only how many events it took

After every event all machines validate, and their effects keep the contract (`Checked`).
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from shoal.kernel.effects import (
    Answer,
    CancelTimer,
    Effect,
    Persist,
    Send,
    SetTimer,
)
from shoal.kernel.errors import ShoalError
from shoal.kernel.events import (
    Asked,
    Event,
    Received,
    Started,
    Stopping,
    TimerFired,
    Unreachable,
)
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import MILLISECOND, Instant
from shoal.peer.machine import Machine
from shoal.peer.peer import Peer
from tests.checked import Checked
from tests.script_text import Words, micros

__all__ = ["Cast", "Script", "run_script"]

#: How long a message takes under `run`, and a bound for a `run` or `settle` that does not end.
DELAY = 10 * MILLISECOND
EVENTS_MAX = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Which machines the peers of a script have."""

    #: Machines of one peer: itself, its randomness, the words behind `start`, contacts by name.
    build: Callable[[Contact, Rng, Mapping[str, str], Callable[[str], Contact]], Sequence[Machine]]
    #: Events of siblings that `event` may give to the first machine, by name.
    events: Sequence[type[Struct]] = ()
    #: A view as lines of text, where field by field is not good enough.
    show: Callable[[Struct], str] | None = None


@dataclass(slots=True, kw_only=True)
class _Actor:
    """One peer of a script and what its host would keep for it."""

    contact: Contact
    options: Mapping[str, str]
    peer: Peer | None = None
    stored: dict[str, bytes] = field(default_factory=dict)
    timers: dict[str, Instant] = field(default_factory=dict)
    waiting: deque[Event] | None = None
    loud: bool = False


class _Flying(Struct, frozen=True):
    """A message on its way."""

    arrives: Instant
    sender: Contact
    to: Contact
    message: Struct
    cause: int


class Script:
    """A small world without hurry: peers, messages in flight, a clock that only commands move."""

    def __init__(self, cast: Cast) -> None:
        self._cast = cast
        self._actors: dict[str, _Actor] = {}
        self._flight: list[_Flying] = []
        self._sides: list[list[str]] = []
        self._words = Words(self.contact)
        self._lines: list[str] = []
        self._shown: tuple[str, ...] = ()
        self._rng = Rng(1)
        self._requests = 0
        self.now: Instant = 0
        self.events = 0

    def contact(self, name: str) -> Contact:
        """The contact of a peer of the script; any other name is its first incarnation."""
        self._words.key(name)
        if name in self._actors:
            return self._actors[name].contact
        return Contact(name, f"{name}.mesh:7000", 1)

    def command(self, line: str) -> list[str]:
        """Carry one command out; what there is to be said about it."""
        self._lines = []
        word, *arguments = line.split()
        method = getattr(self, f"_do_{word}", None)
        if method is None:
            return [f"error: no command {word!r}"]
        try:
            method(*arguments)
        except ShoalError as error:
            self._lines.append(f"{type(error).__name__}: {error}")
        except (TypeError, KeyError, IndexError, msgspec.MsgspecError) as error:
            self._lines.append(f"error: {type(error).__name__}: {error}")
        return self._lines

    # --- commands -------------------------------------------------------------------------------

    def _do_seed(self, number: str) -> None:
        self._rng = Rng(int(number))

    def _do_start(self, *arguments: str) -> None:
        options = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
        names = [argument for argument in arguments if "=" not in argument]
        for name in names:
            actor = _Actor(contact=self.contact(name), options=options)
            self._actors[name] = actor
        for name in names:
            self._begin(self._actors[name])

    def _do_restart(self, name: str, disk: str = "same") -> None:
        actor = self._actors[name]
        actor.contact = msgspec.structs.replace(
            actor.contact, incarnation=actor.contact.incarnation + 1
        )
        if disk == "empty":
            actor.stored.clear()
        self._begin(actor)

    def _do_crash(self, *arguments: str) -> None:
        for name in arguments[arguments[0] == "loud" :]:
            actor = self._actors[name]
            actor.peer, actor.loud = None, arguments[0] == "loud"
            actor.timers.clear()
            actor.waiting = None

    def _do_stop(self, name: str) -> None:
        actor = self._actors[name]
        self._happen(actor, Stopping())
        actor.peer = None
        actor.timers.clear()

    def _do_pause(self, name: str) -> None:
        self._actors[name].waiting = deque()

    def _do_resume(self, name: str) -> None:
        actor = self._actors[name]
        waiting, actor.waiting = actor.waiting or deque(), None
        for event in waiting:
            self._happen(actor, event)

    def _do_cut(self, *sides: str) -> None:
        self._sides = [side.split(",") for side in sides]

    def _do_heal(self) -> None:
        self._sides = []

    def _do_deliver(self, *which: str) -> None:
        for one in self._pick(which):
            self._arrive(one)

    def _do_double(self, *which: str) -> None:
        for one in self._pick(which):
            self._arrive(one)
            self._arrive(one)

    def _do_drop(self, *which: str) -> None:
        for one in self._pick(which):
            self._lines.append(f"lost: {self._flying(one)}")

    def _do_settle(self) -> None:
        count = 0
        while self._flight:
            count += 1
            assert count <= EVENTS_MAX, "messages without end"
            self._arrive(self._flight.pop(0))

    def _do_advance(self, duration: str) -> None:
        self._run_until(self.now + micros(duration), deliver=False)

    def _do_run(self, duration: str) -> None:
        self._run_until(self.now + micros(duration), deliver=True)

    def _do_ask(self, name: str, kind: str, *arguments: str) -> None:
        actor = self._actors[name]
        assert actor.peer is not None, f"{name} does not run"
        machines = actor.peer.machines.values()
        kinds = {one.__name__: one for machine in machines for one in machine.questions}
        self._requests += 1
        self._happen(actor, Asked(self._requests, self._words.make(kinds[kind], arguments)))

    def _do_receive(self, name: str, sender: str, kind: str, *arguments: str) -> None:
        actor = self._actors[name]
        assert actor.peer is not None, f"{name} does not run"
        machines = actor.peer.machines.values()
        kinds = {one.__name__: one for m in machines for one in m.messages.values()}
        message = self._words.make(kinds[kind], arguments)
        self._happen(actor, Received(self.contact(sender), message))

    def _do_event(self, name: str, kind: str, *arguments: str) -> None:
        actor = self._actors[name]
        assert actor.peer is not None, f"{name} does not run"
        kinds = {one.__name__: one for one in self._cast.events}
        event: Any = self._words.make(kinds[kind], arguments)
        machine = next(iter(actor.peer.machines.values()))
        self.events += 1
        found = actor.peer._carry([(machine, machine.handle(event, self.now))], event, self.now)
        self._carry_out(actor, found)

    def _do_show(self, name: str, machine: str = "") -> None:
        actor = self._actors[name]
        assert actor.peer is not None, f"{name} does not run"
        view = actor.peer.machines[machine or next(iter(actor.peer.machines))].view()
        if self._cast.show is not None:
            self._lines += self._cast.show(view).splitlines()
            return
        for one in msgspec.structs.fields(view):
            self._lines.append(f"{one.name}: {self._words.text(getattr(view, one.name))}")

    def _do_flight(self) -> None:
        self._lines += [self._flying(one) for one in self._flight]

    def _do_trace(self, *kinds: str) -> None:
        self._shown = () if kinds == ("all",) else kinds

    def _do_quiet(self, *words: str) -> None:
        before, lines = self.events, self._lines
        lines += [line for line in self.command(" ".join(words)) if "rror: " in line]
        self._lines = [*lines, f"{self.events - before} events"]

    # --- the world ------------------------------------------------------------------------------

    def _begin(self, actor: _Actor) -> None:
        """A new incarnation starts with what the disk held."""
        rng = self._rng.split(f"{actor.contact.name}@{actor.contact.incarnation}")
        machines = self._cast.build(actor.contact, rng, actor.options, self.contact)
        watch = self._watch_of(actor.contact.name)
        checked = [Checked(machine, watch) for machine in machines]
        actor.peer = Peer(actor.contact, checked, story_lines_max=1_000)
        actor.timers.clear()
        actor.waiting = None
        self._happen(actor, Started(dict(actor.stored)))

    def _watch_of(
        self, name: str
    ) -> Callable[[Machine, Struct, Sequence[Effect], Instant, str], None]:
        def watch(
            machine: Machine, event: Struct, effects: Sequence[Effect], now: Instant, moved: str
        ) -> None:
            shown = [
                f"    {self._words.effect(effect, now)}"
                for effect in effects
                if not self._shown or type(effect).__name__ in self._shown
            ]
            if moved:
                shown.insert(0, f"    {moved}")
            if self._shown and not shown:
                return
            at = f"{now / 1_000_000:.3f}"
            self._lines.append(f"{at} {name} {machine.name}  {self._words.event(event)}")
            self._lines += shown

        return watch

    def _happen(self, actor: _Actor, event: Event) -> None:
        """Give an event to a peer and carry its effects out, in order."""
        if actor.peer is None:
            return
        if actor.waiting is not None:
            actor.waiting.append(event)
            return
        self.events += 1
        refused = actor.peer.refused
        effects = actor.peer.handle(event, self.now)
        if actor.peer.refused > refused:
            at = f"{self.now / 1_000_000:.3f}"
            line = list(actor.peer.story)[-1]
            self._lines.append(f"{at} {actor.contact.name} peer  {line.thing}: {line.what}")
        actor.peer.validate()
        self._carry_out(actor, effects)

    def _carry_out(self, actor: _Actor, effects: Sequence[Effect]) -> None:
        assert actor.peer is not None
        for effect in effects:
            match effect:
                case Send(to=to, message=message):
                    cause = actor.peer.event
                    flying = _Flying(self.now + DELAY, actor.contact, to, message, cause)
                    self._flight.append(flying)
                case SetTimer(timer=timer, at=at):
                    actor.timers[timer] = at
                case CancelTimer(timer=timer):
                    actor.timers.pop(timer, None)
                case Persist(key=key, value=None):
                    actor.stored.pop(key, None)
                case Persist(key=key, value=bytes(value)):
                    actor.stored[key] = value
                case Answer():
                    pass  # shown by the machine's line already
                case _:
                    raise AssertionError(f"an effect that a script has no host for: {effect}")

    def _arrive(self, one: _Flying) -> None:
        actor = next(
            (a for a in self._actors.values() if a.contact.address == one.to.address), None
        )
        sender = self._actors.get(one.sender.name)
        if actor is None or actor.peer is None:
            if actor is not None and actor.loud and sender is not None:
                self._happen(sender, Unreachable(one.to))
            return
        if self._apart(one.sender.name, actor.contact.name):
            return
        self._happen(actor, Received(one.sender, one.message, one.cause))

    def _apart(self, one: str, other: str) -> bool:
        """Whether a cut lies between two peers; who stands on no side is cut off from none."""
        side = {name: number for number, names in enumerate(self._sides) for name in names}
        return one in side and other in side and side[one] != side[other]

    def _run_until(self, end: Instant, *, deliver: bool) -> None:
        count = 0
        while True:
            due = [
                (at, 0, order, actor, timer)
                for order, actor in enumerate(self._actors.values())
                for timer, at in actor.timers.items()
                if actor.peer is not None
            ]
            first = min(due, key=lambda one: one[:3], default=None)
            flying = min(self._flight, key=lambda one: one.arrives, default=None)
            if deliver and flying and flying.arrives <= (first[0] if first else end):
                if flying.arrives > end:
                    break
                self.now = max(self.now, flying.arrives)
                self._flight.remove(flying)
                self._arrive(flying)
            elif first and first[0] <= end:
                at, _, _, actor, timer = first
                self.now = max(self.now, at)
                del actor.timers[timer]
                self._happen(actor, TimerFired(timer))
            else:
                break
            count += 1
            assert count <= EVENTS_MAX, "events without end"
        self.now = end

    def _pick(self, which: Sequence[str]) -> list[_Flying]:
        """Take messages out of flight: all that fit, or the first."""
        every = bool(which) and which[0] == "all"
        last = bool(which) and which[0] == "last"
        fits = [one for one in self._flight if self._fits(one, which[every or last :])]
        assert fits or every, f"nothing in flight is {' '.join(which)}"
        picked = fits if every else fits[-1:] if last else fits[:1]
        self._flight = [one for one in self._flight if not any(one is other for other in picked)]
        return picked

    def _fits(self, one: _Flying, which: Sequence[str]) -> bool:
        kind = type(one.message).__name__
        return all(
            self.contact(word[1:]).address == one.to.address
            if word.startswith(">")
            else word in (one.sender.name, kind)
            for word in which
        )

    def _flying(self, one: _Flying) -> str:
        words = self._words
        return f"{words.text(one.sender)} > {words.text(one.to)} {words.text(one.message)}"


def run_script(text: str, cast: Cast) -> str:
    """The script with what its commands give now, in place of what they gave."""
    script = Script(cast)
    blocks = []
    for block in text.strip("\n").split("\n\n"):
        commands = block.split("\n----")[0].splitlines()
        said: list[str] = []
        work = [line for line in commands if line.strip() and not line.startswith("#")]
        for line in work:
            said += script.command(line)
        if work:
            commands += ["----", *(said or ["nothing"])]
        blocks.append("\n".join(commands))
    return "\n\n".join(blocks) + "\n"
