"""One connection, its socket a fake: phases, what is written when, who is held back."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shoal.host.config import NetConfig
from shoal.host.net.link import Link, Phase
from shoal.host.net.outbox import Outbox, Total
from shoal.kernel.errors import RemoteError
from shoal.kernel.keys import Contact
from shoal.wire.frames import Frame, frame

PEER = Contact("p9", "127.0.0.1:9", 1)
CONFIG = replace(NetConfig(), frames_per_s=10.0, frames_burst=5.0, stall_s=1.0, flood_s=3.0)


class Socket(asyncio.Transport):
    """A transport that remembers what was done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.did: list[str] = []

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.did.append("close")

    def abort(self) -> None:
        self.did.append("abort")

    def pause_reading(self) -> None:
        self.did.append("pause")

    def resume_reading(self) -> None:
        self.did.append("resume")

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.did.append(f"high {high}")

    def get_write_buffer_size(self) -> int:
        return 7


class Owner:
    """Opens every link at its first frame."""

    config = CONFIG

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.told: list[str] = []
        self.full = False
        self.outbox = Outbox(frames_max=99, bytes_max=1 << 20, total=Total(bytes_max=1 << 20))

    def made(self, link: Link) -> bytes:
        return b"hello"

    def greeted(self, link: Link, frame: Frame) -> None:
        if frame.payload == b"bad":
            raise RemoteError("hello is bad")
        link.open(PEER, self.outbox)

    def received(self, link: Link, frame: Frame) -> None:
        self.frames.append(frame)

    def turned_away(self, host: str, why: str) -> None:
        self.told.append(why)

    def flooded(self, link: Link) -> None:
        self.told.append("flooded")
        link.close("flood")

    def gone(self, link: Link) -> None:
        self.told.append("gone")

    def crowded(self) -> bool:
        return self.full


