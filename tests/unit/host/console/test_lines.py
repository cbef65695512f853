"""The local socket: a line in, a line out, whatever the line."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shoal.host.config import HostConfig
from shoal.host.console import lines
from shoal.host.console.lines import SOCKET, Console, Request, ask
from shoal.kernel.errors import UserError


async def echo(request: Request) -> Any:
    if request.ask == "fail":
        raise UserError("it cannot be", detail="because", hint="do this")
    return {"asked": request.ask, "key": request.key}


def talk(
    home: Path, act: Callable[[], Any], config: HostConfig | None = None, answer: Any = echo
) -> Any:
    """Run `act` in a thread while a console listens."""

    async def scene() -> Any:
        console = Console(home, answer, config or HostConfig())
        await console.start()
        try:
            return await asyncio.to_thread(act)
        finally:
            await console.stop()

    return asyncio.run(scene())


def raw(home: Path, data: bytes) -> list[Any]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(home / SOCKET))
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answers:
            return [json.loads(line) for line in answers]


def test_question_and_answer(tmp_path: Path) -> None:
    found = talk(tmp_path, lambda: ask(tmp_path, {"ask": "lookup", "key": "a"}))
    assert found == {"asked": "lookup", "key": "a"}


def test_an_error_comes_in_three_parts(tmp_path: Path) -> None:
    def act() -> None:
        ask(tmp_path, {"ask": "fail"})

    with pytest.raises(UserError) as raised:
        talk(tmp_path, act)
    assert str(raised.value) == "it cannot be\n  detail: because\n  hint: do this"


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b'{"ask": 1}', b'{"ask": "a", "x": 1}', b"\xff"]
)
def test_what_is_no_question(tmp_path: Path, line: bytes) -> None:
    good = b'{"ask": "still here"}'
    bad, answer = talk(tmp_path, lambda: raw(tmp_path, line + b"\n" + good + b"\n"))
    assert "cannot be read" in bad["error"]["what"]
    assert answer["ok"]["asked"] == "still here"


def test_a_line_that_is_too_long(tmp_path: Path) -> None:
    small = replace(HostConfig(), control_line_bytes_max=1_000)
    (answer,) = talk(tmp_path, lambda: raw(tmp_path, b"x" * 3_000), small)
    assert "too long" in answer["error"]["what"]


def test_only_its_owner_may_ask(tmp_path: Path) -> None:
    mode = talk(tmp_path, lambda: (tmp_path / SOCKET).stat().st_mode)
    assert mode & 0o777 == 0o600
    assert not (tmp_path / SOCKET).exists()


def test_what_an_earlier_life_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / SOCKET).write_text("", encoding="utf-8")
    assert talk(tmp_path, lambda: ask(tmp_path, {"ask": "a"}))


def test_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no host answers") as raised:
        ask(tmp_path, {"ask": "a"})
    assert "shoal up" in raised.value.hint


def test_a_home_with_too_long_a_path(tmp_path: Path) -> None:
    home = tmp_path / ("x" * 120)
    with pytest.raises(UserError, match="too long for a socket"):
        ask(home, {"ask": "a"})
    with pytest.raises(UserError, match="too long for a socket"):
        talk(home, lambda: None)


def test_so_many_callers_and_no_more(tmp_path: Path, descriptors_flat: None) -> None:
    few = replace(HostConfig(), control_clients_max=2)

    def act() -> Any:
        callers = []
        for _ in range(2):
            one = socket.socket(socket.AF_UNIX)
            one.connect(str(tmp_path / SOCKET))
            one.sendall(b'{"ask": "a"}\n')
            assert one.recv(100)
            callers.append(one)
        with socket.socket(socket.AF_UNIX) as third, third.makefile("rb") as answers:
            third.connect(str(tmp_path / SOCKET))
            refused = answers.readline()
        for one in callers:
            one.close()
        return json.loads(refused)

    assert "too many callers" in talk(tmp_path, act, few)["error"]["what"]


def test_the_end_waits_for_no_caller(tmp_path: Path) -> None:
    asked: list[str] = []

    async def never(request: Request) -> Any:
        asked.append(request.ask)
        await asyncio.sleep(3_600)

    async def scene() -> bytes:
        console = Console(tmp_path, never, HostConfig())
        await console.start()
        reader, writer = await asyncio.open_unix_connection(tmp_path / SOCKET)
        writer.write(b'{"ask": "a"}\n')
        while not asked:
            await asyncio.sleep(0.01)
        await console.stop()
        rest = await reader.read()
        writer.close()
        await writer.wait_closed()
        return rest

    answer: Awaitable[bytes] = scene()
    assert asyncio.run(answer) == b""  # type: ignore[arg-type]


def test_when_descriptors_run_out_it_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_NO_DESCRIPTOR_S", 0.01)
    accept, failures = lines.accept, [24, 24]

    async def sometimes(listening: socket.socket) -> object:
        if failures:
            raise OSError(failures.pop(), "no more")
        return await accept(listening)

    monkeypatch.setattr(lines, "accept", sometimes)
    assert talk(tmp_path, lambda: ask(tmp_path, {"ask": "a"}))["asked"] == "a"


@pytest.mark.parametrize("turns", range(8))
def test_who_connects_while_the_host_ends_is_hung_up_on(
    tmp_path: Path, descriptors_flat: None, turns: int
) -> None:
    """However far the connection has come: nobody waits for an answer of a host that is gone."""

    async def scene() -> bytes:
        console = Console(tmp_path, echo, HostConfig())
        await console.start()
        await asyncio.sleep(0)
        with socket.socket(socket.AF_UNIX) as caller:
            caller.settimeout(20)
            caller.connect(str(tmp_path / SOCKET))
            for _ in range(turns):
                await asyncio.sleep(0)
            await console.stop()
            try:
                return await asyncio.to_thread(caller.recv, 100)
            except ConnectionResetError:
                return b""

    assert asyncio.run(scene()) == b""
