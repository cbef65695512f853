"""Which of two connections is used, and when a peer is dialled again."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import pytest

from shoal.host.config import NetConfig
from shoal.host.net.link import Phase
from shoal.host.net.outbox import Outbox, Total
from shoal.host.net.routes import Dialler, Route
from shoal.kernel.keys import Contact


@dataclass(eq=False)
class FakeLink:
    """What a route looks at."""

    dialled: Contact | None
    phase: Phase = Phase.OPEN


def route(name: str = "p5") -> Route:
    outbox = Outbox(frames_max=9, bytes_max=999, total=Total(bytes_max=999))
    return Route(Contact(name, "127.0.0.1:1", 1), outbox, 0.0)


@pytest.mark.parametrize(("me", "preferred"), [("p1", 0), ("p9", 1)])
def test_both_sides_prefer_the_one_that_the_lesser_name_dialled(me: str, preferred: int) -> None:
    one = route("p5")
    links: list[Any] = [FakeLink(one.contact), FakeLink(None)]
    for link in links:
        one.join(link, me)
        assert one.link is not None
    assert one.link is links[preferred]
    one.part(links[preferred], me)
    assert one.link is links[1 - preferred]
    links[1 - preferred].phase = Phase.CLOSING
    one.part(links[preferred], me)  # it was parted from before
    assert one.link is None


def test_a_connection_ends_the_back_off() -> None:
    one = route()
    one.failures, one.not_before = 7, 1e9
    link: Any = FakeLink(None)
    one.join(link, "p1")
    assert (one.failures, one.not_before) == (0, 0.0)


class Owner:
    """A transport whose dials all fail."""

    config = replace(NetConfig(), dial_again_min_s=1.0, dial_again_max_s=8.0, dials_max=2)

    def dialling_context(self) -> None:
        return None


def test_the_back_off_grows_and_never_beats_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is drawn between half and whole of 1, 2, 4, 8, 8 ... seconds."""

    async def scene() -> None:
        failed: list[str] = []
        owner: Any = Owner()
        dialler = Dialler(owner, lambda route, why: failed.append(why))
        now = [0.0]
        monkeypatch.setattr(dialler._loop, "time", lambda: now[0])

        async def refuse(contact: Contact) -> str:
            return "nobody there"

        monkeypatch.setattr(dialler, "_connect", refuse)
        one = route()
        pauses = []
        for _ in range(6):
            dialler.want(one)
            assert one.dialling is not None
            await one.dialling
            dialler.want(one)  # too soon
            assert one.dialling is None
            pauses.append(one.not_before - now[0])
            now[0] = one.not_before
        assert failed == ["nobody there"] * 6
        for pause, whole in zip(pauses, (1, 2, 4, 8, 8, 8), strict=True):
            assert whole / 2 <= pause <= whole
        assert len(dict.fromkeys(pauses)) == 6

    asyncio.run(scene())


def test_so_many_dials_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        owner: Any = Owner()
        dialler = Dialler(owner, lambda route, why: None)
        running, most = 0, 0
        go_on = asyncio.Event()

        async def connect(contact: Contact) -> str:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await go_on.wait()
            running -= 1
            return ""

        monkeypatch.setattr(dialler, "_connect", connect)
        all_of_them = [route(f"p{number}") for number in range(9)]
        for one in all_of_them:
            dialler.want(one)
        for _ in range(5):
            await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(*(one.dialling for one in all_of_them if one.dialling))
        assert most == Owner.config.dials_max

    asyncio.run(scene())


def test_who_has_stopped_dials_no_more() -> None:
    async def scene() -> None:
        owner: Any = Owner()
        dialler = Dialler(owner, lambda route, why: None)
        await dialler.stop()
        one = route()
        dialler.want(one)
        assert one.dialling is None

    asyncio.run(scene())