class Scene:
    """A link with its owner, its socket and its clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "time", lambda: self.now)
        self.owner = Owner()
        self.socket = Socket()
        self.link = Link(self.owner, dialled=None, host="127.0.0.1", now=self.now)
        self.link.connection_made(self.socket)

    def opened(self) -> "Scene":
        """After the hello."""
        self.link.data_received(frame(1, 0, b"hello"))
        return self


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Scene], None]], None]:
    """Run a scene in a loop."""

    def run(act: Callable[[Scene], None]) -> None:
        async def inside() -> None:
            scene = Scene(monkeypatch)
            act(scene)
            monkeypatch.undo()
            scene.link.connection_lost(None)
            assert scene.link.settled.done()

        asyncio.run(inside())

    return run


def test_hello_first_then_frames(play: Any) -> None:
    def act(scene: Scene) -> None:
        assert scene.socket.written == [b"hello"]
        assert scene.link.phase is Phase.GREETING
        data = frame(1, 0, b"hello") + frame(2, 7, b"a") + frame(3, 8, b"b")
        scene.link.data_received(data[:-1])
        assert scene.link.phase is Phase.OPEN
        assert scene.link.settled.result() == ""
        scene.link.data_received(data[-1:])
        assert [one.tag for one in scene.owner.frames] == [2, 3]

    play(act)


def test_a_bad_hello_is_refused_with_a_reason(play: Any) -> None:
    def act(scene: Scene) -> None:
        scene.link.data_received(frame(1, 0, b"bad") + frame(2, 0, b"a"))
        assert scene.link.phase is Phase.CLOSING
        assert b"hello is bad" in scene.socket.written[-1]
        assert scene.socket.did[-1] == "close"
        assert scene.link.settled.result() == "hello is bad"
        scene.link.data_received(frame(3, 0, b"too late"))
        assert scene.owner.frames == []

    play(act)


def test_a_hello_that_is_too_long(play: Any) -> None:
    def act(scene: Scene) -> None:
        scene.link.data_received(frame(1, 0, b"x" * 9_000)[:5_000])
        assert "too long" in scene.link.why

    play(act)


def test_written_only_while_the_socket_takes_it(play: Any) -> None:
    def act(scene: Scene) -> None:
        link, outbox = scene.opened().link, scene.owner.outbox
        scene.socket.written.clear()
        link.pause_writing()
        outbox.put(b"a")
        outbox.put(b"b")
        link.pump()
        assert scene.socket.written == []
        assert link.waiting == 2 + 7
        link.resume_writing()
        assert scene.socket.written == [b"ab"]

    play(act)


def test_stalled_is_who_takes_nothing_or_does_not_finish(play: Any) -> None:
    def act(scene: Scene) -> None:
        link = scene.opened().link
        assert link.stalled(scene.now + 99) == ""
        link.pause_writing()
        assert link.stalled(scene.now + 0.9) == ""
        assert "takes no byte" in link.stalled(scene.now + 1.1)
        link.resume_writing()
        assert link.stalled(scene.now + 99) == ""
        data = frame(2, 0, b"abc")
        link.data_received(data[:-2])
        scene.now += 0.9
        link.data_received(data[-2:-1])  # a byte now and then helps nobody
        assert "unfinished" in link.stalled(scene.now + 0.2)
        link.data_received(data[-1:])
        assert link.stalled(scene.now + 99) == ""

    play(act)


def test_held_back_while_it_sends_too_much(play: Any) -> None:
    def act(scene: Scene) -> None:
        link = scene.opened().link
        for _ in range(10):
            link.data_received(frame(2, 0, b"a"))
        assert len(scene.owner.frames) == 10  # what has been read is handed on
        assert scene.socket.did.count("pause") == 1
        link._release()
        assert scene.socket.did[-1] == "resume"

    play(act)


def test_a_flood_is_told_after_its_time(play: Any) -> None:
    def act(scene: Scene) -> None:
        link = scene.opened().link
        for _ in range(40):
            scene.now += 0.1
            link.data_received(frame(2, 0, b"a") * 3)
        assert scene.owner.told == ["flooded"]
        assert link.phase is Phase.CLOSING

    play(act)


def test_bursts_with_pauses_are_no_flood(play: Any) -> None:
    def act(scene: Scene) -> None:
        link = scene.opened().link
        for _ in range(20):
            scene.now += 3.0
            link.data_received(frame(2, 0, b"a") * 8)
        assert scene.owner.told == []

    play(act)


def test_held_back_while_there_is_no_room(play: Any) -> None:
    def act(scene: Scene) -> None:
        link = scene.opened().link
        scene.owner.full = True
        link.data_received(frame(2, 0, b"a"))
        assert scene.socket.did[-1] == "pause"
        scene.owner.full = False
        link.room()
        assert scene.socket.did[-1] == "resume"
        link.room()
        assert scene.socket.did.count("resume") == 1

    play(act)


def test_closed_twice_is_closed_once(play: Any) -> None:
    def act(scene: Scene) -> None:
        link = scene.opened().link
        link.close("first", last=b"bye")
        link.close("second", last=b"bye")
        link.say(b"more")
        link.pump()
        assert scene.socket.written[1:] == [b"bye"]
        assert scene.socket.did.count("close") == 1
        assert link.why == "first"
        link.abort("third")
        assert scene.socket.did[-1] == "abort"

    play(act)


def test_given_up_during_the_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        link = Link(Owner(), dialled=PEER, host="", now=0.0)
        link.abort("too slow")
        socket = Socket()
        link.connection_made(socket)
        assert socket.did[-1] == "abort"
        assert socket.written == []

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("error", "why"),
    [(None, "the connection was closed"), (ConnectionResetError(104, "Reset"), "reset")],
)
def test_why_it_is_gone(play: Any, error: Exception | None, why: str) -> None:
    def act(scene: Scene) -> None:
        scene.link.connection_lost(error)
        assert scene.link.settled.result() == why
        assert scene.owner.told == ["gone"]

    play(act)
