"""The story of another peer, read from here: hosts answer each other about it.

A story says what a peer did and heard, by name; whoever has a certificate of the mesh may read it.
Nothing in it is a secret of the data, which control never sees.
"""

import asyncio
import itertools

from shoal.host.net import hello
from shoal.host.net.hello import StoryAsked, StoryTold
from shoal.host.net.transport import Transport
from shoal.kernel.errors import UserError
from shoal.kernel.keys import Contact
from shoal.kernel.story import Story

__all__ = ["LINES_MAX", "Stories", "newest"]

#: Lines in one answer; with 400 characters each they fit a frame.
LINES_MAX = 500
_CHARACTERS_MAX = 400
#: How long another host has to answer.
_ANSWER_S = 10.0
#: Answers that are awaited at once; each is asked for on this machine's console.
_ASKED_MAX = 64


class Stories:
    """Asks others for their stories, and tells them this peer's."""

    def __init__(self, transport: Transport, story: Story) -> None:
        self._transport = transport
        self._story = story
        self._numbers = itertools.count(1)
        self._asked: dict[int, tuple[str, asyncio.Future[StoryTold]]] = {}
        transport.on_story = self._heard

    async def of(self, peer: Contact, *, thing: str, lines: int) -> StoryTold:
        """The newest lines of that peer's story."""
        if len(self._asked) >= _ASKED_MAX:
            raise UserError("too many stories are being asked for", hint="try again")
        number = next(self._numbers)
        future: asyncio.Future[StoryTold] = asyncio.get_running_loop().create_future()
        self._asked[number] = (peer.name, future)
        try:
            asked = StoryAsked(number, thing, lines)
            self._transport.send(peer, hello.CODEC.encode(asked, 0))
            async with asyncio.timeout(_ANSWER_S):
                return await future
        except TimeoutError:
            raise UserError(
                f"peer {peer.name!r} did not tell its story",
                detail=f"nothing came from {peer.address} in {_ANSWER_S:.0f} s",
                hint="it may be gone; see `shoal ring --all`",
            ) from None
        finally:
            del self._asked[number]

    def _heard(self, sender: Contact, message: StoryAsked | StoryTold) -> None:
        if isinstance(message, StoryAsked):
            told = newest(self._story, message)
            self._transport.send(sender, hello.CODEC.encode(told, 0))
            return
        name, future = self._asked.get(message.number, ("", None))
        if future is not None and name == sender.name and not future.done():
            future.set_result(message)


def newest(story: Story, asked: StoryAsked) -> StoryTold:
    """The newest lines of a story, of one thing or of all."""
    lines = story.of(asked.thing) if asked.thing else tuple(story)
    count = min(max(1, asked.lines), LINES_MAX)
    return StoryTold(
        asked.number,
        story.forgotten,
        tuple(
            (
                one.at,
                one.event,
                one.because[:_CHARACTERS_MAX],
                one.thing[:_CHARACTERS_MAX],
                one.what[:_CHARACTERS_MAX],
            )
            for one in lines[-count:]
        ),
    )
