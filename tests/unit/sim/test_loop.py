"""The loop: effects in order, causes, timers that were replaced, and wrong effects."""

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from msgspec import Struct

from shoal.kernel.effects import Answer, CancelTimer, Command, Persist, Send, SetTimer
from shoal.kernel.events import Asked, Received, Started, TimerFired, Unreachable
from shoal.kernel.keys import Contact
from shoal.kernel.rng import Rng
from shoal.kernel.time import MILLISECOND, SECOND
from shoal.peer.peer import Peer
from shoal.sim.network import Weather
from shoal.sim.world import Failed, World
from tests.unit.sim.test_world import Asker


class Say(Struct, frozen=True, array_like=True):
    """Words."""

    word: str


class Do(Struct, frozen=True):
    """A question that asks for these effects."""

    effects: list[Any]


class PuppetMachine:
    """Asks for whatever it is told to, and writes down what happens to it."""

    name = "puppet"
    messages: ClassVar = {0x0E11: Say}
    questions: ClassVar = (Do,)

    def __init__(self) -> None:
        self.told: list[tuple[int, str]] = []

    def handle(self, event: Any, now: int) -> Sequence[Any]:
        match event:
            case Asked():
                answer = Answer(event.request, Say("done"))
                return [
                    *(one(now) if callable(one) else one for one in event.question.effects),
                    answer,
                ]
            case Received():
                self.told.append((now, f"{event.message.word} {event.cause}"))
            case TimerFired():
                self.told.append((now, event.timer))
            case Unreachable():
                self.told.append((now, f"unreachable {event.peer.name}"))
            case Started():
                pass
        return []

    def validate(self) -> None:
        pass

    def view(self) -> Struct:
        return Say("")


def puppets(count: int = 2, **options: Any) -> World:
    def factory(me: Contact, seeds: Sequence[str], rng: Rng) -> Peer:
        return Peer(me, [PuppetMachine()], story_lines_max=10)

    world = World(1, factory, weather=Weather(heavy=0.0), **options)
    for _ in range(count):
        world.start(world.add_host(), [])
    return world


def do(world: World, index: int, *effects: Any) -> Asker:
    asker = Asker()
    world.ask(world.nodes[index], Do(list(effects)), asker)
    return asker


def told(world: World, index: int) -> list[str]:
    machine: Any = world.nodes[index].peer.machines["puppet"]  # type: ignore[union-attr]
    return [what for _, what in machine.told]


def timer(name: str, wait: int) -> Any:
    return lambda now: SetTimer(f"puppet/{name}", now + wait)


def test_a_timer_set_again_fires_once_at_its_new_time() -> None:
    world = puppets()
    do(world, 0, timer("t", SECOND), timer("t", 2 * SECOND), timer("u", 3 * SECOND))
    world.run_for(SECOND + 1)
    assert told(world, 0) == []
    world.run_for(3 * SECOND)
    assert told(world, 0) == ["puppet/t", "puppet/u"]


def test_a_timer_in_the_past_fires_now() -> None:
    world = puppets()
    do(world, 0, timer("t", -SECOND))
    world.run_for(1)
    assert told(world, 0) == ["puppet/t"]


def test_what_stands_behind_a_write_waits_and_keeps_its_order_and_cause() -> None:
    world = puppets()
    to = world.nodes[1].contact
    asker = do(
        world,
        0,
        Send(to, Say("before")),
        Persist("puppet/a", b"1"),
        Send(to, Say("between")),
        Persist("puppet/b", b"2"),
        Send(to, Say("behind")),
    )
    do(world, 0, Send(to, Say("next event")))
    world.run_for(1)
    assert world.messages == 1
    assert asker.answers == []
    world.run_for(10 * SECOND)
    assert sorted(told(world, 1)) == ["before 2", "behind 2", "between 2", "next event 3"]
    assert world.messages == 4
    assert asker.answers == [Say("done")]
    assert world.nodes[0].disk.values == {"puppet/a": b"1", "puppet/b": b"2"}


def test_a_timer_that_comes_due_during_a_pause_can_still_be_cancelled() -> None:
    """What waits is taken in order: the question that cancels came before the timer was due."""
    world = puppets()
    do(world, 0, timer("t", 5 * SECOND))
    world.run_for(SECOND)
    world.pause(world.nodes[0])
    do(world, 0, CancelTimer("puppet/t"))
    world.run_for(10 * SECOND)
    world.resume(world.nodes[0])
    world.run_for(SECOND)
    assert told(world, 0) == []


def test_who_sends_to_nobody_is_told_once() -> None:
    world = puppets()
    nobody = Contact("ghost", "nowhere:1", 0)
    do(world, 0, Send(nobody, Say("a")), Send(nobody, Say("b")))
    world.run_for(SECOND)
    assert told(world, 0) == ["unreachable ghost"]


def test_who_sends_to_a_peer_that_is_down_is_told_sooner_or_later() -> None:
    world = puppets()
    contact = world.nodes[1].contact
    world.crash(world.nodes[1])
    do(world, 0, Send(contact, Say("a")))
    world.run_for(10 * SECOND)
    assert told(world, 0) == ["unreachable p1"]


def test_a_contact_without_a_name_is_whoever_is_at_the_address() -> None:
    world = puppets()
    do(world, 0, Send(Contact("", "host1:1", 0), Say("you there")))
    world.run_for(SECOND)
    assert told(world, 1) == ["you there 2"]


def test_a_partition_is_noticed_when_the_host_gives_up() -> None:
    world = puppets()
    world.network.partition("cut", [0], one_way=False)
    do(world, 0, Send(world.nodes[1].contact, Say("a")))
    world.run_for(SECOND)
    assert told(world, 0) == []
    world.run_for(10 * SECOND)
    assert told(world, 0) == ["unreachable p1"]
    assert told(world, 1) == []


def test_a_command_for_a_data_plane_is_counted() -> None:
    world = puppets()
    do(world, 0, Command("start"))
    world.run_for(1)
    assert world.probes["command for a data plane"] == 1


def test_what_is_no_effect_ends_the_run() -> None:
    world = puppets()
    do(world, 0, "not an effect")
    with pytest.raises(Failed, match="not for a host"):
        world.run_for(1)


def test_an_answer_that_nobody_waits_for_ends_the_run() -> None:
    """The peer itself refuses it first, as a defect of its machine."""
    world = puppets()
    do(world, 0, Answer(999, Say("unasked")))
    with pytest.raises(Failed, match="999"):
        world.run_for(SECOND)


def test_full_inboxes_drop_and_count() -> None:
    world = puppets()
    world.pause(world.nodes[1])
    to = world.nodes[1].contact
    do(world, 0, *(Send(to, Say("x")) for _ in range(25_000)))
    world.run_for(10 * SECOND)
    assert world.probes["event dropped at a full inbox"] == 5_000


def test_ties_are_broken_by_order_and_not_by_chance() -> None:
    world = puppets()
    do(world, 0, *(timer(f"{i}", MILLISECOND) for i in range(20)))
    world.run_for(SECOND)
    assert told(world, 0) == [f"puppet/{i}" for i in range(20)]
