"""How people and programs on this machine talk to a running host: JSON lines over a local socket.

    {"ask": "lookup", "key": "meters"}
    {"ok": {"key": "...", "owner": {"name": "p7", ...}, "hops": 3}}
    {"error": {"what": "...", "detail": "...", "hint": "..."}}

The socket lies in the host's home, mode 0600: who may use it is who may use the home. Answers are
plain data; what they hold is in `console/questions.py`.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from shoal.host.config import HostConfig
from shoal.kernel.errors import ShoalError, StorageError, UserError

__all__ = ["SOCKET", "Console", "Request", "ask"]

SOCKET: Final = "console.sock"
#: What the system allows for the path of a local socket, with the byte that ends it.
_PATH_BYTES_MAX = 107
_ANSWER_BYTES_MAX = 64 << 20


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What somebody wants to know; which fields count depends on `ask`."""

    ask: str
    key: str = ""
    peer: str = ""
    thing: str = ""
    lines: int = 0


Answerer = Callable[[Request], Awaitable[Any]]


class Console:
    """The local socket of a host."""

    def __init__(self, home: Path, answer: Answerer, config: HostConfig) -> None:
        self._path = home / SOCKET
        self._answer = answer
        self._config = config
        self._clients: dict[asyncio.Task[None], None] = {}
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen. A socket file that an earlier life left behind is replaced."""
        _check_length(self._path)
        self._path.unlink(missing_ok=True)
        try:
            self._server = await asyncio.start_unix_server(
                self._client, self._path, limit=self._config.control_line_bytes_max
            )
            self._path.chmod(0o600)
        except OSError as error:
            raise StorageError(
                f"cannot make the socket {self._path}",
                detail=str(error.strerror),
                hint="the home must be on a file system that has sockets; give another --home",
            ) from error

    async def stop(self) -> None:
        """Hang up."""
        if self._server is not None:
            self._server.close()
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        self._path.unlink(missing_ok=True)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._clients) >= self._config.control_clients_max:
            writer.write(_failed(UserError("host has too many callers", hint="try again")))
            writer.close()
            return
        self._clients[task] = None
        try:
            await self._converse(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # the caller has gone, or the host ends
        finally:
            del self._clients[task]
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer line after line."""
        while True:
            try:
                line = await reader.readline()
            except ValueError:
                writer.write(_failed(UserError("question is too long")))
                break
            if not line:
                break
            writer.write(await self._reply(line))
            await writer.drain()

    async def _reply(self, line: bytes) -> bytes:
        try:
            request = msgspec.json.decode(line, type=Request)
        except msgspec.DecodeError as error:
            return _failed(UserError("question cannot be read", detail=str(error)))
        try:
            return msgspec.json.encode({"ok": await self._answer(request)}) + b"\n"
        except ShoalError as error:
            return _failed(error)


def ask(home: Path, request: Mapping[str, Any], *, wait_s: float = 60.0) -> Any:
    """Ask the host that runs in this home."""
    path = home / SOCKET
    _check_length(path)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(wait_s)
            connection.connect(str(path))
            connection.sendall(msgspec.json.encode(request) + b"\n")
            with connection.makefile("rb") as answers:
                line = answers.readline(_ANSWER_BYTES_MAX)
    except OSError as error:
        raise UserError(
            f"no host answers in {home}",
            detail=str(error.strerror or error).lower(),
            hint=f"start one: `shoal up --home {home}`, or name its home with --home",
        ) from error
    if not line.endswith(b"\n"):
        raise UserError(f"host in {home} ended before it answered")
    answer = msgspec.json.decode(line)
    if "error" in answer:
        raise UserError(**answer["error"])
    return answer["ok"]


def _failed(error: ShoalError) -> bytes:
    parts = {"what": error.what, "detail": error.detail, "hint": error.hint}
    return msgspec.json.encode({"error": parts}) + b"\n"


def _check_length(path: Path) -> None:
    if len(bytes(path.absolute())) > _PATH_BYTES_MAX:
        raise UserError(
            f"path of the home is too long for a socket: {path}",
            detail=f"the system allows {_PATH_BYTES_MAX} bytes",
            hint="give a shorter --home",
        )
