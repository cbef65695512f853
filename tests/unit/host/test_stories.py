"""Stories of others: asked for by number, answered by whom was asked, bounded."""

import asyncio
from typing import Any

import pytest

from shoal.host import stories as module
from shoal.host.net import hello
from shoal.host.net.hello import StoryAsked, StoryTold
from shoal.host.stories import LINES_MAX, Stories, newest
from shoal.kernel.errors import UserError
from shoal.kernel.keys import Contact
from shoal.kernel.story import Line, Story
from shoal.wire.frames import FRAME_BYTES_MAX, FrameReader

P2 = Contact("p2", "127.0.0.1:2", 1)
P3 = Contact("p3", "127.0.0.1:3", 1)


def story(count: int, what: str = "it happened") -> Story:
    one = Story(10_000)
    for number in range(count):
        one.tell(Line(number, number, "", f"thing/{number % 2}", what))
    return one


class Sending:
    """A transport that remembers what was sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[Contact, Any]] = []

    def send(self, to: Contact, data: bytes) -> None:
        (frame,) = FrameReader().feed(data)
        self.sent.append((to, hello.CODEC.decode(frame)))


def test_the_newest_lines() -> None:
    told = newest(story(10), StoryAsked(7, "", 3))
    assert (told.number, told.forgotten) == (7, 0)
    assert [line[0] for line in told.lines] == [7, 8, 9]
    assert [line[0] for line in newest(story(10), StoryAsked(7, "thing/0", 2)).lines] == [6, 8]
    assert len(newest(story(10), StoryAsked(7, "", -5)).lines) == 1


def test_an_answer_always_fits_a_frame() -> None:
    told = newest(story(2_000, what="x" * 100_000), StoryAsked(7, "", 1 << 40))
    assert len(told.lines) == LINES_MAX
    assert len(hello.CODEC.encode(told, 0)) < FRAME_BYTES_MAX


def test_asked_and_told() -> None:
    async def scene() -> None:
        sending: Any = Sending()
        stories = Stories(sending, story(3))
        sending.on_story(P2, StoryAsked(5, "", 2))
        ((to, told),) = sending.sent
        assert (to, told.number, len(told.lines)) == (P2, 5, 2)
        asked = asyncio.create_task(stories.of(P2, thing="ring", lines=9))
        await asyncio.sleep(0)
        assert sending.sent[-1] == (P2, StoryAsked(1, "ring", 9))
        sending.on_story(P3, StoryTold(1, 66, ()))  # it was not asked
        sending.on_story(P2, StoryTold(2, 66, ()))  # nobody asked this
        sending.on_story(P2, StoryTold(1, 77, ()))
        sending.on_story(P2, StoryTold(1, 88, ()))
        assert (await asked).forgotten == 77

    asyncio.run(scene())


def test_who_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ANSWER_S", 0.01)
    monkeypatch.setattr(module, "_ASKED_MAX", 1)

    async def scene() -> None:
        sending: Any = Sending()
        stories = Stories(sending, story(0))
        first = asyncio.create_task(stories.of(P2, thing="", lines=9))
        await asyncio.sleep(0)
        with pytest.raises(UserError, match="too many"):
            await stories.of(P2, thing="", lines=9)
        with pytest.raises(UserError, match="did not tell its story"):
            await first
        sending.on_story(P2, StoryTold(1, 0, ()))  # too late

    asyncio.run(scene())
